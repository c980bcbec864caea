"""Payoff matrix: decayed counts between pairs, win rates estimated from them, and intransitivity measures.

A cell is the unit for which results are counted: an opponent (one learner's row) or an ordered pair (the whole matrix).
A result against a player that was still learning loses information with age, so each game of a cell in which one side
learns multiplies the cell's earlier counts by the decay. Games between frozen players do not decay.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import BoolArray, FloatArray, IntArray, refuse, sum_by_index
from arena.ratings.glicko2 import Ratings, expected_score

DECAY = 0.99  # the weight of a game halves every 69 games
PRIOR_GAMES = 8.0  # games that the prediction is worth

_ODDS_MARGIN = 1e-6  # win rates are clipped to this distance from 0 and 1 before taking log-odds


@dataclass(frozen=True, eq=False)
class WinCounts:
    """Decayed counts per cell; all fields have the same shape, (cells,) or (P, P).

    Attributes:
        games: Effective number of games; with decay 0.99 at most 100 if one side learns.
        points: Sum of scores, so that points / games is the mean score; draws count half.
        wins: Games with a score above 0.5.
        draws: Games with a score of exactly 0.5.
        losses: Games with a score below 0.5.
    """

    games: FloatArray
    points: FloatArray
    wins: FloatArray
    draws: FloatArray
    losses: FloatArray


@dataclass(frozen=True, eq=False)
class Payoff:
    """Payoff matrix of P players; entry (i, j) is i's view of j.

    Attributes:
        counts: (P, P) decayed counts.
        expected: (P, P) predicted mean score, in [0, 1].
        win_rate: (P, P) estimated mean score, in [0, 1]; the prediction without games.
        low: (P, P) lower end of the 95 % Wilson interval of the counts alone. 0 without games.
        high: (P, P) upper end. 1 without games.
        residual: (P, P) win_rate - expected.
        unexplained: Share of the log-odds that the ratings do not explain, see `unexplained_share`.
        cyclic: Share of the log-odds that no ratings can explain, see `cyclic_share`.
    """

    counts: WinCounts
    expected: FloatArray
    win_rate: FloatArray
    low: FloatArray
    high: FloatArray
    residual: FloatArray
    unexplained: float
    cyclic: float


def count_results(
    cell: ArrayLike, score: ArrayLike, learning: ArrayLike, cells: int, *, decay: float = DECAY
) -> WinCounts:
    """Return the decayed counts per cell.

        weight of a game = decay^(later games of the same cell in which one side learns)

    Args:
        cell: (M,) cell of each game, in [0, cells), games in the order of play.
        score: (M,) score of each game from the cell's view, in [0, 1].
        learning: (M,) true if one side was still learning.
        cells: Number of cells.
        decay: In (0, 1]; 1 disables the decay.

    Returns:
        Counts of shape (cells,).

    Raises:
        ValueError: Columns differ in length, a cell or score is out of range.
    """
    index, points, fading = _columns(cell, score, learning)
    refuse("cell", index, (index < 0) | (index >= cells), f"an index is in [0, {cells})")
    _require_decay(decay)
    weight = _fading_weights(index, fading, decay)

    def total(values: FloatArray | BoolArray) -> FloatArray:
        return sum_by_index(index, weight * values, cells)

    return WinCounts(
        games=total(np.ones_like(points)),
        points=total(points),
        wins=total(points > 0.5),
        draws=total(points == 0.5),
        losses=total(points < 0.5),
    )


def win_rates(counts: WinCounts, expected: ArrayLike, *, prior_games: float = PRIOR_GAMES) -> FloatArray:
    """Estimate mean scores with a Beta prior centred on the ratings' prediction.

        x = (points + n0 expected) / (games + n0)

    A cell without games has exactly the predicted value.

    Args:
        counts: Counts of any shape.
        expected: Predictions of the ratings in [0, 1], same shape (see `expected_matrix` and `expected_score`).
        prior_games: n0, weight of the prediction in games, > 0.
    """
    if not 0.0 < prior_games < np.inf:
        raise ValueError(f"prior_games is {prior_games}: it must be finite and above 0; 8 is typical")
    prior = np.asarray(expected, dtype=np.float64)
    # Written as the prediction plus a correction, so that a cell without games has exactly the prediction.
    surplus = counts.points - counts.games * prior
    return np.clip(prior + surplus / (counts.games + prior_games), 0.0, 1.0)


def pool_recent(counts: WinCounts, matches: ArrayLike, lineage: ArrayLike, step: ArrayLike) -> WinCounts:
    """Pool the counts against the snapshots of each lineage, as a recent win rate against a learning player.

        weight of a snapshot's counts = decay^(matches against later snapshots of its lineage)

    A new snapshot without matches inherits the lineage's earlier matches, and older matches count less.

    Args:
        counts: (K,) counts against each snapshot.
        matches: (K,) number of matches in them.
        lineage: (K,) lineage of each snapshot.
        step: (K,) step at which each was published; only the order counts.

    Returns:
        (K,) pooled counts of each snapshot's lineage.
    """
    lineages, steps, games = np.asarray(lineage), np.asarray(step), np.asarray(matches, dtype=np.float64)
    order = np.lexsort((steps, lineages))
    _, index = np.unique(lineages[order], return_inverse=True)
    through = np.cumsum(games[order])
    last = np.append(index[1:] != index[:-1], True) if index.size else np.zeros(0, dtype=np.bool_)
    weight = np.power(DECAY, through[last][index] - through)

    def pooled(column: FloatArray) -> FloatArray:
        cells = np.empty(column.size)
        cells[order] = np.bincount(index, weights=weight * column[order])[index] if index.size else 0.0
        return cells

    return WinCounts(*(pooled(getattr(counts, field.name)) for field in fields(WinCounts)))


def beta_moments(counts: WinCounts) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the Beta posterior of the mean score, with a uniform prior.

        Beta(points + 1, games - points + 1)

    Args:
        counts: Counts of any shape; the result is 1/2 and 1/12 without games.
    """
    n = counts.games + 2.0
    mean = (counts.points + 1.0) / n
    return mean, mean * (1.0 - mean) / (n + 1.0)


