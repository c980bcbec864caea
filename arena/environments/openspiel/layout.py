"""What OpenSpiel's games declare, and their trees, unrolled once in a process."""

import hashlib
from dataclasses import fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from arena.environments.openspiel.library import load_game, tells_information_states
from arena.environments.openspiel.tree import GameTree, unroll
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock

HEAD = "action"
KEPT_GAMES = 8
"""Trees that stay in memory."""


@lru_cache(maxsize=KEPT_GAMES)
def tree_of(name: str) -> GameTree:
    """The tree of `openspiel:GAME`.

    Raises:
        ArenaError: OpenSpiel is not installed, or the game cannot be played here or is too large.
        UnknownEnvironmentError: OpenSpiel has no such game, or takes other parameters.
    """
    return unroll(name, load_game(name))


def observations(tree: GameTree) -> NDArray[np.float32]:
    """Observation (I, D) of each information state: what OpenSpiel tells of it, and whose it is."""
    return np.column_stack([tree.tensor, tree.side]).astype(np.float32)


@lru_cache(maxsize=KEPT_GAMES)
def declare_openspiel(name: str) -> EnvironmentSpec:
    """What `openspiel:GAME` declares.

    Policies meet only where their games have the same tree, whatever versions of OpenSpiel these came from.

    Raises:
        ArenaError: See `tree_of`.
    """
    tree, game = tree_of(name), load_game(name)
    complete = tells_information_states(game)
    shape = game.information_state_tensor_shape() if complete else game.observation_tensor_shape()
    told = ObservationBlock(
        name="information_state" if complete else "observation",
        shape=tuple(shape),
        low=min(float(tree.tensor.min()), 0.0),
        high=max(float(tree.tensor.max()), 0.0),
    )
    acting = tree.acting[~tree.terminal]
    return EnvironmentSpec(
        name=name,
        agents_per_side=(1, 1),
        roles=("first", "second"),
        observation=(told, ObservationBlock("away", (1,), 0.0, 1.0)),
        heads=(ActionHead(HEAD, HeadKind.CATEGORICAL, game.num_distinct_actions(), masked=True),),
        max_decisions=int(tree.decisions.max()),
        turn_based=bool((acting.sum(axis=1) == 1).any()),
        reproducible=True,
        limit_decides=False,
        reasons=("end",),
        rules={"tree": _digest(tree)},
    )


def _digest(tree: GameTree) -> str:
    """16 hexadecimal digits of a SHA-256 over all that a tree says but names."""
    digest = hashlib.sha256()
    columns = {field.name: getattr(tree, field.name) for field in fields(tree) if field.name != "names"}
    for name, column in columns.items():
        digest.update(f"{name} {column.shape}".encode())
        digest.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:16]
