"""Games of the PettingZoo interface as environments of the arena."""

from functools import lru_cache, partial

from arena.environments.adapters.match import SingleMatchGame
from arena.environments.adapters.pettingzoo.declare import Declared, inspect_game
from arena.environments.adapters.pettingzoo.library import find_game
from arena.environments.adapters.pettingzoo.matches import open_match
from arena.environments.spec import EnvironmentSpec

KEPT_GAMES = 8
"""Games whose declarations stay in memory."""


@lru_cache(maxsize=KEPT_GAMES)
def _declared(name: str) -> Declared:
    return inspect_game(name, find_game(name))


def declare_pettingzoo(name: str) -> EnvironmentSpec:
    """What `LIBRARY:GAME` declares; see `find_game` and `inspect_game` for what is refused."""
    return _declared(name).spec


def host_pettingzoo(name: str) -> SingleMatchGame:
    """`LIBRARY:GAME`, one match at a time."""
    declared = _declared(name)
    return SingleMatchGame(declared.spec, partial(open_match, declared))
