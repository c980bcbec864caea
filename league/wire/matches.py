"""The match log, and recordings of matches."""

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
    """Player at home."""
    away: PlayerName
    """Player away."""
    score: float
    """Home's score in [0, 1]."""
    decisions: int
    """Length of the match in decisions."""
    reason: str
    """Why it ended."""
    seed: int
    """Seed of the match."""
    learner_step: int | None
    """Steps of the learner at the match; null for rating matches."""
    late: bool
    """Whether it came after its lease had expired, in the grace period."""
    counts: bool
    """False if its worker was not trusted."""
    worker_id: str
    """Id of the worker."""
    period_id: int | None
    """Rating period that it is part of; null before, and for gates."""
    recorded: bool
    """Whether there is a recording."""
    reported_at: datetime
    """When it was reported."""


class PlayedMatch(Match):
    """One match with how both sides played."""

    behaviour: Behaviour | None
    """Reported measures; null if there are none."""


class Replay(Answer):
    """A stored recording."""

    match_id: int
    """Id of the match."""
    sha256: str
    """SHA-256 of the bytes."""
    size_bytes: int
    """Size in bytes."""