def wilson_interval(counts: WinCounts) -> tuple[FloatArray, FloatArray]:
    """Return the 95 % Wilson score interval of the mean score, from the counts alone.

        (p + z^2 / 2n  -+  z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)

    Args:
        counts: Counts of any shape; n is the effective number of games.

    Returns:
        Lower and upper ends in [0, 1]; 0 and 1 without games.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference" (1927).
    """
    n, points, z = counts.games, counts.points, 1.96
    centre = points + 0.5 * z**2
    half = z * np.sqrt(np.where(n > 0.0, points * (n - points) / np.where(n > 0.0, n, 1.0), 0.0) + 0.25 * z**2)
    # Rounding may leave [0, 1] by one unit, and the ends are used as probabilities.
    return np.clip((centre - half) / (n + z**2), 0.0, 1.0), np.clip((centre + half) / (n + z**2), 0.0, 1.0)


def expected_matrix(ratings: Ratings) -> FloatArray:
    """Return the (P, P) mean scores predicted by the ratings; 0.5 on the diagonal."""
    home, away = np.indices((len(ratings), len(ratings)))
    return expected_score(ratings, home.ravel(), away.ravel()).reshape(len(ratings), len(ratings))


def payoff(counts: WinCounts, ratings: Ratings, *, expected: ArrayLike | None = None) -> Payoff:
    """Compute the payoff matrix from counts and predictions.

    Args:
        counts: (P, P) counts; entry (i, j) is i's view of all games of i and j, zero on the diagonal.
        ratings: Ratings of the same P players.
        expected: (P, P) predicted mean scores; None for those of the ratings.
    """
    if counts.games.shape != (len(ratings), len(ratings)):
        raise ValueError(f"counts have shape {counts.games.shape}, ratings {len(ratings)} players: pass one of each")
    predicted = expected_matrix(ratings) if expected is None else np.asarray(expected, dtype=np.float64)
    rate = win_rates(counts, predicted)
    low, high = wilson_interval(counts)
    return Payoff(
        counts=counts,
        expected=predicted,
        win_rate=rate,
        low=low,
        high=high,
        residual=rate - predicted,
        unexplained=unexplained_share(rate, predicted, counts.games),
        cyclic=cyclic_share(rate, counts.games),
    )


