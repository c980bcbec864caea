"""Train connect four with PPO of Stable-Baselines3 against the opponents of a league."""

import sys
import time
from functools import lru_cache

import gymnasium
import numpy as np
from pettingzoo.classic import connect_four_v3
from safetensors.torch import load, save
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy

from league.client import attach
from league.wire import LearnerCreate

LEARNER = LearnerCreate(name="sb3", role="main", environment="connect-four-sb3", signature="connect-four-sb3-1")
SNAPSHOT_STEPS = 8192


class LeagueMatches(gymnasium.Env):
    """Connect four against league opponents: an episode is a match. An illegal move is replaced by a random one."""

    observation_space = gymnasium.spaces.Box(0, 1, (84,), np.float32)
    action_space = gymnasium.spaces.Discrete(7)

    def __init__(self, session):
        self.session, self.model, self.rng = session, None, np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        self.match = self.session.next_match()
        if self.match is None:
            raise SystemExit("the league stopped this worker")
        self.game, self.moves = connect_four_v3.env(), 0
        self.game.reset(seed=self.match.seed % 2**31)
        self.learner = "player_0" if self.match.side == "home" else "player_1"
        checkpoint = self.session.weights(self.match.opponent)
        itself = self.match.opponent.checkpoint is None
        self.opponent = opponent_of(checkpoint) if checkpoint else self.model.policy if itself else None
        self.play_opponent()
        return self.seen(), {}

    def step(self, action):
        self.play(int(action))
        self.play_opponent()
        _, _, ended, _, _ = self.game.last()
        reward = float(self.game.rewards[self.learner]) if ended else 0.0
        if ended:
            self.session.report(self.match, (1 + reward) / 2, self.moves)
        return self.seen(), reward, ended, False, {}

    def seen(self):
        return self.game.observe(self.learner)["observation"].reshape(-1).astype(np.float32)

    def play(self, action):
        mask = self.game.observe(self.game.agent_selection)["action_mask"]
        legal = np.flatnonzero(mask)
        self.game.step(int(action if action is not None and mask[action] else self.rng.choice(legal)))
        self.moves += 1

    def play_opponent(self):
        while self.game.agent_selection != self.learner and not any(self.game.terminations.values()):
            seen = self.game.observe(self.game.agent_selection)["observation"].reshape(-1).astype(np.float32)
            self.play(None if self.opponent is None else int(self.opponent.predict(seen)[0]))


@lru_cache(32)
def opponent_of(checkpoint):
    space, actions = LeagueMatches.observation_space, LeagueMatches.action_space
    policy = ActorCriticPolicy(space, actions, lr_schedule=lambda _: 0.0)
    policy.load_state_dict(load(checkpoint))
    return policy


class Publish(BaseCallback):
    """Send metrics, publish snapshots, and end the training after the given time."""

    def __init__(self, session, seconds):
        super().__init__()
        self.session, self.end, self.due = session, time.monotonic() + seconds, 0

    def _on_step(self):
        return time.monotonic() < self.end and not self.session.should_stop

    def _on_rollout_start(self):
        losses = {name: float(value) for name, value in self.logger.name_to_value.items() if name.startswith("train/")}
        self.session.log(losses, self.num_timesteps)
        if self.num_timesteps >= self.due:
            self.due += SNAPSHOT_STEPS
            self.session.publish(save(self.model.policy.state_dict()), self.num_timesteps)


with attach(LEARNER, worker="sb3-1") as session:
    matches = LeagueMatches(session)
    matches.model = PPO("MlpPolicy", matches, n_steps=1024, device="cpu")
    matches.model.learn(10**9, Publish(session, float(sys.argv[1])))
