"""Games of the PettingZoo interface that show and ask for everything that a network fits, and modules of a user's."""

import numpy as np
import torch
from gymnasium import spaces
from pettingzoo import ParallelEnv
from torch import nn

from arena.environments.adapters.pettingzoo import TwoSided

CARDS, UNITS, SIDE = 100, 4, 9


class Bazaar(ParallelEnv):
    """Two traders, who see a picture, a card of many, units with a mask and a purse, and do four things at once.

    A match lasts four decisions. A trader earns for the target that the mask allows and the units show, for the price
    nearest to its purse, and for the switches that are on in the picture's corner.
    """

    possible_agents = ("left", "right")

    def __init__(self, as_spaces=False):
        self._as_spaces = as_spaces

    def observation_space(self, agent):
        return spaces.Dict(
            {
                "picture": spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8),
                "card": spaces.Discrete(CARDS, start=1),
                "units": spaces.Dict(
                    {
                        "where": spaces.Box(-1.0, 1.0, (UNITS, 2), np.float32),
                        "kind": spaces.MultiDiscrete([3] * UNITS),
                    }
                ),
                "units_mask": spaces.MultiBinary(UNITS),
                "purse": spaces.Tuple((spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2))),
            }
        )

    def action_space(self, agent):
        return spaces.Dict(
            {
                "target": spaces.Discrete(UNITS + 1),
                "ware": spaces.MultiDiscrete([2, 3], start=[0, 1]),
                "stalls": spaces.MultiBinary(2),
                "price": spaces.Tuple((spaces.Box(0.0, 10.0, (1,), np.float32), spaces.Discrete(2, start=5))),
            }
        )

    def reset(self, seed=None, options=None):
        self.agents, self._time = list(self.possible_agents), 0
        self._chance, self.done = np.random.default_rng(seed), []
        return self._look(), self._infos()

    def _look(self):
        seen = {}
        for agent in self.agents:
            there = np.arange(UNITS) < self._chance.integers(1, UNITS + 1)
            seen[agent] = {
                "picture": self._chance.integers(256, size=(SIDE, SIDE, 3), dtype=np.uint8),
                "card": int(self._chance.integers(1, CARDS + 1)),
                "units": {
                    "where": self._chance.uniform(-1.0, 1.0, (UNITS, 2)).astype(np.float32),
                    "kind": self._chance.integers(3, size=UNITS),
                },
                "units_mask": there.astype(np.int8),
                "purse": (self._chance.random(1, np.float32), int(self._chance.integers(2))),
            }
        self.seen = seen
        return seen

    def _infos(self):
        """Masks as the space is made, or in one row."""
        infos = {}
        for agent in self.agents:
            target = np.array([0, *self.seen[agent]["units_mask"]], dtype=np.int8)
            ware = (np.array([1, 0], dtype=np.int8), np.array([0, 1, 1], dtype=np.int8))
            stalls, last = np.array([1, 0], dtype=np.int8), np.array([1, 1], dtype=np.int8)
            mask = {"target": target, "ware": ware, "stalls": stalls}
            infos[agent] = {"action_mask": mask if self._as_spaces else np.concatenate([last, stalls, target, *ware])}
        return infos

    def step(self, actions):
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action), action
            assert self.seen[agent]["units_mask"][action["target"] - 1], "only units that are there"
            assert (action["ware"][0], action["stalls"][1]) == (0, 0), "what the mask forbids"
        self.done.append(actions)
        self._time += 1
        paid = {agent: self._pay(self.seen[agent], action) for agent, action in actions.items()}
        over = self._time == 4
        infos = self._infos()
        seen = self._look()
        infos = self._infos()
        self.agents = [] if over else self.agents
        return seen, paid, dict.fromkeys(actions, over), dict.fromkeys(actions, False), infos

    def _pay(self, seen, action):
        kinds = seen["units"]["kind"]
        return float(kinds[action["target"] - 1] == kinds[seen["units_mask"] > 0].max()) - abs(
            float(action["price"][0][0]) / 10.0 - float(seen["purse"][0][0])
        )


bazaar = TwoSided(Bazaar, chosen_from={"target": "units"})
bazaar_as_spaces = TwoSided(lambda: Bazaar(as_spaces=True), chosen_from={"target": "units"})


