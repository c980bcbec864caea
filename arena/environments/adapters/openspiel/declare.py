"""Environment specs of OpenSpiel games, and cached game trees of the small ones."""

import hashlib
import math
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena.environments.adapters.openspiel.library import (
    TooLargeForTablesError,
    has_information_states,
    is_stochastic,
    load_game,
    require_names,
)
from arena.environments.adapters.openspiel.probe import Playouts, probe_game
from arena.environments.adapters.openspiel.tree import MAX_NODES, SMALLER, GameTree, unroll
from arena.environments.adapters.sides import LIMIT, REASONS
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock

if TYPE_CHECKING:
    from pyspiel import Game

HEAD = "action"
KEPT_GAMES = 8
"""Number of cached trees."""

CLEARLY = 10.0
"""A game estimated to exceed the limit by this factor is not unrolled."""


@lru_cache(maxsize=KEPT_GAMES)
def tree_of(name: str) -> GameTree:
    """Return the game tree of `openspiel:GAME`.

    Raises:
        ArenaError: OpenSpiel is not installed, or the game is not supported.
        TooLargeForTablesError: It is too large, or OpenSpiel does not provide full information states.
        UnknownEnvironmentError: OpenSpiel has no such game or parameters.
    """
    game = load_game(name)
    require_names(name, game)
    if (about := _playouts(name).histories) > CLEARLY * MAX_NODES:
        raise TooLargeForTablesError(
            f"{name} has about {about:.0e} histories, and {MAX_NODES:,} at most are unrolled: {SMALLER}"
        )
    return unroll(name, game)


@lru_cache(maxsize=KEPT_GAMES)
def has_tables(name: str) -> bool:
    """Return whether a game is played from tables rather than one match at a time.

    Raises:
        ArenaError: The game is not supported.
        UnknownEnvironmentError: OpenSpiel has no such game or parameters.
    """
    try:
        tree_of(name)
    except TooLargeForTablesError:
        return False
    return True


@lru_cache(maxsize=KEPT_GAMES)
def _playouts(name: str) -> Playouts:
    return probe_game(load_game(name))


def largest_return(game: "Game") -> float:
    """Return the largest gain or loss of a side, in the game's units; 1 if all returns are 0."""
    return max(abs(game.max_utility()), abs(game.min_utility())) or 1.0


def observations(tree: GameTree) -> NDArray[np.float32]:
    """Return the observations (I, D) of the information states: OpenSpiel's tensor and the side."""
    return np.column_stack([tree.tensor, tree.side]).astype(np.float32)


@lru_cache(maxsize=KEPT_GAMES)
def declare_openspiel(name: str) -> EnvironmentSpec:
    """Return the environment spec of `openspiel:GAME`.

    The spec contains a digest of the game tree, or of playouts if the tree is too large. Players of different OpenSpiel
    versions therefore meet only if the rules are the same.

    Raises:
        ArenaError: As in `load_game`.
    """
    game, bounds = load_game(name), (-math.inf, math.inf)
    complete = has_information_states(game)
    shape = game.information_state_tensor_shape() if complete else game.observation_tensor_shape()
    max_decisions = game.max_game_length()
    if has_tables(name):
        tree = tree_of(name)
        bounds = min(float(tree.tensor.min()), 0.0), max(float(tree.tensor.max()), 0.0)
        max_decisions = int(tree.decisions.max())
        turn_based = bool((tree.acting[~tree.terminal].sum(axis=1) == 1).any())
        rules = {"tree": _digest(tree)}
    else:
        turn_based, rules = _playouts(name).in_turns, {"playouts": _playouts(name).digest}
    block = ObservationBlock("information_state" if complete else "observation", tuple(shape), *bounds)
    return EnvironmentSpec(
        name=name,
        agents_per_side=(1, 1),
        roles=("first", "second"),
        observation=(block, ObservationBlock("away", (1,), 0.0, 1.0)),
        heads=(ActionHead(HEAD, HeadKind.CATEGORICAL, game.num_distinct_actions(), masked=True),),
        max_decisions=max_decisions,
        turn_based=turn_based,
        reproducible=True,
        limit_decides=False,
        reasons=REASONS[:LIMIT] if has_tables(name) else REASONS,
        rules=rules,
        zero_sum=True,
        chance=is_stochastic(game),
    )


def _digest(tree: GameTree) -> str:
    """Return 16 hexadecimal digits of a SHA-256 over the tree without the names of its information states."""
    digest = hashlib.sha256()
    columns = {field.name: getattr(tree, field.name) for field in fields(tree) if field.name != "names"}
    for name, column in columns.items():
        digest.update(f"{name} {column.shape}".encode())
        digest.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:16]
