"""Round-robin tournament, rated with Glicko-2."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena.arrays import FloatArray
from arena.errors import InputError
from arena.evaluation.results_file import PairResults
from arena.play.runner import ignore_progress
from arena.play.series import MatchSeries, play_series
from arena.policies.protocol import Policy
from arena.ratings.bradley_terry import NO_PARENT
from arena.ratings.glicko2 import START_RATING, Ratings, Results, newcomers, rate_period
from arena.seeding import derive


@dataclass(frozen=True, eq=False)
class Tournament:
    """Result of a round robin between P players.

    Attributes:
        names: Players, in the given order.
        payoff: (P, P) mean score of the row's player against the column's. 0.5 on the diagonal.
        points: (P,) sum of scores over all matches.
        ratings: Glicko-2 ratings; all players start as new players.
    """

    names: tuple[str, ...]
    payoff: FloatArray
    points: FloatArray
    ratings: Ratings

    def results(self, environment: str, matches: int, source: Mapping[str, Any]) -> PairResults:
        """Return games and points of all pairs, from which `arena.evaluation.report` computes a report.

        Args:
            environment: Name of the environment.
            matches: Matches between every two players.
            source: Origin of the results.
        """
        players = len(self.names)
        first, second = np.triu_indices(players, 1)
        return PairResults(
            environment=environment,
            names=self.names,
            start=np.full(players, START_RATING),
            anchor=np.zeros(players, dtype=np.bool_),
            parent=np.full(players, NO_PARENT),
            games=Results(first, second, self.payoff[first, second], np.full(first.size, matches)),
            source=source,
        )

    @property
    def order(self) -> list[int]:
        """Indices of the players from the highest rating to the lowest."""
        return [int(index) for index in np.argsort(-self.ratings.rating, kind="stable")]


def play_tournament(
    environment: str,
    players: Mapping[str, Policy],
    *,
    matches: int,
    seed: int,
    on_finished: Callable[[int], None] = ignore_progress,
) -> Tournament:
    """Play `matches` side-swapped matches between every two players.

    Round r consists of matches 2r and 2r + 1 of every pairing and is one rating period.

    Raises:
        ArenaError: There are fewer than two players, or fewer than one match.
    """
    if len(players) < 2:
        raise InputError(f"a tournament of {len(players)} players was asked for: give at least 2")
    names = tuple(players)
    series = {
        (a, b): play_series(
            environment,
            players[names[a]],
            players[names[b]],
            matches=matches,
            seed=derive(seed, "pairing", a, b),
            on_finished=on_finished,
        )
        for a, b in itertools.combinations(range(len(names)), 2)
    }
    payoff = np.full((len(names), len(names)), 0.5)
    points = np.zeros(len(names))
    for (a, b), played in series.items():
        payoff[a, b], payoff[b, a] = played.score, 1.0 - played.score
        points[a] += played.score * matches
        points[b] += (1.0 - played.score) * matches
    return Tournament(names, payoff, points, _rate_rounds(series, len(names), matches))


def _rate_rounds(series: Mapping[tuple[int, int], MatchSeries], players: int, matches: int) -> Ratings:
    ratings = newcomers(players)
    for start in range(0, matches, 2):
        rows = [(a, b, match.score) for (a, b), played in series.items() for match in played.matches[start : start + 2]]
        ratings = rate_period(ratings, _results(rows))
    return ratings


def _results(rows: Sequence[tuple[int, int, float]]) -> Results:
    first, second, score = zip(*rows, strict=True)
    return Results(
        home=np.array(first), away=np.array(second), score=np.array(score), games=np.ones(len(rows), dtype=np.int64)
    )
