"""Bodies of learners, their role settings, findings, training curves and runs."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from league.wire import frames
from league.wire.base import PLAIN, Answer, EnvironmentName, Id, Metadata, Name, Real, Request, Signature, Step, Text

if TYPE_CHECKING:
    import pandas as pd

Role = Literal["main", "main_exploiter", "league_exploiter"]
Start = Literal["first", "main"]
Balance = Literal["snapshots", "learners"]
Severity = Literal["hint", "warning", "alarm"]


SideName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]


class RoleNumbers(Request):
    """Settings of a learner's role (docs/concepts/matchmaking.md); null means the default."""

    snapshot_steps: Step | None = None
    """Minimum steps between snapshots."""
    snapshot_limit: Step | None = None
    """Maximum steps between snapshots."""
    snapshot_win_rate: Real | None = None
    """Win rate above which a snapshot is due early."""
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
    """Unit of a uniform draw: every snapshot or every learner."""
    verification_share: Real | None = None
    """Share of games against players that it beat before."""
    live_above: Real | None = None
    """Win rate above which an exploiter plays the live main."""
    exploiter_below: Real | None = None
    """Win rate below which a main plays an exploiter more often."""
    past_below: Real | None = None
    """Win rate below which a main plays its past snapshots more often."""


# Without "@", so that a baseline never has the name of a snapshot, such as main@65536.
BaselineName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-]+$")]


class BaselineCreate(Request):
    """A scripted player of a game, and its fixed rating."""

    name: BaselineName
    """Its name."""
    rating: Annotated[float, Field(ge=0.0, le=5000.0), PLAIN]
    """Rating on the Glicko scale."""


class LearnerCreate(Request):
    """A learner, found or created by (environment, name)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "main", "role": "main", "environment": "mech-duel", "signature": "mech-duel-1"}
        }
    )

    name: Name
    """Unique in the environment."""
    role: Role
    """League role of the learner."""
    environment: EnvironmentName
    """Name of the environment."""
    signature: Signature
    """Signature of the environment's build."""
    max_decisions: Annotated[int, Field(ge=1, lt=2**53), PLAIN] | None = None
    """Longest match; results of longer ones are rejected."""
    rules: RoleNumbers | None = None
    """Replaces the settings of its role; null leaves them unchanged."""
    sides: tuple[SideName, SideName] | None = None
    """Names of home and away in an asymmetric game; players are then rated on each side."""
    baselines: Annotated[tuple[BaselineCreate, ...], Field(max_length=16)] = ()
    """Scripted players of a game that the league does not know."""


class HealthVerdict(Request):
    """A trainer's finding about its training."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]
    """Identifier of the finding."""
    severity: Severity
    """`hint`, `warning` or `alarm`."""
    since_update: Step
    """Update at which the problem began."""
    meaning: Text
    """Description of the problem."""
    evidence: Text
    """Values that show the problem."""
    advice: Text
    """Suggested remedy."""


class Learner(Answer):
    """A learner with its latest metrics."""

    id: int
    """Its id."""
    player_id: int
    """Player id of the learner itself."""
    name: str
    """Its name."""
    role: Role
    """League role of the learner."""
    environment: str
    """Name of the environment."""
    signature: str
    """Signature of the environment's build."""
    step: int | None
    """Steps so far; null before the first report."""
    metrics: dict[str, float | None]
    """Latest value of each metric."""
    metrics_at: datetime | None
    """Time of the latest metrics."""
    latest_snapshot: int | None
    """Player id of its newest snapshot."""
    created_at: datetime
    """Time of creation."""
    rules: dict[str, int | float | str] = {}
    """All settings of its role."""
    resets: int = 0
    """Number of resets."""
    began_step: int = 0
    """Step of the last reset; 0 without one."""
    verdicts: list[HealthVerdict] | None = None
    """Findings about its training, worst first; null if unknown."""
    sides: tuple[str, str] | None = None
    """Names of home and away in an asymmetric game."""


class TrainingCurves(Answer):
    """Training curves of a learner as columns of N points; old points are thinned."""

    learner_id: int
    """Id of the learner."""
    steps: list[int]
    """Step of each point."""
    reported_at: list[datetime]
    """Time of each point."""
    metrics: dict[str, list[float | None]]
    """N values by name; null for missing ones."""
    last: int
    """`after` of the next request."""

    def to_pandas(self) -> "pd.DataFrame":
        """Return the metrics by step; it needs the extra `pandas`."""
        return frames.columns({"reported_at": self.reported_at, **self.metrics}, self.steps)


class SnapshotDecision(Answer):
    """Decision that a learner publishes a snapshot."""

    learner_id: int
    """Id of the learner."""
    since_step: int
    """Step of the last snapshot; 0 before the first."""
    reset: bool
    """Whether the learner is reset afterwards."""
    start: str | None
    """Checkpoint to load after a reset; null for the learner's initial weights."""
    reason: str
    """Reason in words."""


RunKey = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class RunCreate(Request):
    """A training process of a learner; idempotent by (learner, key)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "learner_id": 1,
                "key": "9e" * 16,
                "seed": 7,
                "settings": {"ppo": {"learning_rate": 0.0003}},
                "origin": {"command": ["python", "train.py"]},
            }
        }
    )

    learner_id: Id
    """Id of the learner."""
    key: RunKey
    """Chosen at random by the process."""
    seed: Annotated[int, Field(ge=0, lt=2**63), PLAIN] | None = None
    """Random seed."""
    step: Step = 0
    """Steps of the learner at the start."""
    settings: Metadata = {}
    """Settings of the training, nested by section."""
    origin: Metadata = {}
    """Command, versions, revision and machine."""


class Run(Answer):
    """One training process of a learner."""

    id: int
    """Its id."""
    learner_id: int
    """Id of the learner."""
    learner: str
    """Name of the learner."""
    player_id: int
    """Player id of the learner."""
    environment: str
    """Name of the environment."""
    seed: int | None
    """Random seed."""
    step: int
    """Steps of the learner at the start."""
    started_at: datetime
    """Time of the start."""
    snapshots: int
    """Number of its snapshots."""
    settings: dict[str, JsonValue]
    """Settings of the training, nested by section."""
    origin: dict[str, JsonValue]
    """Command, versions, revision and machine."""


class RunDifference(Answer):
    """One difference between two runs."""

    name: str
    """Its path, for example `settings.ppo.learning_rate`."""
    first: JsonValue
    """Value in the first run, or null."""
    second: JsonValue
    """Value in the second run, or null."""


class RunComparison(Answer):
    """Differences between two runs."""

    differences: list[RunDifference]
    """Sorted by name."""
