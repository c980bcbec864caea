"""`pgx:GAME`, `gymnax:GAME` and `jaxmarl:GAME` as environments."""

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from arena.environments.adapters.calls import game_errors
from arena.environments.adapters.jax import from_gymnax, from_jaxmarl, from_pgx
from arena.environments.adapters.vector.declare import Declared, inspect_game
from arena.environments.adapters.vector.env import TensorMatches
from arena.environments.adapters.vector.game import TensorGame
from arena.environments.spec import EnvironmentSpec
from arena.errors import MissingPackageError, UnknownEnvironmentError
from arena.extras import named_extra

REMEMBERED_GAMES = 8
"""Games whose declarations and compiled functions are cached."""

ZERO_SUM = (
    "animal_shogi",
    "backgammon",
    "chess",
    "connect_four",
    "gardner_chess",
    "go_9x9",
    "go_19x19",
    "hex",
    "kuhn_poker",
    "leduc_holdem",
    "othello",
    "shogi",
    "tic_tac_toe",
)


def make_jax(name: str, *, num_envs: int, device: str, seed: int) -> TensorMatches:
    """Make matches of `LIBRARY:GAME`. Errors as in `declare_jax`."""
    return TensorMatches(_declared(name), num_envs=num_envs, device=device, seed=seed)


def declare_jax(name: str) -> EnvironmentSpec:
    """Return the spec of `LIBRARY:GAME`.

    Raises:
        MissingPackageError: The library is not installed.
        UnknownEnvironmentError: The library has no such game.
        ArenaError: The game cannot be played by two sides.
    """
    return _declared(name).spec


@lru_cache(maxsize=REMEMBERED_GAMES)
def _declared(name: str) -> Declared:
    library, _, game = name.partition(":")
    return inspect_game(name, LIBRARIES[library](name, game))


def _pgx(name: str, game: str) -> TensorGame:
    pgx = _library(name, "pgx")
    _require_known(name, game, pgx.available_envs())
    return from_pgx(pgx.make(game), zero_sum=True if game in ZERO_SUM else None)


def _gymnax(name: str, game: str) -> TensorGame:
    gymnax = _library(name, "gymnax")
    _require_known(name, game, gymnax.registered_envs)
    with game_errors(name, "be made"):
        env, params = gymnax.make(game)
    return from_gymnax(env, params)


def _jaxmarl(name: str, game: str) -> TensorGame:
    jaxmarl = _library(name, "jaxmarl")
    _require_known(name, game, jaxmarl.registered_envs)
    with game_errors(name, "be made"):
        env = jaxmarl.make(game)
    return from_jaxmarl(env)


LIBRARIES: Mapping[str, Callable[[str, str], TensorGame]] = MappingProxyType(
    {"pgx": _pgx, "gymnax": _gymnax, "jaxmarl": _jaxmarl}
)
"""Ways to make a game by name, by the part before the colon."""


def _library(name: str, package: str) -> Any:  # noqa: ANN401  a module
    try:
        with _no_output():
            return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise named_extra(error, name) or MissingPackageError(f"{name} does not load ({error})") from error


@contextlib.contextmanager
def _no_output() -> Iterator[None]:
    """Suppress the output of an import, which would precede a command's JSON.

    JaxMARL 0.2.0 prints, and sets `sys.stdout` to `sys.__stdout__` before that.
    """
    before = sys.__stdout__
    with contextlib.redirect_stdout(io.StringIO()) as dropped:
        try:
            setattr(sys, "__stdout__", dropped)  # noqa: B010  typed as constant
            yield
        finally:
            setattr(sys, "__stdout__", before)  # noqa: B010


def _require_known(name: str, game: str, known: Any) -> None:  # noqa: ANN401  names, in the library's own container
    if game not in known:
        raise UnknownEnvironmentError(f"unknown environment {name!r}: choose one of {', '.join(sorted(known))}")
