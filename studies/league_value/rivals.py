"""What a player is worth among strangers: its Glicko-2 rating, and its win rate against whom it fares worst with."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from arena.play.series import MatchSeries, play_series
from arena.play.tournament import play_tournament
from arena.policies.protocol import Policy
from arena.ratings.glicko2 import Kind, Ratings, Results, newcomers, rate_period
from arena.seeding import derive


@dataclass(frozen=True, eq=False)
class Pool:
    """Strangers whose ratings are known.

    Attributes:
        environment: What they play.
        players: By name.
        ratings: In the order of `players`.
    """

    environment: str
    players: Mapping[str, Policy]
    ratings: Ratings


@dataclass(frozen=True)
class Standing:
    """A player among the strangers of a pool.

    Attributes:
        rating: In points; theirs stay what they are.
        deviation: Of the rating, in points.
        scores: Mean score against each stranger, by name, in [0, 1].
    """

    rating: float
    deviation: float
    scores: Mapping[str, float]

    @property
    def worst(self) -> float:
        """Score against whom it fares worst with; with few matches rather too low, for the luck of one in many."""
        return min(self.scores.values())

    @property
    def mean(self) -> float:
        """Mean score against all."""
        return float(np.mean(list(self.scores.values())))


def rated(environment: str, players: Mapping[str, Policy], *, matches: int, seed: int) -> Pool:
    """Let all strangers play each other and rate them."""
    return Pool(environment, players, play_tournament(environment, players, matches=matches, seed=seed).ratings)


def stand(pool: Pool, player: Policy, *, matches: int, seed: int) -> Standing:
    """Let a frozen player meet every stranger, sides swapped.

    Args:
        pool: The strangers.
        player: Whom to value.
        matches: Against each of them.
        seed: What all seeds are derived from.
    """
    series = {
        name: play_series(pool.environment, player, other, matches=matches, seed=derive(seed, "stranger", name))
        for name, other in pool.players.items()
    }
    rating, deviation = _rating(pool.ratings, list(series.values()), matches)
    return Standing(rating, deviation, {name: played.score for name, played in series.items()})


def _rating(strangers: Ratings, series: list[MatchSeries], matches: int) -> tuple[float, float]:
    """Rate a newcomer against anchors, in periods of a pair of matches with each."""
    count, new = len(series), newcomers(1)
    columns = zip(
        (new.rating, new.deviation, new.volatility),
        (strangers.rating, strangers.deviation, strangers.volatility),
        strict=True,
    )
    ratings = Ratings(*(np.concatenate(both) for both in columns))
    kinds = np.array([Kind.FROZEN] + count * [Kind.ANCHOR])
    for start in range(0, matches, 2):
        rows = [
            (1 + place, match.score) for place, each in enumerate(series) for match in each.matches[start : start + 2]
        ]
        away, score = (np.array(column) for column in zip(*rows, strict=True))
        results = Results(np.zeros(away.size, np.int64), away, score, np.ones(away.size, np.int64))
        ratings = rate_period(ratings, results, kinds=kinds)
    return float(ratings.rating[0]), float(ratings.deviation[0])
