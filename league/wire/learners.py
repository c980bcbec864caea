"""Lineages that are trained."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from league.wire.base import PLAIN, Answer, EnvironmentName, Name, Real, Request, Signature, Step, Text

Role = Literal["main", "main_exploiter", "league_exploiter"]
Start = Literal["first", "main"]
Balance = Literal["snapshots", "learners"]
Severity = Literal["hint", "warning", "alarm"]


SideName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]


class RoleNumbers(Request):
    """Numbers of a learner's role that are to be others than usual; see docs/league_play.md. Null is as usual.

    A role has some of them: all have those of snapshots, `reset` and `start`.
    """

    snapshot_steps: Step | None = None
    snapshot_limit: Step | None = None
    snapshot_win_rate: Real | None = None
    reset: Real | None = None
    start: Start | None = None
    self_play_share: Real | None = None
    weighting: Text | None = None
    power: Real | None = None
    uniform_share: Real | None = None
    balance: Balance | None = None
    verification_share: Real | None = None
    live_above: Real | None = None
    exploiter_below: Real | None = None
    past_below: Real | None = None


BaselineName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-]+$")]  # no snapshot's


class BaselineCreate(Request):
    """A scripted player that a game brings, and the rating at which it is held."""

    name: BaselineName
    rating: Annotated[float, Field(ge=0.0, le=5000.0), PLAIN]


class LearnerCreate(Request):
    """A lineage to train, found or made by (environment, name).

    `max_decisions` is the environment's longest match; results of longer ones are then refused. `rules` replaces what
    was given for the learner's role before; null leaves that as it is. `sides` are the names of home and away where
    these are unlike, such as predators and prey: players are then rated on each side, too. `baselines` are scripted
    players that the game brings; of a game that the league knows itself they are refused.
    """

    name: Name
    role: Role
    environment: EnvironmentName
    signature: Signature
    max_decisions: Annotated[int, Field(ge=1, lt=2**53), PLAIN] | None = None
    rules: RoleNumbers | None = None
    sides: tuple[SideName, SideName] | None = None
    baselines: Annotated[tuple[BaselineCreate, ...], Field(max_length=16)] = ()


class HealthVerdict(Request):
    """Something that a trainer finds wrong with its training, since which update, and what to try."""

    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f]+$")]
    severity: Severity
    since_update: Step
    meaning: Text
    evidence: Text
    advice: Text


class Learner(Answer):
    """A trained lineage. `player_id` is the learner as a rated player.

    `rules` are all numbers of its role as they hold. It has begun anew `resets` times, the last time at `began_step`,
    as far as the snapshots before that are published. `verdicts` is what its trainer finds wrong with its training, the
    worst first; null where it does not say. `sides` are the names of its game's two sides where these are unlike.
    """

    id: int
    player_id: int
    name: str
    role: Role
    environment: str
    signature: str
    step: int | None
    metrics: dict[str, float | None]
    metrics_at: datetime | None
    latest_snapshot: int | None
    created_at: datetime
    rules: dict[str, int | float | str] = {}
    resets: int = 0
    began_step: int = 0
    verdicts: list[HealthVerdict] | None = None
    sides: tuple[str, str] | None = None


class LearnerMetrics(Answer):
    """What a learner reported of itself, as columns of N points in order of their steps.

    `metrics` has N values by name, null where there was nothing to say. The older, the fewer points are kept. Who asks
    again with `after` = `last` gets those that came meanwhile.
    """

    learner_id: int
    steps: list[int]
    reported_at: list[datetime]
    metrics: dict[str, list[float | None]]
    last: int


class SnapshotDecision(Answer):
    """That a learner is to leave a snapshot after the one of `since_step`, and why.

    With `reset` it then begins anew: with the weights of the checkpoint `start`, or with its own first ones where that
    is null.
    """

    learner_id: int
    since_step: int
    reset: bool
    start: str | None
    reason: str
