"""Intransitivity: significant wins between players, and their cycles, which no rating can represent.

A directed edge leads from a player to an opponent against which it scores significantly more than half, with the false
discovery rate controlled over all pairs that played. The cyclic groups are the strongly connected components of this
graph.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.special import betainc

from arena.arrays import BoolArray, FloatArray
from arena.evaluation import statistics as discoveries
from arena.evaluation.payoff import WinCounts

SIGNIFICANCE = 0.01
"""False discovery rate of edges."""


@dataclass(frozen=True, eq=False)
class Cycles:
    """Cycles in a population of P players.

    Attributes:
        beats: (P, P) true if the row's player beats the column's significantly.
        p_value: (P, P) two-sided p-value of a pair's score under equal strength, adjusted for all pairs that played; 1
            without games. Symmetric.
        triples: Number of 3-cycles.
        groups: Strongly connected components of at least two players, largest first.
        shortest: A shortest cycle of each group. Each player beats the next, and the last beats the first.
    """

    beats: BoolArray
    p_value: FloatArray
    triples: int
    groups: tuple[tuple[int, ...], ...]
    shortest: tuple[tuple[int, ...], ...]


def significant_cycles(counts: WinCounts, *, significance: float = SIGNIFICANCE) -> Cycles:
    """Find the cycles of significant wins.

    The p-value of a pair is that of its points in as many games between equals, two-sided. The p-values are adjusted by
    Benjamini-Hochberg, so `significance` bounds the expected share of false edges. Draws make the test conservative.

    Args:
        counts: (P, P) counts; entry (i, j) is i's view of all games of i and j.
        significance: False discovery rate of edges, in (0, 1).

    Raises:
        ValueError: The counts are not square or the significance is out of range.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995).
    """
    games = counts.games
    if games.ndim != 2 or games.shape[0] != games.shape[1]:
        raise ValueError(f"counts have shape {games.shape}: pass one row and one column per player")
    if not 0.0 < significance < 1.0:
        raise ValueError(f"significance is {significance}: it must be in (0, 1); 0.01 is typical")
    p_value = _p_values(counts)
    beats = (p_value < significance) & (counts.points > 0.5 * games)
    groups = _groups(beats)
    return Cycles(
        beats=beats,
        p_value=p_value,
        triples=_triples(beats),
        groups=groups,
        shortest=tuple(_shortest(beats, group) for group in groups),
    )


def _p_values(counts: WinCounts) -> FloatArray:
    high, low = np.triu_indices(len(counts.games), 1)
    played = counts.games[high, low] > 0.0
    high, low = high[played], low[played]
    games, points = counts.games[high, low], counts.points[high, low]
    more = np.maximum(points, games - points)
    # P(at least so many points of n), also for fractional n
    raw = np.minimum(2.0 * betainc(more, games - more + 1.0, 0.5), 1.0)
    p_value = np.ones_like(counts.games)
    p_value[high, low] = p_value[low, high] = discoveries.benjamini_hochberg(raw)
    return p_value


def _triples(beats: BoolArray) -> int:
    edges = beats.astype(np.float64)
    return round(float(((edges @ edges) * edges.T).sum()) / 3.0)  # a 3-cycle is counted from each of its players


def _groups(beats: BoolArray) -> tuple[tuple[int, ...], ...]:
    _, label = connected_components(csr_array(beats), directed=True, connection="strong")
    together = (np.flatnonzero(label == each) for each in np.flatnonzero(np.bincount(label) > 1))
    return tuple(sorted((tuple(group.tolist()) for group in together), key=lambda group: (-len(group), group)))


def _shortest(beats: BoolArray, group: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shortest cycle of a group: an edge and the shortest path back."""
    edges = beats[np.ix_(group, group)]
    distance, before = dijkstra(csr_array(edges), unweighted=True, return_predecessors=True)
    back = np.where(edges, distance.T, np.inf)
    first, second = np.unravel_index(np.argmin(back), back.shape)
    circle = [int(first)]
    while circle[-1] != second:
        circle.append(int(before[second, circle[-1]]))
    return tuple(group[index] for index in [circle[0], *reversed(circle[1:])])
