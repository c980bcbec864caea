"""Analyses of players: payoffs, superiority, regressions, and snapshots that a league could do without."""

from datetime import datetime

from league.wire.base import Answer
from league.wire.behaviour import Likeness
from league.wire.players import PlayerName, Standing


class Redundancy(Answer):
    """A snapshot that scores like another one, which is no weaker and stays.

    `distance` is the root mean square difference of their win rates against the `opponents` that both met, estimated
    with the noise taken off; with 95 % confidence it is at most `bound`. Where it is known of both how they play, they
    are alike in that, too: `behaviour` says how far apart they are. Where it is null, results alone decided.
    """

    environment: str
    player: PlayerName
    standing: Standing
    twin: PlayerName
    distance: float
    bound: float
    opponents: int
    behaviour: Likeness | None


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


class Score(Answer):
    """A learner's mean score over some matches, and the 95 % interval of its win rate."""

    matches: int
    score: float
    low: float
    high: float


class Regression(Answer):
    """A learner and a snapshot that it used to beat and now loses to, by its last matches when that was found."""

    environment: str
    learner: PlayerName
    opponent: PlayerName
    earlier: Score
    recent: Score
    since: datetime
