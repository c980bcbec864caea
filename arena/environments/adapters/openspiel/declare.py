"""What OpenSpiel's games declare, and the trees of small ones, unrolled once in a process."""

import hashlib
import math
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena.environments.adapters.openspiel.library import (
    TooLargeForTablesError,
    leaves_to_chance,
    load_game,
    require_names,
    tells_information_states,
)
from arena.environments.adapters.openspiel.probe import Playouts, probe_game
from arena.environments.adapters.openspiel.tree import MAX_NODES, SMALLER, GameTree, unroll
from arena.environments.adapters.sides import LIMIT, REASONS
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock

if TYPE_CHECKING:
    from pyspiel import Game

HEAD = "action"
KEPT_GAMES = 8
"""Trees that stay in memory."""

CLEARLY = 10.0
"""So many times too large by an estimate is too large without a try."""


@lru_cache(maxsize=KEPT_GAMES)
def tree_of(name: str) -> GameTree:
    """The tree of `openspiel:GAME`.

    Raises:
        ArenaError: OpenSpiel is not installed, or the game cannot be played here.
        NoTablesError: It is too large, or OpenSpiel does not tell enough of it.
        UnknownEnvironmentError: OpenSpiel has no such game, or takes other parameters.
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
    """Whether a game is played from tables; others are played one match at a time.

    Raises:
        ArenaError: The game cannot be played here.
        UnknownEnvironmentError: OpenSpiel has no such game, or takes other parameters.
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
    """Most that a side can win or lose, in the game's units; 1 where nothing can be won."""
    return max(abs(game.max_utility()), abs(game.min_utility())) or 1.0


def observations(tree: GameTree) -> NDArray[np.float32]:
    """Observation (I, D) of each information state: what OpenSpiel tells of it, and whose it is."""
    return np.column_stack([tree.tensor, tree.side]).astype(np.float32)


@lru_cache(maxsize=KEPT_GAMES)
def declare_openspiel(name: str) -> EnvironmentSpec:
    """What `openspiel:GAME` declares.

    Policies meet only where their games have the same tree, or the same playouts where that is too large, whatever
    versions of OpenSpiel these came from.

    Raises:
        ArenaError: See `load_game`.
    """
    if not has_tables(name):
        return _declare_large(name, _playouts(name))
    tree = tree_of(name)
    acting = tree.acting[~tree.terminal]
    return _declared(
        name,
        (min(float(tree.tensor.min()), 0.0), max(float(tree.tensor.max()), 0.0)),
        max_decisions=int(tree.decisions.max()),
        turn_based=bool((acting.sum(axis=1) == 1).any()),
        reasons=REASONS[:LIMIT],
        rules={"tree": _digest(tree)},
    )


def _declare_large(name: str, seen: Playouts) -> EnvironmentSpec:
    return _declared(
        name,
        (-math.inf, math.inf),
        max_decisions=load_game(name).max_game_length(),
        turn_based=seen.in_turns,
        reasons=REASONS,
        rules={"playouts": seen.digest},
    )


def _declared(
    name: str,
    bounds: tuple[float, float],
    *,
    max_decisions: int,
    turn_based: bool,
    reasons: tuple[str, ...],
    rules: dict[str, str],
) -> EnvironmentSpec:
    game = load_game(name)
    complete = tells_information_states(game)
    shape = game.information_state_tensor_shape() if complete else game.observation_tensor_shape()
    told = ObservationBlock("information_state" if complete else "observation", tuple(shape), *bounds)
    return EnvironmentSpec(
        name=name,
        agents_per_side=(1, 1),
        roles=("first", "second"),
        observation=(told, ObservationBlock("away", (1,), 0.0, 1.0)),
        heads=(ActionHead(HEAD, HeadKind.CATEGORICAL, game.num_distinct_actions(), masked=True),),
        max_decisions=max_decisions,
        turn_based=turn_based,
        reproducible=True,
        limit_decides=False,
        reasons=reasons,
        rules=rules,
        zero_sum=True,
        chance=leaves_to_chance(game),
    )


def _digest(tree: GameTree) -> str:
    """16 hexadecimal digits of a SHA-256 over all that a tree says but names."""
    digest = hashlib.sha256()
    columns = {field.name: getattr(tree, field.name) for field in fields(tree) if field.name != "names"}
    for name, column in columns.items():
        digest.update(f"{name} {column.shape}".encode())
        digest.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:16]
