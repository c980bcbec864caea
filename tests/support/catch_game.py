"""Catch: what falls is seen in pixels and nowhere else."""

from dataclasses import replace

import torch

from arena.environments import ActionHead, EnvironmentSpec, HeadKind
from arena.environments.base import Observation, Outcome, StepResult
from arena.environments.seeded import SeededBatch
from arena.environments.spec import Channels, ImageBlock

SIDE, PLAYERS = 8, 2
LEFT, STAY, RIGHT = range(3)


class Catch(SeededBatch):
    """Each of two players has a picture of its own, in which a stone falls into one of eight columns in 7 decisions.

    A player begins in column 4 and moves by one column at a time. It earns 1 if it stands below the stone in the end,
    else nothing. Who never looks earns about 1 in 8.
    """

    def __init__(self, name, *, num_envs, device, seed):
        spec = EnvironmentSpec(
            name=name,
            agents_per_side=(1, 1),
            roles=("player",) * PLAYERS,
            observation=(ImageBlock("picture", (SIDE, SIDE), 0.0, 1.0, Channels.LAST),),
            heads=(ActionHead("move", HeadKind.CATEGORICAL, 3, masked=False),),
            max_decisions=SIDE - 1,
            turn_based=False,
            reproducible=True,
            limit_decides=False,
            reasons=("fallen",),
            rules={},
        )
        super().__init__(spec, num_envs=num_envs, device=device, seed=seed)
        self.height = 0
        self.place = torch.full((num_envs, PLAYERS), SIDE // 2)

    @property
    def column(self):
        """Of each player's stone, by three bits of the match's seed."""
        return torch.stack([self.seeds >> (3 * player) & (SIDE - 1) for player in range(PLAYERS)], dim=1)

    def reset(self, seeds=None):
        self._open_all(seeds)
        return self._begin()

    def step(self, actions):
        self._require_fit(actions)
        self.height += 1
        self.place = (self.place + actions["move"] - STAY).clamp(0, SIDE - 1)
        caught = (self.place == self.column).double()
        over = torch.full((self.num_envs,), self.height == SIDE - 1)
        final, decisions = self._observe(), torch.full((self.num_envs,), self.height)
        result = StepResult(
            observation=final,
            reward=torch.where(over.unsqueeze(1), caught, 0.0).float(),
            terminated=over,
            truncated=torch.zeros_like(over),
            final_observation=final,
            outcome=Outcome(
                torch.where(over, (1.0 + caught[:, 0] - caught[:, 1]) / 2.0, 0.5),
                torch.zeros_like(decisions),
                decisions,
            ),
        )
        if not over.any():
            return result
        self._open_episodes(over)
        return replace(result, observation=self._begin())

    def _begin(self):
        self.height = 0
        self.place = torch.full((self.num_envs, PLAYERS), SIDE // 2)
        return self._observe()

    def _observe(self):
        picture = torch.zeros(self.num_envs, PLAYERS, SIDE, SIDE)
        rows, players = torch.arange(self.num_envs).unsqueeze(1), torch.arange(PLAYERS)
        picture[rows, players, self.height, self.column] = 1.0
        picture[rows, players, SIDE - 1, self.place] = 1.0
        return Observation(picture.flatten(2), {}, torch.ones(self.num_envs, PLAYERS, dtype=torch.bool))


def catch(name, *, num_envs, device, seed):
    """The game by its name."""
    return Catch(name, num_envs=num_envs, device=device, seed=seed)
