"""One rating period, from matches to ratings, without a database.

Training matches rate the learner alone; rating matches rate the frozen players; baselines anchor the scale. A player
takes part from its first match on, so that a period is a function of the matches before its end and nothing else.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from arena.glicko2 import Kind, Ratings, Results, rate_period
from league.config import Settings
from league.services.match_log import Games

_OWN_KIND = {"learner": Kind.LEARNER, "snapshot": Kind.FROZEN, "baseline": Kind.ANCHOR}


@dataclass(frozen=True)
class Rule:
    """The numbers of Glicko-2 that a period was rated with; stored with it, so that it can be computed again."""

    tau: float
    deviation_floor: float
    deviation_cap: float
    volatility_cap: float

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Take the rule that is configured now."""
        return cls(settings.tau, settings.deviation_floor, settings.deviation_cap, settings.volatility_cap)

    def stored(self) -> dict[str, Any]:
        """Return the rule as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Entry:
    """A player at the start or the end of a period; `games` and `score` count the games that rated it so far."""

    kind: str
    rating: float
    deviation: float
    volatility: float
    games: int
    score: float


def advance(entries: Mapping[int, Entry], games: Games, rule: Rule) -> dict[int, Entry]:
    """Rate one period.

    Args:
        entries: Every player of `games` and every learner that played before, by id.
        games: The period's matches.
        rule: How to rate.

    Returns:
        The entries that changed, by id.
    """
    ids = np.array(sorted(entries), dtype=np.int64)
    before = [entries[int(player)] for player in ids]
    own = np.array([_OWN_KIND[entry.kind] for entry in before], dtype=np.int64)
    learner = own == Kind.LEARNER
    start = _ratings(before)
    by_training, learner_games, learner_points = _rate(start, _rows(games, ids, training=True), own, learner, rule)
    by_rating, frozen_games, frozen_points = _rate(start, _rows(games, ids, training=False), own, ~learner, rule)
    played = np.where(learner, learner_games, frozen_games)
    scored = np.where(learner, learner_points, frozen_points)
    changed: dict[int, Entry] = {}
    for place, old in enumerate(before):
        after = by_training if learner[place] else by_rating
        new = Entry(
            kind=old.kind,
            rating=float(after.rating[place]),
            deviation=float(after.deviation[place]),
            volatility=float(after.volatility[place]),
            games=old.games + int(played[place]),
            score=old.score + float(scored[place]),
        )
        if new != old:
            changed[int(ids[place])] = new
    return changed


def _ratings(entries: list[Entry]) -> Ratings:
    return Ratings(
        rating=np.array([entry.rating for entry in entries]),
        deviation=np.array([entry.deviation for entry in entries]),
        volatility=np.array([entry.volatility for entry in entries]),
    )


def _rate(
    start: Ratings, rows: Results, own: NDArray[np.int64], rated: NDArray[np.bool_], rule: Rule
) -> tuple[Ratings, NDArray[np.int64], NDArray[np.float64]]:
    """Rate the players marked in `rated`, observing the others; count everybody's games and sum their scores."""
    player = np.concatenate((rows.home, rows.away))
    counts = np.bincount(player, minlength=rated.size)
    points = np.bincount(player, weights=np.concatenate((rows.score, 1.0 - rows.score)), minlength=rated.size)
    kinds = np.where(rated, own, Kind.OBSERVED)
    return rate_period(start, rows, kinds=kinds, **rule.stored()), counts, points.astype(np.float64)


def _rows(games: Games, ids: NDArray[np.int64], training: bool) -> Results:
    """Return the games of one kind between two players, as places in `ids`."""
    chosen = (games.training == training) & (games.home != games.away)
    home, away = np.searchsorted(ids, games.home[chosen]), np.searchsorted(ids, games.away[chosen])
    return Results(home=home, away=away, score=games.score[chosen], games=np.ones(home.size, dtype=np.int64))
