import torch
from gymnasium.spaces import Box, Discrete

from arena.environments.counter_rng import derive, uniform


class Tug:
    """A rope between two sides: who pulls harder moves it, and whoever pulls tires."""

    max_decisions = 100
    observation_space = Box(-1.0, 1.0, (3,))  # of one agent: the rope, seen from its side; its strength; the other's
    action_space = Discrete(3)  # rest, pull, heave

    def __init__(self, num_envs, device):
        self.rope = torch.zeros(num_envs, device=device)
        self.strength = torch.zeros(num_envs, 2, device=device)

    def reset(self, seed, options=None):
        rows = options["reset_mask"] if options else torch.ones_like(self.rope, dtype=torch.bool)
        self.rope[rows] = 0.0
        self.strength[rows] = 0.5 + uniform(derive(seed[rows], 0))[:, None] / 2.0  # all chance follows from the seeds
        return self._see(), {}

    def step(self, actions):
        pulled = actions * self.strength  # (matches, sides)
        self.strength = (self.strength + 0.1 - 0.1 * actions).clamp(0.1, 1.0)
        self.rope = (self.rope + (pulled[:, 0] - pulled[:, 1]) / 8.0).clamp(-1.0, 1.0)
        won = (self.rope >= 1.0).float() - (self.rope <= -1.0).float()
        rewards, nothing = torch.stack([won, -won], dim=1), torch.zeros_like(won, dtype=torch.bool)
        return self._see(), rewards, won != 0.0, nothing, {}

    def _see(self):
        rope = torch.stack([self.rope, -self.rope], dim=1)
        return torch.stack([rope, self.strength, self.strength.flip(1)], dim=-1)
