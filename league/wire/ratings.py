"""What follows from the matches: the table, its periods, and who beats whom."""

from datetime import datetime
from typing import Any

from league.wire.bodies import Answer, Request
from league.wire.fields import EnvironmentName, Text
from league.wire.players import Player, PlayerName


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


class PeriodCreate(Request):
    """Close a period now; without an environment, that of the league's only one."""

    environment: EnvironmentName | None = None
    reason: Text = "by hand"


class RatingPeriod(Answer):
    """A closed rating period: how many matches it took in, and of how many players.

    `config` is the rule it was rated under, `config_id` the beginning of a hash of it. Rating everything again under
    another rule makes a new `version` of all periods, numbered on from the last. `refitted` says that the whole history
    of the frozen players was fitted at the period's end.
    """

    id: int
    version: int
    number: int
    environment: str
    matches: int
    players: int
    config_id: str
    config: dict[str, Any]
    refitted: bool
    closed_at: datetime
    reason: str


class Payoff(Answer):
    """Who beats whom: row i, column j is P(player i beats player j) and the matches behind it.

    An unplayed pair has the win rate that the ratings predict. `intransitivity` is the share of the log-odds matrix
    that ratings do not explain, in [0, 1]. `total` players are in play; these are the strongest of them.
    """

    environment: str
    total: int
    players: list[PlayerName]
    names: list[str]
    win_rates: list[list[float]]
    counts: list[list[int]]
    intransitivity: float


class Superiority(Answer):
    """How sure the order of the frozen players in play is, strongest first, from all rating matches at once.

    `low` and `high` are the ends of 95 % bands; row i, column j of `superiority` is the probability that player i is
    stronger than player j. Both know that players of a lineage err together. Players without a rating match are left
    out. `period_id` is the last period whose matches count; null before the first.
    """

    environment: str
    period_id: int | None
    players: list[PlayerName]
    ratings: list[float]
    deviations: list[float]
    low: list[float]
    high: list[float]
    superiority: list[list[float]]
