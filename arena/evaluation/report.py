"""Report of a results file: ratings with intervals, payoff matrix, cyclic components and Nash averaging.

It is a function of the file alone: the same file gives the same report on every machine with the same libraries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena.arrays import FloatArray, IntArray
from arena.evaluation.nash_averaging import max_entropy_nash
from arena.evaluation.payoff import WinCounts, wilson_interval
from arena.evaluation.results_file import PairResults
from arena.evaluation.strongest_cycle import ThreeCycle, strongest_cycle
from arena.ratings import bradley_terry, pair_model

_Z_95 = 1.959964


@dataclass(frozen=True, eq=False)
class Report:
    """Evaluation of P players; (i, j) is the score of player i against player j.

    Attributes:
        names: (P,) names of the players.
        rating: (P,) whole-history ratings in points.
        low: (P,) lower ends of their 95 % intervals; without anchors relative to the mean of all players.
        high: (P,) upper ends.
        games: (P, P) numbers of games.
        score: (P, P) mean scores; NaN without games.
        score_low: (P, P) lower ends of their 95 % Wilson intervals; 0 without games.
        score_high: (P, P) upper ends; 1 without games.
        predicted: (P, P) scores that the pair model predicts, given the records of the pairs; 0.5 on the diagonal.
        components: (k, P, 2) positions (u, v) in each cyclic component.
        nash: (P,) weights of the players in the maximum-entropy Nash mixture of the predictions.
        cycle: The strongest cycle of three in the predictions, or None.
    """

    names: tuple[str, ...]
    rating: FloatArray
    low: FloatArray
    high: FloatArray
    games: FloatArray
    score: FloatArray
    score_low: FloatArray
    score_high: FloatArray
    predicted: FloatArray
    components: FloatArray
    nash: FloatArray
    cycle: ThreeCycle | None

    @property
    def order(self) -> Sequence[int]:
        """Indices of the players from the highest rating to the lowest."""
        return [int(index) for index in np.argsort(-self.rating, kind="stable")]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, in the order of the players in the file; null for missing scores."""
        cycle = None
        if self.cycle is not None:
            players = [self.names[index] for index in self.cycle.players]
            cycle = {"players": players, "win_rates": list(self.cycle.win_rates)}
        return {
            "players": list(self.names),
            "ratings": self.rating.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "nash": self.nash.tolist(),
            "components": self.components.tolist(),
            "games": self.games.tolist(),
            "scores": self._where_played(self.score),
            "score_low": self._where_played(self.score_low),
            "score_high": self._where_played(self.score_high),
            "predicted": self.predicted.tolist(),
            "strongest_cycle": cycle,
        }

    def _where_played(self, values: FloatArray) -> list[list[float | None]]:
        found = values.astype(object)
        found[self.games == 0.0] = None
        rows: list[list[float | None]] = found.tolist()
        return rows


def evaluate(results: PairResults, components: int | None = None) -> Report:
    """Compute the report of some results.

    Args:
        results: Results of at least one player.
        components: Number of cyclic components; None chooses it by the likelihood of held-out pairs.

    Raises:
        ArithmeticError: The linear program of the Nash mixture failed.
    """
    fit = bradley_terry.fit(
        results.games, results.start, anchor=results.anchor, parent=results.parent, config=results.config
    )
    if not results.anchor.any():
        fit = fit.relative_to(np.arange(fit.rating.size))  # only differences are known
    priors = pair_model.Priors(results.start, results.anchor, results.parent, results.config)
    model = pair_model.fit(results.games, priors, components=components)
    predicted = model.win_rates()
    counts = _counts(results)
    low, high = wilson_interval(counts)
    played = counts.games > 0.0
    return Report(
        names=results.names,
        rating=fit.rating,
        low=fit.rating - _Z_95 * fit.deviation,
        high=fit.rating + _Z_95 * fit.deviation,
        games=counts.games,
        score=np.divide(counts.points, counts.games, out=np.full_like(counts.points, np.nan), where=played),
        score_low=low,
        score_high=high,
        predicted=predicted,
        components=model.components,
        nash=max_entropy_nash(predicted),
        cycle=strongest_cycle(predicted),
    )


def _counts(results: PairResults) -> WinCounts:
    """Return games and points as matrices; wins, draws and losses are not known."""
    games, points = np.zeros((2, len(results.names), len(results.names)))
    rows = results.games
    won = rows.score * rows.games

    def add(matrix: FloatArray, home: IntArray, away: IntArray, values: FloatArray | IntArray) -> None:
        np.add.at(matrix, (home, away), values)

    add(games, rows.home, rows.away, rows.games)
    add(games, rows.away, rows.home, rows.games)
    add(points, rows.home, rows.away, won)
    add(points, rows.away, rows.home, rows.games - won)
    unknown = np.full_like(games, np.nan)
    return WinCounts(games, points, wins=unknown, draws=unknown, losses=unknown)
