"""A game of PettingZoo's interface that keeps every rule, and others that break one: without torch, for processes."""

import os
import signal
import threading

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from arena.environments.adapters.pettingzoo import HigherReturn, TwoSided


class Walk(ParallelEnv):
    """Who walks further in four steps has won."""

    def __init__(self):
        self.possible_agents = ["left", "right"]

    def observation_space(self, agent):
        return spaces.Box(0.0, 12.0, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.way, self.time = list(self.possible_agents), np.zeros(2, np.float32), 0
        self.chance = np.random.default_rng(seed)
        return self.look(), {agent: {} for agent in self.agents}

    def look(self):
        return dict.fromkeys(self.possible_agents, self.way.copy())

    def step(self, actions):
        self.time += 1
        self.way += [actions[agent] for agent in self.possible_agents]
        self.way += self.chance.integers(2, size=2)
        over = dict.fromkeys(self.agents, self.time == 4)
        rewards = {agent: float(self.way[number]) for number, agent in enumerate(self.possible_agents)}
        cut, infos = dict.fromkeys(self.agents, False), {agent: {} for agent in self.agents}
        return self.look(), rewards, over, cut, infos


class Local(Walk):
    """Is another one in every process."""

    def reset(self, seed=None, options=None):
        return super().reset(seed + os.getpid())


RELEASED = threading.Event()


class Lingering(Walk):
    """Starts a thread for which whoever opens it would wait at its end."""

    def reset(self, seed=None, options=None):
        threading.Thread(target=RELEASED.wait).start()
        return super().reset(seed)


class Suicidal(Walk):
    """Kills the process that it is played in."""

    def step(self, actions):
        os.kill(os.getpid(), signal.SIGKILL)


class Colourful(HigherReturn):
    """Names its colours in another order wherever it is declared."""

    @property
    def rule(self):
        return {"colours": list({"red", "green", "blue", "white", "black", "grey"})}


unordered = TwoSided(Walk, scoring=Colourful())
