"""Games that do not do what the interface says that they have."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Fitting(ParallelEnv):
    """Nobody earns anything, and it ends at once."""

    possible_agents = ("red", "blue")

    def observation_space(self, agent):
        return Box(0.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return self.look(), {agent: {} for agent in self.agents}

    def look(self):
        return {agent: np.zeros(2, np.float32) for agent in self.possible_agents}

    def step(self, actions):
        return self.look(), dict.fromkeys(actions, 0.0), dict.fromkeys(actions, True), dict.fromkeys(actions, False), {}


class Long(Fitting):
    def look(self):
        return {agent: np.zeros(3, np.float32) for agent in self.possible_agents}


class Wordy(Fitting):
    def look(self):
        return dict.fromkeys(self.possible_agents, "none")


class Old(Fitting):
    def step(self, actions):
        return super().step(actions)[:4]


class Uninformed(Fitting):
    def reset(self, seed=None, options=None):
        return super().reset()[0]


class Seedless(Fitting):
    def reset(self):
        return super().reset()


class Demanding(Fitting):
    def __init__(self, size):
        self.size = size


class Spaceless(Fitting):
    def action_space(self, agent):
        return {"red": Discrete(2)}[agent]


class Tensors:
    """The same of tensors."""

    observation_space, action_space = Box(0.0, 1.0, (2,)), Discrete(2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seed, options=None):
        return np.zeros((self.num_envs, 2, 2)), {}

    def step(self, actions):
        ended, not_cut = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        return self.reset(None)[0], np.zeros((self.num_envs, 2)), ended, not_cut, {}


class FourTensors(Tensors):
    def step(self, actions):
        return super().step(actions)[:4]


class NoTensors(Tensors):
    def reset(self, seed, options=None):
        return None


class DemandingTensors(Tensors):
    def __init__(self, num_envs, size):
        self.size = size


class SeedlessTensors(Tensors):
    def reset(self):
        return None
