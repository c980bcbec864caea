"""PettingZoo games as arena environments."""

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from arena.environments.adapters.match import SingleMatchGame
from arena.environments.adapters.pettingzoo.declare import Declared, inspect_game
from arena.environments.adapters.pettingzoo.library import find_game
from arena.environments.adapters.pettingzoo.matches import open_match
from arena.environments.spec import EnvironmentSpec

if TYPE_CHECKING:
    from arena.environments.adapters.subprocess.env import SyncBatch

OPENER = "arena.environments.adapters.pettingzoo.game:host_pettingzoo"

KEPT_GAMES = 8
"""Number of cached declarations."""


@lru_cache(maxsize=KEPT_GAMES)
def _declared(name: str) -> Declared:
    return inspect_game(name, find_game(name))


def declare_pettingzoo(name: str) -> EnvironmentSpec:
    """Return the spec of `LIBRARY:GAME`; `find_game` and `inspect_game` list the errors."""
    return _declared(name).spec


def host_pettingzoo(name: str) -> SingleMatchGame:
    """Return `LIBRARY:GAME` as a single-match game."""
    declared = _declared(name)
    return SingleMatchGame(declared.spec, partial(open_match, declared))


def make_pettingzoo(
    name: str, *, num_envs: int, device: str, seed: int, processes: int, step_limit_s: float
) -> "SyncBatch":
    """Return the batch of `LIBRARY:GAME`. Errors as in `find_game` and `inspect_game`."""
    from arena.environments.adapters.subprocess.factory import make_batch  # loads torch, which workers do without

    return make_batch(
        OPENER, name, num_envs=num_envs, device=device, seed=seed, processes=processes, step_limit_s=step_limit_s
    )
