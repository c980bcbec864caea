"""PettingZoo games as arena environments."""

from functools import lru_cache, partial

from arena.environments.adapters.match import SingleMatchGame
from arena.environments.adapters.pettingzoo.declare import Declared, inspect_game
from arena.environments.adapters.pettingzoo.library import find_game
from arena.environments.adapters.pettingzoo.matches import open_match
from arena.environments.spec import EnvironmentSpec

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
