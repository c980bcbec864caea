"""Lineages that are trained."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from league.wire.base import PLAIN, Answer, EnvironmentName, Name, Real, Request, Signature, Step, Text

Role = Literal["main", "main_exploiter", "league_exploiter"]
Start = Literal["first", "main"]
Balance = Literal["snapshots", "learners"]
Severity = Literal["hint", "warning", "alarm"]


SideName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]


class RoleNumbers(Request):
    """Numbers of a learner's role (docs/concepts/matchmaking.md); null keeps the default."""

    snapshot_steps: Step | None = None
    """Fewest steps between snapshots."""
    snapshot_limit: Step | None = None
    """Most steps between snapshots."""
    snapshot_win_rate: Real | None = None
    """Win rate at which a snapshot is due early."""
    reset: Real | None = None
    """Probability of a reset after a snapshot."""
    start: Start | None = None
    """Weights after a reset: the learner's `first` ones or those of a `main`."""
    self_play_share: Real | None = None
    """Share of games against itself."""
    weighting: Text | None = None
    """PFSP weighting."""
    power: Real | None = None
    """Exponent of the PFSP weighting."""
    uniform_share: Real | None = None
    """Share of opponents drawn uniformly."""
    balance: Balance | None = None
    """What a uniform draw is over."""
    verification_share: Real | None = None
    """Share of games against players that it used to beat."""
    live_above: Real | None = None
    """Win rate above which an exploiter meets the live main."""
    exploiter_below: Real | None = None
    """Win rate below which a main meets an exploiter more."""
    past_below: Real | None = None
    """Win rate below which a main meets its past more."""


BaselineName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-]+$")]  # no snapshot's


class BaselineCreate(Request):
    """A scripted player of a game, and its fixed rating."""

    name: BaselineName
    """Its name."""
    rating: Annotated[float, Field(ge=0.0, le=5000.0), PLAIN]
    """Rating on the Glicko scale."""


class LearnerCreate(Request):
    """A lineage to train, found or created by (environment, name)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "main", "role": "main", "environment": "mech-duel", "signature": "mech-duel-1"}
        }
    )

    name: Name
    """Unique in the environment."""
    role: Role
    """What the lineage is trained for."""
    environment: EnvironmentName
    """Name of the environment."""
    signature: Signature
    """Signature of the environment's build."""
    max_decisions: Annotated[int, Field(ge=1, lt=2**53), PLAIN] | None = None
    """Longest match; results of longer ones are rejected."""
    rules: RoleNumbers | None = None
    """Replaces the numbers of its role; null keeps them."""
    sides: tuple[SideName, SideName] | None = None
    """Names of home and away if the sides are unlike; players are then rated on each."""
    baselines: Annotated[tuple[BaselineCreate, ...], Field(max_length=16)] = ()
    """Scripted players of a game that the league does not know."""


class HealthVerdict(Request):
    """A finding of a trainer about its training."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]
    """Identifier of the finding."""
    severity: Severity
    """`hint`, `warning` or `alarm`."""
    since_update: Step
    """Update at which it began."""
    meaning: Text
    """What is wrong."""
    evidence: Text
    """Values that show it."""
    advice: Text
    """What to try."""


class Learner(Answer):
    """A trained lineage."""

    id: int
    """Its id."""
    player_id: int
    """Player id of the learner itself."""
    name: str
    """Its name."""
    role: Role
    """What it is trained for."""
    environment: str
    """Name of the environment."""
    signature: str
    """Signature of the environment's build."""
    step: int | None
    """Steps so far; null before the first report."""
    metrics: dict[str, float | None]
    """Latest value of each metric."""
    metrics_at: datetime | None
    """When they were reported."""
    latest_snapshot: int | None
    """Player id of its newest snapshot."""
    created_at: datetime
    """When it was created."""
    rules: dict[str, int | float | str] = {}
    """All numbers of its role."""
    resets: int = 0
    """Number of resets."""
    began_step: int = 0
    """Step of the last reset."""
    verdicts: list[HealthVerdict] | None = None
    """Findings about its training, worst first; null if unknown."""
    sides: tuple[str, str] | None = None
    """Names of home and away if these are unlike."""


class TrainingCurves(Answer):
    """Training curves of a learner as columns of N points; old points are thinned."""

    learner_id: int
    """Id of the learner."""
    steps: list[int]
    """Step of each point."""
    reported_at: list[datetime]
    """Time of each point."""
    metrics: dict[str, list[float | None]]
    """N values by name; null where one is missing."""
    last: int
    """`after` of the next call."""


class SnapshotDecision(Answer):
    """A snapshot that a learner is to publish."""

    learner_id: int
    """Id of the learner."""
    since_step: int
    """Step of the last snapshot; 0 before the first."""
    reset: bool
    """Whether the learner is reset afterwards."""
    start: str | None
    """Checkpoint to go on with after a reset; null for its first weights."""
    reason: str
    """Why, in words."""
