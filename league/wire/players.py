"""Bodies of players: snapshots, external players, standings, rating curves and changes of standing."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from league.wire.base import Answer, EnvironmentName, Id, Metadata, Name, Request, Sha256, Signature, Step, Text
from league.wire.learners import Role
from league.wire.leases import Side

Kind = Literal["learner", "snapshot", "baseline", "external"]
Standing = Literal["candidate", "commander", "retired", "quarantined"]


class PlayerCreate(Request):
    """A snapshot to publish; idempotent by (learner, checkpoint, step)."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"learner_id": 1, "checkpoint": "5f" * 32, "step": 65536, "metadata": {}}}
    )

    learner_id: Id
    """Id of the learner."""
    checkpoint: Sha256
    """SHA-256 of its uploaded weights."""
    step: Step
    """Environment steps of the learner."""
    since_step: Step | None = None
    """Step that identifies the snapshot decision; see `SnapshotDecision`."""
    run_id: Id | None = None
    """Id of its run."""
    metadata: Metadata = {}
    """Arbitrary fields of the publisher."""


# Without commas, which separate tags in forms.
Tag = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-][\p{L}\p{N}_ .:+/-]*$")]
Note = Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]*$")]


class PlayerUpdate(Request):
    """New tags or a new note; null leaves them unchanged."""

    tags: Annotated[tuple[Tag, ...], Field(max_length=32)] | None = None
    """All tags of the player."""
    note: Note | None = None
    """Note about the player; empty to remove it."""


class SideRating(Answer):
    """A player's rating on one side of an asymmetric game."""

    side: Side
    """The side."""
    name: str
    """Name of the side."""
    rating: float
    """Rating on the Glicko scale."""
    deviation: float
    """Rating deviation (RD)."""
    games: int
    """Number of rated games."""
    win_rate: float | None
    """Mean score in [0, 1]; null without games."""


class ExternalCreate(Request):
    """A player with a policy outside the league, found or created by (environment, signature, name)."""

    name: Name
    """Its name."""
    environment: EnvironmentName
    """Name of the environment."""
    signature: Signature
    """Signature of the environment's build."""
    identity: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    """Identifies the policy, such as a file's SHA-256; null for any."""
    metadata: Metadata = {}
    """Arbitrary fields of the publisher."""


class Player(Answer):
    """A rated player."""

    id: int
    """Its id."""
    kind: Kind
    """`learner` (moving), `snapshot` (frozen), `baseline` (scripted) or `external`."""
    name: str
    """Unique in its environment and signature."""
    call_sign: str | None
    """Call-sign of a current or former commander."""
    environment: str
    """Name of the environment."""
    signature: str
    """Signature of the environment's build."""
    role: Role | None
    """Role of its learner."""
    standing: Standing | None
    """Standing of a snapshot or external player."""
    checkpoint: str | None
    """SHA-256, `baseline:NAME`, `external:NAME`, or null for a learner."""
    rating: float
    """Rating after the last period."""
    deviation: float
    """Rating deviation (RD)."""
    volatility: float
    """Glicko-2 volatility."""
    conservative: float
    """Rating - 2 RD."""
    games: int
    """Rated games up to the last period."""
    provisional: bool
    """Whether the 95 % interval, 4 RD wide, is too wide for a promotion; only snapshots and external players."""
    learner_id: int | None
    """Id of its learner."""
    parent_id: int | None
    """Id of the learner's previous snapshot."""
    step: int | None
    """Step at which it was published."""
    run_id: int | None = None
    """Id of its run; null if unknown."""
    metadata: dict[str, Any]
    """Fields of the publisher."""
    tags: list[str] = []
    """Tags in alphabetical order."""
    note: str | None = None
    """Note about the player; null without one."""
    created_at: datetime
    """Time of creation."""
    sides: list[SideRating] = []
    """Ratings on each side of an asymmetric game."""
    promotion_status: str | None = None
    """Reason why a candidate is not promoted yet; only in the response for one player, null in lists."""
    rating_misleads: bool | None = None
    """Whether its results differ from those that ratings predict; only in current standings and for one player."""


class PlayerReport(Answer):
    """A worker's report that a player cannot be played."""

    worker_id: str
    """Id of the worker."""
    worker: str
    """Name of the worker."""
    token: str | None
    """Token of the worker; null in an open league."""
    reason: str
    """Reason in words."""
    checked: bool
    """Whether the server checked the weights without a finding."""
    reported_at: datetime
    """Time of the report."""
    resolution: str | None
    """`confirmed`, `corroborated`, `refuted`, `dismissed` or `cleared`; null while it is open."""
    resolved_at: datetime | None
    """Time of the resolution."""


class DismissalRequest(Request):
    """Dismissal of the reports about a player."""

    reason: Text = ""
    """Reason in words."""


class PlayerName(Answer):
    """A player's id and name."""

    player_id: int
    """Id of the player."""
    name: str
    """Its name."""


class LifecycleRequest(Request):
    """A change of a player's standing."""

    reason: Text = ""
    """Reason in words."""
    expected: Standing | None = None
    """Current standing as the caller saw it; null for any."""


class StandingsItem(Player):
    """A row of the standings."""

    rank: int
    """Rank by `conservative` among the listed players."""
    win_rate: float | None
    """Expected score against the current population: its active frozen players; null without rated games."""


class RatingPoint(Answer):
    """A player's rating after one period."""

    period_id: int
    """Id of the rating period."""
    number: int
    """Number of the period."""
    config_id: str
    """Id of the rating config; see `RatingPeriod`."""
    closed_at: datetime
    """Time of closing."""
    rating: float
    """Rating on the Glicko scale."""
    deviation: float
    """Rating deviation (RD)."""
    volatility: float
    """Glicko-2 volatility."""
    games: int
    """Rated games so far."""


class ChampionRequest(Request):
    """The new champion of its environment; a candidate is promoted to commander first."""

    player_id: Id
    """Id of the player."""
    reason: Text = ""
    """Reason in words."""
    expected: Id | None
    """Player id of the current champion as the caller saw it; null for none."""


class Champion(Answer):
    """Current champion of an environment."""

    environment: str
    """Name of the environment."""
    number: int
    """Number of changes of the alias so far."""
    player: Player
    """The player."""
    actor: str
    """Token, rule or process that chose it."""
    reason: str
    """Reason in words."""
    since: datetime
    """Time at which it became champion."""


class ChampionChange(Answer):
    """A change of the alias `champion`."""

    environment: str
    """Name of the environment."""
    number: int
    """Number of the change, from 1."""
    player: PlayerName | None
    """The new champion; null for none."""
    actor: str
    """Token, rule or process that made the change."""
    reason: str
    """Reason in words."""
    since: datetime
    """Time of the change."""
