from collections.abc import Callable, Sequence

import pytest
import torch
from mech_play import idle

from arena.environments import make
from arena.environments.base import Actions
from arena.environments.mech.config.constants import MOVES
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.env import MechEnvironment


@pytest.fixture
def orders() -> Callable[..., Actions]:
    """Makes a duel's actions (E, 2) from what home and away do; whatever is not named is 0 or off."""

    def give(
        home: Sequence[str] = (),
        away: Sequence[str] = (),
        num_envs: int = 1,
        target: Sequence[int] = (0, 0),
        **moves: Sequence[float],
    ) -> Actions:
        trigger = torch.tensor([[name in side for name in TRIGGERS] for side in (home, away)])
        move = torch.tensor([[moves.get(name, (0.0, 0.0))[side] for name in MOVES] for side in (0, 1)])
        return {
            "move": move.expand(num_envs, 2, -1),
            "trigger": trigger.expand(num_envs, 2, -1),
            "target": torch.tensor(target).expand(num_envs, 2),
        }

    return give


@pytest.fixture
def duel() -> Callable[..., MechEnvironment]:
    """Makes one duel with mechs placed by hand: positions in the plane, headings, and any other array, home first.

    An idle decision is played first, so that everybody has looked.
    """

    def place(positions: Sequence, headings: Sequence, **arrays: Sequence) -> MechEnvironment:
        env = make("mech-duel", num_envs=1)
        env.reset(torch.tensor([0]))
        placed = {"position": [(*position, 0.0) for position in positions], "heading": headings}
        _write(env, placed)
        env.step(idle(env.spec))
        _write(env, {**placed, "decision": 0, "tick": 0, "zone_s": (0.0, 0.0), **arrays})
        return env

    return place


def _write(env: MechEnvironment, values: dict) -> None:
    for name, value in values.items():
        env.arrays[name][0] = torch.tensor(value, dtype=env.arrays[name].dtype)
