"""Behaviour of a player, as evaluators measured it."""

from league.wire.base import Answer
from league.wire.players import PlayerName


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
