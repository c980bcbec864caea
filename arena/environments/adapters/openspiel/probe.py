"""Random playouts of a game: estimate of its size, turn order, and a digest of its rules."""

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arena.environments.adapters.openspiel.library import state_tensor
from arena.environments.adapters.openspiel.tree import AWAY, HOME, acting

if TYPE_CHECKING:
    from pyspiel import Game, State

PLAYOUTS = 32
LONGEST = 400
"""Most moves of a playout."""


@dataclass(frozen=True)
class Playouts:
    """Result of random playouts.

    Attributes:
        histories: Estimated number of histories of the game.
        in_turns: Whether a side acted alone in any of them.
        digest: 16 hexadecimal digits of a SHA-256 over all tensors, legal actions and returns; games with different
            rules differ with high probability.
    """

    histories: float
    in_turns: bool
    digest: str


def probe_game(game: "Game") -> Playouts:
    """Play random games from fixed seeds.

    The mean over playouts of 1 + b1 + b1 b2 + ..., with b the number of branches, is an unbiased estimate of the number
    of histories.

    Source: Knuth 1975, Estimating the efficiency of backtrack programs.
    """
    digest, sizes, in_turns = hashlib.sha256(), [], False
    for number in range(PLAYOUTS):
        rng = np.random.default_rng(number)
        state, size, ways = game.new_initial_state(), 1.0, 1.0
        for _ in range(LONGEST):
            if state.is_terminal():
                digest.update(str(state.returns()).encode())
                break
            in_turns = in_turns or len(acting(state)) == 1
            ways *= _move_on(state, rng, digest)
            size += ways
        sizes.append(size)
    return Playouts(math.fsum(sizes) / PLAYOUTS, in_turns, digest.hexdigest()[:16])


def _move_on(state: "State", rng: np.random.Generator, digest: "hashlib._Hash") -> int:
    """Apply a random action or chance outcome; return the number of alternatives."""
    if state.is_chance_node():
        outcomes = state.chance_outcomes()
        digest.update(str(outcomes).encode())
        state.apply_action(outcomes[int(rng.integers(len(outcomes)))][0])
        return len(outcomes)
    options = {side: state.legal_actions(side) for side in acting(state)}
    for side, legal in options.items():
        digest.update(str(legal).encode() + state_tensor(state, side).tobytes())
    chosen = {side: legal[int(rng.integers(len(legal)))] for side, legal in options.items()}
    if state.is_simultaneous_node():
        state.apply_actions([chosen[HOME], chosen[AWAY]])
    else:
        state.apply_action(next(iter(chosen.values())))
    return math.prod(map(len, options.values()))
