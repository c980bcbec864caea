"""Train connect four with PPO of Stable-Baselines3 against the opponents of a league."""

import sys
import time

from pettingzoo import make
from safetensors.torch import load, save
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy

from league.client import attach
from league.client.session.opponent_env import OpponentEnv
from league.wire import LearnerCreate

LEARNER = LearnerCreate(name="sb3", role="main", environment="connect-four-sb3", signature="connect-four-sb3-1")
SNAPSHOT_STEPS = 2048


class Publish(BaseCallback):
    """Send metrics, publish snapshots, and end the training after the given time."""

    def __init__(self, session, seconds):
        super().__init__()
        self.session, self.end, self.due, self.ended = session, time.monotonic() + seconds, 0, False

    def _on_step(self):
        return not self.ended and not self.session.should_stop

    def _on_rollout_end(self):
        self.ended = time.monotonic() > self.end

    def _on_rollout_start(self):
        losses = {name: float(value) for name, value in self.logger.name_to_value.items() if name.startswith("train/")}
        self.session.log(losses, self.num_timesteps)
        if self.num_timesteps >= self.due:
            self.due += SNAPSHOT_STEPS
            self.session.publish(save(self.model.policy.state_dict()), self.num_timesteps)


def load_opponent(checkpoint):
    policy = model.policy
    if checkpoint is not None:
        policy = ActorCriticPolicy(env.observation_space, env.action_space, lr_schedule=lambda _: 0.0)
        policy.load_state_dict(load(checkpoint))
    return lambda observation, mask: int(policy.predict(observation)[0])


with attach(LEARNER, worker="sb3-1") as session:
    env = OpponentEnv(session, make("aec", "classic/connect_four-v3"), load_opponent)
    model = PPO("MlpPolicy", env, learning_rate=1e-3, n_steps=256, device="cpu")
    model.learn(10**9, Publish(session, float(sys.argv[1])))
