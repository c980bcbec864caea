"""Match assignments: which opponent an environment plays next, on which side, under which lease."""

from dataclasses import dataclass
from typing import Any

from league.wire import Lease
from trainer.opponents.pool import Opponent


@dataclass(frozen=True)
class MatchAssignment:
    """One match of one environment.

    Attributes:
        opponent: The policy on the other side.
        away: Whether the learner plays the away side.
        seed: Seed of the match.
        lease: Lease under which the result is reported; None for an unrated match.
        sequence: Number of the match: under its lease, among the run's unrated matches, or among its self-play matches.
        self_play_match: The learner plays both sides and learns from both.
    """

    opponent: Opponent
    away: bool
    seed: int
    lease: Lease | None
    sequence: int
    self_play_match: bool


def assignment_to_json(assignment: MatchAssignment) -> dict[str, Any]:
    """Convert an assignment to JSON values; the opponent is given by key and name."""
    return {
        "opponent": assignment.opponent.key,
        "name": assignment.opponent.name,
        "away": assignment.away,
        "seed": assignment.seed,
        "lease": assignment.lease.model_dump(mode="json") if assignment.lease else None,
        "sequence": assignment.sequence,
        "both_sides": assignment.self_play_match,
    }