def unexplained_share(win_rate: FloatArray, expected: FloatArray, games: FloatArray) -> float:
    """Return the share of the log-odds that the ratings do not explain, weighted by games.

        sum_ij n_ij (logit x_ij - logit e_ij)^2  /  sum_ij n_ij (logit x_ij)^2

    0 means that the ratings explain all results. Above 1 they predict worse than a score of 1/2 for all pairs. The
    share includes sampling noise. It is 0 without games.

    Args:
        win_rate: (P, P) win rates x, x_ij = 1 - x_ji.
        expected: (P, P) predictions e.
        games: (P, P) effective games n, symmetric.
    """
    odds = _log_odds(win_rate)
    return _share(games * np.square(odds - _log_odds(expected)), games * np.square(odds))


def cyclic_share(win_rate: FloatArray, games: FloatArray) -> float:
    """Return the cyclic share of the log-odds, which no rating can explain, weighted by games (Hodge decomposition).

        s = argmin sum_ij n_ij (logit x_ij - (s_i - s_j))^2        share = that minimum / sum_ij n_ij (logit x_ij)^2

    0 for a population in which differences of strength add up, 1 for pure rock-paper-scissors. The share includes
    sampling noise. It is 0 without games.

    Args:
        win_rate: (P, P) win rates x, x_ij = 1 - x_ji.
        games: (P, P) effective games n, symmetric.

    Returns:
        A share in [0, 1].

    Source: Jiang, Lim, Yao and Ye, "Statistical ranking and combinatorial Hodge theory" (2011).
    """
    odds = _log_odds(win_rate)
    laplacian = np.diag(games.sum(axis=1)) - games
    # Least squares and not a solution: the Laplacian is singular, because only differences of strengths are
    # determined.
    strength = np.linalg.lstsq(laplacian, (games * odds).sum(axis=1), rcond=None)[0]
    gradient = strength[:, None] - strength[None, :]
    # The minimum is never above the whole, except by rounding.
    return min(1.0, _share(games * np.square(odds - gradient), games * np.square(odds)))


def _share(part: FloatArray, whole: FloatArray) -> float:
    total = float(whole.sum())
    return float(part.sum()) / total if total > 0.0 else 0.0


def _log_odds(rate: FloatArray) -> FloatArray:
    held = np.clip(rate, _ODDS_MARGIN, 1.0 - _ODDS_MARGIN)
    return np.log(held) - np.log1p(-held)


def _fading_weights(cell: IntArray, learning: BoolArray, decay: float) -> FloatArray:
    """Return (M,) weights decay^(later learning games in the same cell)."""
    weight = np.ones(cell.size)
    # only games of cells with learning games need the sort below
    fades = (np.bincount(cell, weights=learning) > 0.0)[cell]
    own, learned_in = cell[fades], learning[fades]
    order = np.argsort(own, kind="stable")
    learned = np.concatenate(([0], np.cumsum(learned_in[order])))
    end = np.cumsum(np.bincount(own))
    later = np.empty(own.size, dtype=np.int64)
    later[order] = learned[end[own[order]]] - learned[1:]
    weight[fades] = np.power(decay, later)
    return weight


def _columns(cell: ArrayLike, score: ArrayLike, learning: ArrayLike) -> tuple[IntArray, FloatArray, BoolArray]:
    index = np.asarray(cell, dtype=np.int64)
    points = np.asarray(score, dtype=np.float64)
    fading = np.asarray(learning, dtype=np.bool_)
    if index.ndim != 1 or not index.shape == points.shape == fading.shape:
        raise ValueError(
            f"columns have shapes {index.shape}, {points.shape} and {fading.shape}: pass one value per game"
        )
    refuse("score", points, ~((points >= 0.0) & (points <= 1.0)), "a score must be in [0, 1]")
    return index, points, fading


def _require_decay(decay: float) -> None:
    if not 0.0 < decay <= 1.0:
        raise ValueError(f"decay is {decay}: it must be in (0, 1]; 0.99 is typical, 1 never forgets")
