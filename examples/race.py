import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv


class Race(ParallelEnv):
    possible_agents = ("red", "blue")

    def observation_space(self, agent):
        return Box(0.0, 1.5, (2,), np.float32)  # one's own way so far, and the other's

    def action_space(self, agent):
        return Discrete(3)  # walk one step, run two, or sprint three

    def reset(self, seed=None, options=None):
        self.agents, self.way = list(self.possible_agents), {"red": 0, "blue": 0}
        self.chance = np.random.default_rng(seed)
        return self._see(), {agent: {} for agent in self.agents}

    def step(self, actions):
        for agent, pace in actions.items():  # who is faster stumbles more often
            self.way[agent] += (pace + 1) * (self.chance.random() > 0.25 * pace)
        ahead, over = self.way["red"] - self.way["blue"], max(self.way.values()) >= 12
        rewards = {"red": float(np.sign(ahead)) * over, "blue": float(np.sign(-ahead)) * over}
        self.agents = [] if over else self.agents
        ended, cut = dict.fromkeys(actions, over), dict.fromkeys(actions, False)
        return self._see(), rewards, ended, cut, {agent: {} for agent in actions}

    def _see(self):
        red, blue = self.way["red"] / 12, self.way["blue"] / 12
        return {"red": np.array([red, blue], np.float32), "blue": np.array([blue, red], np.float32)}
