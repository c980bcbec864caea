"""Win rate against the current population: the mean predicted score of a player against every active frozen player.

The mean score of the games that a player happened to play depends on its opponents. For example, a learner that meets
hard opponents wins half of its games however strong it becomes. The predicted score against all active players does not
depend on who was drawn, so it is comparable between players.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Predict = Callable[[IntArray, IntArray], FloatArray]
"""Expected scores of K players against K others, given their indices, (K,) in [0, 1]."""

OPPONENTS_MAX = 200
"""Opponents that stand for a larger population; all pairs of 5,000 players would take seconds."""

_BLOCK = 500  # players at a time, so that the arrays of pairs stay small


def population_win_rates(predict: Predict, players: int, population: IntArray) -> list[float | None]:
    """Return the win rate of each of P players, in [0, 1]; None without opponents. A player does not meet itself.

    Args:
        predict: Predicts scores.
        players: P.
        population: (K,) indices of the current population, in order of rank. Every n-th represents it if there are more
            than `OPPONENTS_MAX`.
    """
    if population.size > OPPONENTS_MAX:
        middles = (np.arange(OPPONENTS_MAX) + 0.5) / OPPONENTS_MAX  # of equal parts of the ranking
        population = population[(middles * population.size).astype(np.int64)]
    rates: list[float | None] = []
    for first in range(0, players, _BLOCK):
        block = np.arange(first, min(first + _BLOCK, players))
        expected = predict(np.repeat(block, population.size), np.tile(population, block.size))
        other = block[:, None] != population
        points = (expected.reshape(block.size, population.size) * other).sum(axis=1)
        opponents = other.sum(axis=1)
        rates += [float(won / count) if count else None for won, count in zip(points, opponents, strict=True)]
    return rates
