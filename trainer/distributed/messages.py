"""Messages between ranks, as JSON: nothing is unpickled.

Rank 0 sends `InitialState` once. Then, before the first rollout and after every update, each other rank sends a
`RankReport` and rank 0 answers all of them with one `StepCommand`.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict

from arena.policies import Policy
from league.wire import Lease, LeaseAnswer, UnplayablePlayer
from trainer.opponents.assignment import MatchAssignment, assignment_to_json
from trainer.opponents.pool import Opponent
from trainer.rollout.collector import CollectedMatch

Metrics = dict[str, float | None]


class Message(BaseModel):
    """A message between ranks."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def encode(self) -> bytes:
        """The message as JSON."""
        return self.model_dump_json(exclude_unset=True).encode()


class InitialState(Message):
    """State of the run when all ranks start.

    Attributes:
        steps, updates, began_step: Counters of the learner.
        stage_start: Number of matches after which the current stage began.
        states: Saved state of each rank except rank 0; shorter if fewer ranks were saved.
        written: Highest recorded sequence number of each lease.
    """

    steps: int
    updates: int
    began_step: int
    stage_start: int
    states: list[dict[str, Any]]
    written: dict[str, int]


class MatchMessage(Message):
    """A finished match of a rank; see `CollectedMatch`."""

    assignment: dict[str, Any]
    score: float
    reason: str
    decisions: int
    mean_return: float
    components: dict[str, float]

    @classmethod
    def of(cls, match: CollectedMatch) -> "MatchMessage":
        """Make the message for a match."""
        return cls(**match._asdict() | {"assignment": assignment_to_json(match.assignment)})

    def match(self, policy: Policy) -> CollectedMatch:
        """Rebuild the match; `policy` replaces the opponent's, which is no longer needed."""
        played = self.assignment
        lease = Lease.model_validate(played["lease"]) if played["lease"] else None
        opponent = Opponent(played["opponent"], played["name"], policy)
        assignment = MatchAssignment(
            opponent, played["away"], played["seed"], lease, played["sequence"], self_play_match=played["both_sides"]
        )
        return CollectedMatch(**dict(self) | {"assignment": assignment})


class RankReport(Message):
    """Results of a rank since its last report, and the leases that it needs.

    Attributes:
        matches: Matches that ended in its rollout.
        decisions: Decisions in its rollout, the weight of its metrics.
        metrics: Metrics of its update; empty before the first one and after an incomplete rollout.
        leases: Number of leases requested.
        unwanted: Leases returned.
        unplayable: Opponents of returned leases that cannot be loaded.
    """

    matches: list[MatchMessage]
    decisions: int
    metrics: Metrics
    leases: int
    unwanted: list[str]
    unplayable: list[UnplayablePlayer]


class StepCommand(Message):
    """Command from rank 0 to all other ranks.

    Attributes:
        stop: End the run.
        save: Save the state. Each rank answers this, and `stop`, with its part of the state.
        reset: The learner was reset; its new weights follow.
        matches: Matches of all ranks so far.
        grants: Leases of each rank except rank 0; None if it requested none or the league is unreachable.
    """

    stop: bool
    save: bool
    reset: bool
    matches: int
    grants: list[LeaseAnswer | None]
