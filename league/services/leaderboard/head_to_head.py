"""Head-to-head comparison of two players: score, predictions, and their newest matches over time and by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.evaluation.payoff import WinCounts, wilson_interval
from arena.ratings.glicko2 import expected_score
from league import wire
from league.db.models import Match
from league.errors import InvalidRequestError
from league.services.leaderboard import deviations
from league.services.leaderboard.deviations import PairDeviation
from league.services.matches import counting, pair_records
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter
from league.services.population.cache import PopulationCache

RECENT = 2000
"""Number of newest matches that are read."""

INTERVALS_MAX = 24
"""Maximum number of intervals of the score over time."""

MATCHES_MIN = 5
"""Minimum number of matches of an interval."""


@dataclass(frozen=True, eq=False)
class PairResults:
    """The M newest counted matches of a pair without those of gates, oldest first.

    Attributes:
        score: (M,) scores of the player, in [0, 1].
        at_home: (M,) whether it played at home.
        reported_at: Times of the reports.
    """

    score: NDArray[np.float64]
    at_home: NDArray[np.bool_]
    reported_at: Sequence[datetime]

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of wins, draws and losses."""
        wins, losses = int((self.score > 0.5).sum()), int((self.score < 0.5).sum())
        return wins, self.score.size - wins - losses, losses

    def on_side(self, *, home: bool) -> wire.Score | None:
        """Return the player's score on one side; None without matches."""
        scores = self.score[self.at_home == home]
        return _score(scores) if scores.size else None

    def over_time(self) -> list[tuple[datetime, wire.Score]]:
        """Return the score in consecutive intervals of about equal numbers of matches, with the time of each end.

        Matches of one report are in one interval.
        """
        size = max(MATCHES_MIN, -(-self.score.size // INTERVALS_MAX))
        found, start = [], 0
        for end in range(1, self.score.size + 1):
            is_last = end == self.score.size
            if is_last or (end - start >= size and self.reported_at[end] != self.reported_at[end - 1]):
                found.append((self.reported_at[end - 1], _score(self.score[start:end])))
                start = end
        return found


@dataclass(frozen=True)
class HeadToHead:
    """A player against an opponent, from the player's point of view.

    Attributes:
        score: Mean score up to the last period, as in the payoff table; a learner's older matches are discounted. None
            without matches.
        by_ratings: Score that ratings alone predict, in [0, 1].
        predicted: Score that the pair model predicts, in [0, 1].
        deviation: The deviation from either; None if chance explains it.
        results: Newest matches, those after the last period included.
    """

    score: wire.Score | None
    by_ratings: float
    predicted: float
    deviation: PairDeviation | None
    results: PairResults


def compare(session: Session, cache: PopulationCache, player_id: int, opponent_id: int) -> HeadToHead:
    """Compare two players of one environment.

    Raises:
        UnknownPlayerError: One of them does not exist in the player's environment.
        InvalidRequestError: They are the same.
    """
    if player_id == opponent_id:
        raise InvalidRequestError(
            f"player {player_id} twice", "a player has no matches against itself", "choose two players"
        )
    population = cache.of_player(session, player_id)
    one, other = (np.array([population.index(each)]) for each in (player_id, opponent_id))
    counts, matches = pair_records.against(pair_records.of_player(session, player_id), player_id, [opponent_id])
    return HeadToHead(
        score=_as_score(counts, int(matches[0])) if matches[0] else None,
        by_ratings=float(expected_score(population.ratings, one, other)[0]),
        predicted=float(population.expected(one, other)[0]),
        deviation=deviations.get_deviations(session, cache, population.environment).find(player_id, opponent_id),
        results=_results(session, player_id, opponent_id),
    )


def _results(session: Session, player_id: int, opponent_id: int) -> PairResults:
    wanted = MatchFilter(None, players=(player_id, opponent_id))
    newest = Match.id.in_(match_queries.last_ids(wanted, 0, match_queries.LAST_ID, RECENT))
    query = select(Match.home_id, Match.score, Match.reported_at).where(newest, *counting.rated(session))
    rows = session.execute(query.order_by(Match.id)).all()
    at_home = np.array([row.home_id == player_id for row in rows], dtype=np.bool_)
    home_score = np.array([row.score for row in rows], dtype=np.float64)
    return PairResults(np.where(at_home, home_score, 1.0 - home_score), at_home, [row.reported_at for row in rows])


def _score(scores: NDArray[np.float64]) -> wire.Score:
    games, points, none = np.array([float(scores.size)]), np.array([scores.sum()]), np.zeros(1)
    return _as_score(WinCounts(games, points, none, none, none), scores.size)


def _as_score(counts: WinCounts, matches: int) -> wire.Score:
    """Return the mean score of one pair with its 95 % interval."""
    low, high = wilson_interval(counts)
    return wire.Score(
        matches=matches, score=float(counts.points[0] / counts.games[0]), low=float(low[0]), high=float(high[0])
    )
