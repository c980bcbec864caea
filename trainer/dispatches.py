"""What ranks write to each other between rollouts, as JSON: nothing is unpickled."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from arena.policies import Policy
from league.wire import Lease, LeaseAnswer, UnplayablePlayer
from trainer.collector import Episode
from trainer.leases import Assignment, saved_assignment
from trainer.opponents import Opponent

Metrics = dict[str, float | None]


class Dispatch(BaseModel):
    """Something that one rank says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def written_down(self) -> bytes:
        """As bytes."""
        return self.model_dump_json(exclude_unset=True).encode()


class Wish(Dispatch):
    """What a rank needs of the league.

    Attributes:
        leases: How many it would have.
        unwanted: Leases that it gives back.
        unplayable: Who on them cannot be played at all.
        stopping: Whether it was told to leave.
    """

    leases: int
    unwanted: list[str]
    unplayable: list[UnplayablePlayer]
    stopping: bool


class Share(Dispatch):
    """What rank 0 tells all others before a rollout.

    Attributes:
        over: Whether there is none.
        episodes: Matches of all ranks so far.
        answers: What the league grants each rank, rank 0 left out; None while it is away.
    """

    over: bool
    episodes: int
    answers: list[LeaseAnswer | None]


class Played(Dispatch):
    """A match that a rank has played to its end; see `Episode`."""

    assignment: dict[str, Any]
    score: float
    reason: str
    decisions: int
    earned: float
    components: dict[str, float]

    @classmethod
    def of(cls, episode: Episode) -> "Played":
        """What others need to know of it."""
        return cls(
            assignment=saved_assignment(episode.assignment),
            score=episode.score,
            reason=episode.reason,
            decisions=episode.decisions,
            earned=episode.earned,
            components=dict(episode.components),
        )

    def episode(self, policy: Policy) -> Episode:
        """The match as it is counted; `policy` stands for whoever was played, and acts no more."""
        told: Mapping[str, Any] = self.assignment
        lease = Lease.model_validate(told["lease"]) if told["lease"] else None
        opponent = Opponent(told["opponent"], told["name"], policy)
        assignment = Assignment(
            opponent, told["away"], told["seed"], lease, told["sequence"], both_sides=told["both_sides"]
        )
        return Episode(assignment, self.score, self.reason, self.decisions, self.earned, self.components)


class Matches(Dispatch):
    """All matches that ended on a rank during a rollout."""

    played: list[Played]


class Figures(Dispatch):
    """An update's figures, and how many decisions of the rank's they are over."""

    decisions: int
    metrics: Metrics


class Decision(Dispatch):
    """What rank 0 tells all others after an update: whether the state is saved, and whether the learner began anew."""

    save: bool
    anew: bool


class Start(Dispatch):
    """How far the run has come that all ranks go on with.

    Attributes:
        steps, updates, began_step: Of the learner.
        taught_at: Matches after which the present lesson was taught.
        states: What was saved of each rank but the first; fewer where there were fewer.
        written: Per lease, the highest sequence whose result was written down.
    """

    steps: int
    updates: int
    began_step: int
    taught_at: int
    states: list[dict[str, Any]]
    written: dict[str, int]