class Reader(nn.Module):
    """Reads a bazaar in the encoder's place."""

    def __init__(self, inputs, features):
        super().__init__()
        self.inputs = inputs
        self.cards = nn.Embedding(inputs["card"].options[0], 4)
        pixels = int(np.prod(inputs["picture"].shape))
        self.layer = nn.Linear(pixels + 4 + 2 * UNITS + UNITS, features)

    def forward(self, seen):
        where = seen["units.where"] * seen["units_mask"].unsqueeze(-1)
        cards = self.cards(seen["card"].squeeze(1))
        parts = [seen["picture"].flatten(1), cards, where.flatten(1), seen["units_mask"].float()]
        return torch.tanh(self.layer(torch.cat(parts, dim=1)))


class Rememberer(nn.Module):
    """Reads all blocks of any game in the place of encoder and core, with a gated memory."""

    def __init__(self, inputs, features):
        super().__init__()
        self.memory_size = 6
        size = sum(int(np.prod(each.shape)) for each in inputs.values())
        self.cell = nn.GRUCell(size, self.memory_size)
        self.out = nn.Linear(self.memory_size, features)
        self.register_buffer("scale", torch.tensor(1.0), persistent=False)

    def forward(self, seen, memory):
        memory = self.cell(torch.cat([each.flatten(1).float() for each in seen.values()], dim=1), memory)
        return torch.tanh(self.out(memory)) * self.scale, memory


class Forgetful(Rememberer):
    """The same with nothing to remember."""

    def __init__(self, inputs, features):
        super().__init__(inputs, features)
        self.memory_size = 0

    def forward(self, seen):
        size = self.cell.hidden_size
        rows = next(iter(seen.values()))
        return super().forward(seen, torch.ones(len(rows), size, device=rows.device))[0]


class Flawed(nn.Module):
    """Has a flaw, which its subclasses say."""

    memory_size = 0

    def __init__(self, inputs, features):
        super().__init__()
        self.layer = nn.Linear(sum(int(np.prod(each.shape)) for each in inputs.values()), features)

    def flatten(self, seen):
        return torch.cat([each.flatten(1).float() for each in seen.values()], dim=1)

    def forward(self, seen):
        return self.layer(self.flatten(seen))


class Wide(Flawed):
    def forward(self, seen):
        return torch.cat([super().forward(seen)] * 2, dim=1)


class Unlearned(Flawed):
    def __init__(self, inputs, features):
        super().__init__(inputs, features)
        self.spare = nn.Linear(2, 2)


class Frozen(Flawed):
    def forward(self, seen):
        return super().forward(seen).detach()


class Dropping(Flawed):
    def forward(self, seen):
        return nn.functional.dropout(super().forward(seen), 0.5, self.training)


class Normed(Flawed):
    def __init__(self, inputs, features):
        super().__init__(inputs, features)
        self.norm = nn.BatchNorm1d(features)

    def forward(self, seen):
        return self.norm(super().forward(seen))


class Counting(Flawed):
    def __init__(self, inputs, features):
        super().__init__(inputs, features)
        self.register_buffer("calls", torch.tensor(0.0))

    def forward(self, seen):
        self.calls += 1.0
        return super().forward(seen)


class Gossiping(Flawed):
    def forward(self, seen):
        made = super().forward(seen)
        return made - made.mean(dim=0)


class Double(Flawed):
    def __init__(self, inputs, features):
        super().__init__(inputs, features)
        self.layer.double()


class Empty(nn.Module):
    memory_size = 0

    def __init__(self, inputs, features):
        super().__init__()
        self.features = features

    def forward(self, seen):
        return torch.zeros(len(next(iter(seen.values()))), self.features)


class Failing(Flawed):
    def forward(self, seen):
        raise KeyError("purse")


class Infinite(Flawed):
    def forward(self, seen):
        return super().forward(seen) / 0.0


class Shrinking(Flawed):
    memory_size = 3

    def forward(self, seen, memory):
        return super().forward(seen), memory[:, :1]


class Unmeasured(Flawed):
    memory_size = None


class Other:
    """No module."""

    def __init__(self, inputs, features):
        """It takes the same."""


class Bare(nn.Module):
    """Takes nothing."""
