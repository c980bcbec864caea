"""Analyses of players: payoffs, superiority, regressions, behaviour, lineage and redundant snapshots."""

from datetime import datetime

from league.wire.base import Answer
from league.wire.gates import Gate
from league.wire.players import Player, PlayerName, Standing


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


class MeasuredBehaviour(Answer):
    """One measure of how a player plays. The name says the unit; without one, values are shares.

    `mean` is over the player's matches in which there was something to measure, with its standard error; null where
    there were none. `everybody` is the mean of all players' means, `spread` their standard deviation with chance taken
    off, 0 where they differ no more than by chance. `standing` is how many of these the player is above everybody, null
    where the measure tells nothing.
    """

    name: str
    matches: int
    mean: float | None
    error: float | None
    everybody: float | None
    spread: float
    standing: float | None


class Likeness(Answer):
    """How far another player is: root mean square of the differences, in standard deviations of the players.

    `distance` is estimated with chance taken off; with 95 % confidence it is below `bound`. Both are over `measures`
    that tell players apart and are known of both.
    """

    player: PlayerName
    distance: float
    bound: float
    measures: int


class Fingerprint(Answer):
    """What a player is like, up to the last rating period, and who is most like it, nearest first.

    It is judged beside `players` others: the frozen ones in play that it could meet. Who is not known to be like or
    unlike it, is not among the nearest.
    """

    player: PlayerName
    environment: str
    players: int
    measures: list[MeasuredBehaviour]
    nearest: list[Likeness]


class Ancestor(Answer):
    """A player of a lineage, with the gates that it was the candidate of, newest first.

    `generation` counts from the player that was asked about, which is 1; the last one is the root.
    """

    generation: int
    player: Player
    gates: list[Gate]


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
