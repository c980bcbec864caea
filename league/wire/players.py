"""Players: learners, snapshots and baselines, their standings and rating curves, and changes of their state."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, JsonValue
from pydantic_core import from_json, to_json

from league.wire.base import Answer, EnvironmentName, Id, Name, Request, Sha256, Signature, Step, Text
from league.wire.learners import Role
from league.wire.leases import Side

METADATA_MAX_BYTES = 64 * 2**10  # of a player, as JSON
Kind = Literal["learner", "snapshot", "baseline", "external"]
Standing = Literal["candidate", "commander", "retired", "quarantined"]


def _storable(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what cannot be stored, or not be read back as part of a page."""
    size = len(json.dumps(metadata, allow_nan=False))
    if size > METADATA_MAX_BYTES:
        raise ValueError(f"it takes {size} bytes of at most {METADATA_MAX_BYTES}")
    text = to_json({"items": [{"metadata": metadata}]})  # fails on lone surrogates
    from_json(text)  # fails where it nests too deep
    if b"\\u0000" in text:
        raise ValueError("text must not contain NUL")
    return metadata


Metadata = Annotated[dict[str, JsonValue], AfterValidator(_storable)]


class PlayerCreate(Request):
    """A snapshot to publish; the same (learner, checkpoint, step) again is the same player."""

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
    """Names the decision that asked for it; see `SnapshotDecision`."""
    metadata: Metadata = {}
    """Further fields of the publisher's choice."""


class SideRating(Answer):
    """A player's rating on one side of a game with unlike sides."""

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
    """A player whose policy the league never has, found or created by (environment, signature, name)."""

    name: Name
    """Its name."""
    environment: EnvironmentName
    """Name of the environment."""
    signature: Signature
    """Signature of the environment's build."""
    identity: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    """Identifies the policy, such as a file's SHA-256; null for any."""
    metadata: Metadata = {}
    """Further fields of the publisher's choice."""


class Player(Answer):
    """A rated player."""

    id: int
    """Its id."""
    kind: Kind
    """`learner` (moving), `snapshot` (frozen), `baseline` (scripted) or `external`."""
    name: str
    """Unique in its environment and signature."""
    call_sign: str | None
    """Of a present or former commander."""
    environment: str
    """Name of the environment."""
    signature: str
    """Signature of the environment's build."""
    role: Role | None
    """Role of its lineage."""
    standing: Standing | None
    """Of a snapshot or external player."""
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
    """Whether RD is still wide."""
    learner_id: int | None
    """Its lineage."""
    parent_id: int | None
    """Snapshot before it in its lineage."""
    step: int | None
    """Step at which it was published."""
    metadata: dict[str, Any]
    """As published."""
    created_at: datetime
    """When it was created."""
    sides: list[SideRating] = []
    """Ratings on each side, if the sides are unlike."""


class PlayerReport(Answer):
    """A worker's report that a player cannot be played."""

    worker_id: str
    """Id of the worker."""
    worker: str
    """Name of the worker."""
    token: str | None
    """Token of the worker; null in an open league."""
    reason: str
    """Why, in words."""
    checked: bool
    """Whether the server found nothing wrong with the weights."""
    reported_at: datetime
    """When."""
    resolution: str | None
    """`confirmed`, `corroborated`, `refuted`, `dismissed` or `cleared`; null while it is open."""
    resolved_at: datetime | None
    """When it was resolved."""


class DismissalRequest(Request):
    """Dismissal of the reports about a player."""

    reason: Text = ""
    """Why, in words."""


class PlayerName(Answer):
    """A player, briefly."""

    player_id: int
    """Id of the player."""
    name: str
    """Its name."""


class LifecycleRequest(Request):
    """A change of a player's standing."""

    reason: Text = ""
    """Why, in words."""
    expected: Standing | None = None
    """Standing that the caller saw; null for any."""


class StandingsItem(Player):
    """A row of the standings."""

    rank: int
    """By `conservative`, among the listed players."""
    win_rate: float | None
    """Mean score of its rated games; null without any."""


class RatingPoint(Answer):
    """A player's rating after one period."""

    period_id: int
    """Id of the rating period."""
    number: int
    """Number of the period."""
    config_id: str
    """Rating config; see `RatingPeriod`."""
    closed_at: datetime
    """When it was closed."""
    rating: float
    """Rating on the Glicko scale."""
    deviation: float
    """Rating deviation (RD)."""
    volatility: float
    """Glicko-2 volatility."""
    games: int
    """Rated games so far."""


class ChampionRequest(Request):
    """The player to become champion of its environment; a candidate becomes a commander by it."""

    player_id: Id
    """Id of the player."""
    reason: Text = ""
    """Why, in words."""
    expected: Id | None
    """Player id of the present champion as the caller saw it; null for none."""


class Champion(Answer):
    """Holder of the alias `champion` of an environment."""

    environment: str
    """Name of the environment."""
    number: int
    """Number of changes of the alias so far."""
    player: Player
    """The player."""
    actor: str
    """Token, rule or process that did it."""
    reason: str
    """Why, in words."""
    since: datetime
    """When it became champion."""


class ChampionChange(Answer):
    """A change of the alias `champion`."""

    environment: str
    """Name of the environment."""
    number: int
    """Number of the change, from 1."""
    player: PlayerName | None
    """The new champion; null for none."""
    actor: str
    """Token, rule or process that did it."""
    reason: str
    """Why, in words."""
    since: datetime
    """When."""
