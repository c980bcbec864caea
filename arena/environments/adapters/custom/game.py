"""Environment specs of user-defined games. Torch is loaded only for vector games, because others may run in workers."""

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from arena.environments.adapters.custom.baselines import scripted_players
from arena.environments.adapters.custom.lookup import batch_factory, find
from arena.environments.adapters.match import SingleMatchGame
from arena.environments.adapters.pettingzoo.declare import Declared, inspect_game
from arena.environments.adapters.pettingzoo.matches import open_match
from arena.environments.adapters.sides import TwoSided
from arena.environments.adapters.vector.game import as_tensor_game
from arena.environments.spec import EnvironmentSpec
from arena.errors import GameError

if TYPE_CHECKING:
    from arena.environments.adapters.vector import declare as tensors

KEPT_GAMES = 8
"""Number of cached declarations."""


@lru_cache(maxsize=KEPT_GAMES)
def spec_of_custom(name: str) -> EnvironmentSpec:
    """Return a game's environment spec.

    Raises:
        UnknownEnvironmentError: There is no such game.
        ArenaError: The object is not a game, or has no two sides.
    """
    found = find(name)
    scripted_players(name)  # validates them
    if as_tensor_game(found) is not None:
        return declared_tensors(name).spec
    factory = batch_factory(found)
    if factory is None:
        return _declared(name).spec
    spec: EnvironmentSpec = factory(name, num_envs=1, device="cpu", seed=0).spec
    if spec.name != name:
        raise GameError(f"{name} declares the name {spec.name!r}: give its spec the name that it is called by")
    return spec


@lru_cache(maxsize=KEPT_GAMES)
def declared_tensors(name: str) -> "tensors.Declared":
    """Return a vector game with its spec.

    Raises:
        ArenaError: It is not a vector game, or its spaces have no fixed size.
    """
    from arena.environments.adapters.vector.declare import inspect_game as look_at_tensors

    game = as_tensor_game(find(name))
    if game is None:
        raise GameError(f"{name} steps no batch of matches as tensors: see docs/guides/games/tensors.md")
    return look_at_tensors(name, game)


def host_own(name: str) -> SingleMatchGame:
    """Return a game as a single-match game."""
    declared = _declared(name)
    return SingleMatchGame(declared.spec, partial(open_match, declared))


@lru_cache(maxsize=KEPT_GAMES)
def _declared(name: str) -> Declared:
    found = find(name)
    if isinstance(found, TwoSided):
        return inspect_game(name, found)
    if not callable(found):
        kind = type(found).__name__
        raise GameError(f"{name} is a {kind}: use a callable that creates a PettingZoo environment, or a TwoSided")
    return inspect_game(name, TwoSided(found))
