from collections.abc import Callable, Sequence

import pytest
import torch

from arena.environments import make
from arena.environments.mech.rules import MOVES, TRIGGERS
from arena.environments.mech.simulation import MechEnvironment
from arena.environments.protocol import Actions


@pytest.fixture
def orders() -> Callable[..., Actions]:
    """Makes actions (E, 2) from what home and away do; whatever is not named is 0 or off."""

    def give(
        home: Sequence[str] = (), away: Sequence[str] = (), num_envs: int = 1, **moves: Sequence[float]
    ) -> Actions:
        trigger = torch.tensor([[name in side for name in TRIGGERS] for side in (home, away)])
        move = torch.tensor([[moves.get(name, (0.0, 0.0))[side] for name in MOVES] for side in (0, 1)])
        return {"move": move.expand(num_envs, 2, -1), "trigger": trigger.expand(num_envs, 2, -1)}

    return give


@pytest.fixture
def duel() -> Callable[..., MechEnvironment]:
    """Makes one match with mechs placed by hand: positions, headings, and any other array, home first."""

    def place(positions: Sequence, headings: Sequence, **arrays: Sequence) -> MechEnvironment:
        env = make("mech-duel", num_envs=1)
        env.reset(torch.tensor([0]))
        for name, value in {"position": positions, "heading": headings, **arrays}.items():
            env.arrays[name][0] = torch.tensor(value, dtype=env.arrays[name].dtype)
        return env

    return place
