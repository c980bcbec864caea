"""The match log, and recordings of matches."""

from datetime import datetime
from typing import Literal

from league.wire.base import Answer
from league.wire.players import PlayerName
from league.wire.results import Behaviour

MatchKind = Literal["training", "rating", "gate"]


class Match(Answer):
    """One match of the log; `late` came after its lease expired, inside the grace window.

    `period_id` is null until a period has taken the match in, and stays so where it was played for a gate: games that
    stop when they look good are not rated. `counts` is false where its worker was not trusted, `recorded`
    says whether `GET /matches/{id}/replay` has a recording.
    """

    id: int
    lease_id: str
    sequence: int
    kind: MatchKind
    environment: str
    home: PlayerName
    away: PlayerName
    score: float
    decisions: int
    reason: str
    seed: int
    learner_step: int | None
    late: bool
    counts: bool
    worker_id: str
    period_id: int | None
    recorded: bool
    reported_at: datetime


class PlayedMatch(Match):
    """One match with how both sides played; `behaviour` is null where its worker did not report that."""

    behaviour: Behaviour | None


class Replay(Answer):
    """A stored recording: whose match it shows, and its file's hash and size."""

    match_id: int
    sha256: str
    size_bytes: int
