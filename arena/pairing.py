"""Whom to pair for rating matches, whose purpose is to learn the players' order.

Source: Thompson, "On the likelihood that one unknown probability exceeds another" (1933).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.weightings import finite_column

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def rating_pairs(
    ratings: ArrayLike,
    deviations: ArrayLike,
    games: ArrayLike,
    count: int,
    rng: np.random.Generator,
    *,
    anchors: ArrayLike | None = None,
) -> IntArray:
    """Pair players for rating matches: newcomers first, each with its neighbour in a sample of the ratings.

    A rating is sampled for everybody from N(rating, deviation^2). Players are served by fewest games, then largest
    deviation; each is paired with the unpaired player nearest in the sample. When all are paired and more pairs are
    wanted, a new round starts with new samples. Two anchors are never paired, for their ratings cannot move.

    Args:
        ratings: (P,) ratings in points.
        deviations: (P,) deviations in points, >= 0.
        games: (P,) rated games behind each rating, >= 0.
        count: Pairs wanted, >= 0.
        rng: Source of chance.
        anchors: (P,) true for players whose rating never moves; None for nobody.

    Returns:
        (count, 2) int64 player indices, two different players in each row; (0, 2) where no pair can be made.

    Raises:
        ValueError: Columns differ in length, a value is out of range.

    Source: Thompson sampling of pairs, chosen for games needed to recover the players' order.
    """
    rating, deviation = finite_column("ratings", ratings), finite_column("deviations", deviations)
    played = np.asarray(games, dtype=np.int64)
    anchor = np.zeros(rating.size, dtype=bool) if anchors is None else np.asarray(anchors, dtype=bool)
    if not rating.shape == deviation.shape == played.shape == anchor.shape:
        raise ValueError(
            f"{rating.size} ratings, {deviation.size} deviations, {played.size} games, {anchor.size} anchors: "
            "pass one of each per player"
        )
    if (deviation < 0.0).any():
        raise ValueError(f"a deviation is {deviation.min()}: it must be 0 or more")
    if count < 0:
        raise ValueError(f"count is {count}: it must be 0 or more")

    pairs: list[tuple[int, int]] = []
    while len(pairs) < count:
        sample = rng.normal(rating, deviation)
        order = np.lexsort((rng.random(rating.size), -deviation, played))
        one_round = _pair_neighbours(sample, order[~anchor[order]], anchor, count - len(pairs))
        if not one_round:
            break
        pairs += one_round
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _pair_neighbours(sample: FloatArray, order: IntArray, anchor: BoolArray, count: int) -> list[tuple[int, int]]:
    """Pair the players of `order`, first come first served, with the free player nearest in the sample."""
    free = np.ones(sample.size, dtype=bool)
    pairs: list[tuple[int, int]] = []
    for player in order:
        if len(pairs) == count:
            break
        if not free[player]:
            continue
        free[player] = False
        others = np.flatnonzero(free)
        if others.size:
            partner = others[np.argmin(np.abs(sample[others] - sample[player]))]
            free[partner] = False
            pairs.append((int(player), int(partner)))
    return pairs
