"""Strongest cycle of three players in predicted win probabilities, which no rating can express.

    max over (i, j, k) of  min(P(i beats j), P(j beats k), P(k beats i))

A cycle is as strong as its weakest win. Ratings cancel around a cycle. Without effects of single pairs, the log-odds of
its three wins add up to the areas that the players span in the cyclic components (`arena.ratings.pair_model`). There is
no cycle without components.

Source: Jiang, Lim, Yao and Ye, "Statistical ranking and combinatorial Hodge theory" (2011), for the sum around a cycle
(curl).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class ThreeCycle:
    """Three players of whom each beats the next one, and the last one beats the first.

    Attributes:
        players: Their indices, the lowest first.
        win_rates: Predicted score of each against the next one, above 0.5.
    """

    players: tuple[int, int, int]
    win_rates: tuple[float, float, float]


def strongest_cycle(win_rate: ArrayLike) -> ThreeCycle | None:
    """Return the cycle of three whose weakest win is the strongest; None if there is no cycle.

    Takes 0.02 s for 300 players, and grows with their cube.

    Args:
        win_rate: (P, P) predicted scores of the row's player, x_ij + x_ji = 1; see `PairModel.win_rates`.

    Raises:
        ValueError: The matrix is not square.
    """
    x = np.asarray(win_rate, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(f"win_rate has shape {x.shape}: pass one row and one column per player")
    weakest, players = 0.5, None
    for first in range(len(x) - 2):
        others = slice(first + 1, None)  # each cycle is examined once, from its lowest index
        chain = np.minimum(x[first, others, None], np.minimum(x[others, others], x[others, first]))
        second, third = np.unravel_index(np.argmax(chain), chain.shape)
        if chain[second, third] > weakest:
            weakest = chain[second, third]
            players = first, first + 1 + int(second), first + 1 + int(third)
    if players is None:
        return None
    one, two, three = players
    return ThreeCycle(players, (float(x[one, two]), float(x[two, three]), float(x[three, one])))
