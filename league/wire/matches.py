"""Bodies of matches and recordings."""

from datetime import datetime
from typing import Literal

from league.wire.base import Answer
from league.wire.players import PlayerName
from league.wire.results import Behaviour

MatchKind = Literal["training", "rating", "gate"]


class Match(Answer):
    """One match of the log."""

    id: int
    """Its id."""
    lease_id: str
    """Id of the lease."""
    sequence: int
    """Number of the match within its lease, from 0."""
    kind: MatchKind
    """Its kind."""
    environment: str
    """Name of the environment."""
    home: PlayerName
    """Home player."""
    away: PlayerName
    """Away player."""
    score: float
    """Home score in [0, 1]."""
    decisions: int
    """Length of the match in decisions."""
    reason: str
    """Reason for the end of the match."""
    seed: int
    """Seed of the match."""
    learner_step: int | None
    """Steps of the learner at the match; null for rating matches."""
    late: bool
    """Whether it was reported in the grace period after its lease expired."""
    counts: bool
    """False if its worker was quarantined."""
    worker_id: str
    """Id of the worker."""
    period_id: int | None
    """Rating period of the match; null before it is rated, and for gate matches."""
    recorded: bool
    """Whether there is a recording."""
    reported_at: datetime
    """Time of the report."""


class PlayedMatch(Match):
    """One match with the behaviour of both sides."""

    behaviour: Behaviour | None
    """Reported measures; null without any."""


class Replay(Answer):
    """A stored recording."""

    match_id: int
    """Id of the match."""
    sha256: str
    """SHA-256 of the bytes."""
    size_bytes: int
    """Size in bytes."""
