"""Train connect four with PPO of RLlib against the opponents of a league."""

import sys
import time
from copy import deepcopy

import gymnasium
import torch
from pettingzoo import make
from ray.rllib.algorithms.ppo import PPOConfig
from safetensors.torch import load, save

from league.client import attach
from league.client.session.opponent_env import OpponentEnv
from league.wire import LearnerCreate

LEARNER = LearnerCreate(name="rllib", role="main", environment="connect-four-rllib", signature="four-rllib-1")
SNAPSHOT_UPDATES = 4


@torch.no_grad()
def act(module, observation, mask):
    logits = module.forward_inference({"obs": torch.from_numpy(observation)[None]})["action_dist_inputs"][0]
    logits[torch.from_numpy(mask) == 0] = -torch.inf
    return int(torch.distributions.Categorical(logits=logits).sample())


def load_opponent(checkpoint):
    if algorithm is None:  # RLlib resets the environment before it has a network
        return lambda observation, mask: int(mask.argmax())
    module = algorithm.get_module()
    if checkpoint is not None:
        module = deepcopy(module)
        module.load_state_dict(load(checkpoint))
    return lambda observation, mask: act(module, observation, mask)


algorithm = None
with attach(LEARNER, worker="rllib-1") as session:
    # RLlib pickles what it registers itself, and a session cannot be pickled
    gymnasium.register("league-v0", lambda: OpponentEnv(session, make("aec", "classic/connect_four-v3"), load_opponent))
    config = PPOConfig().environment("league-v0").env_runners(num_env_runners=0)  # matches are played in this process
    config.training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=8, lr=1e-3)
    algorithm = config.build_algo()
    end, number = time.monotonic() + float(sys.argv[1]), 0
    while time.monotonic() < end and not session.should_stop:
        result = algorithm.train()
        step = result["num_env_steps_sampled_lifetime"]
        losses = result["learners"]["default_policy"]
        session.log({name: float(losses[name]) for name in ("policy_loss", "vf_loss", "entropy")}, int(step))
        if number % SNAPSHOT_UPDATES == 0:
            session.publish(save(algorithm.get_module().state_dict()), int(step))
        number += 1
    algorithm.stop()
