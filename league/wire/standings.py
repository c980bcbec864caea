"""Standings and rating curves."""

from datetime import datetime

from league.wire.base import Answer
from league.wire.players import Player


class StandingsItem(Player):
    """A line of the league table, ranked by `conservative`; `win_rate` is the mean score of its rated games."""

    rank: int
    win_rate: float | None


class RatingPoint(Answer):
    """A player's rating after one period, made under the rating config of that id; see `RatingPeriod`."""

    period_id: int
    number: int
    config_id: str
    closed_at: datetime
    rating: float
    deviation: float
    volatility: float
    games: int
