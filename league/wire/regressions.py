"""Whom main learners used to beat and now lose to."""

from datetime import datetime

from league.wire.bodies import Answer
from league.wire.players import PlayerName


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
