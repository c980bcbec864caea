"""Players: learners, snapshots and baselines, their standings and rating curves, and changes of their state."""

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue
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
    """A snapshot to publish; the same (learner, checkpoint, step) again is the same player.

    `since_step` names the decision that asked for it, where one did; see `SnapshotDecision`.
    """

    learner_id: Id
    checkpoint: Sha256
    step: Step
    since_step: Step | None = None
    metadata: Metadata = {}


class SideRating(Answer):
    """What a player is rated on one side of a game whose sides are unlike, and what this side is called.

    It foretells matches with the ratings of others on the other side. `win_rate` is the mean score of its `games`.
    """

    side: Side
    name: str
    rating: float
    deviation: float
    games: int
    win_rate: float | None


class ExternalCreate(Request):
    """A player whose policy the league never has, found or made by (environment, signature, name).

    `identity` is by what the policy is known again, such as a file's SHA-256: under one name there is one policy. Null
    says nothing, and fits any.
    """

    name: Name
    environment: EnvironmentName
    signature: Signature
    identity: Annotated[Text, Field(min_length=1, max_length=200)] | None = None
    metadata: Metadata = {}


class Player(Answer):
    """Anything rated. `conservative` is rating - 2 RD; `provisional` says that RD is still wide.

    `games` and the rating are those of the last closed period. `checkpoint` is a SHA-256, `baseline:NAME`,
    `external:NAME`, or null for a learner, whose weights move. `standing` is that of a snapshot or an external player,
    which is a candidate for as long as it is in play. `sides` are its ratings on each side where the game's sides are
    unlike, as far as it was rated on them; the rating itself then says what it scores on average over both.
    """

    id: int
    kind: Kind
    name: str
    call_sign: str | None
    environment: str
    signature: str
    role: Role | None
    standing: Standing | None
    checkpoint: str | None
    rating: float
    deviation: float
    volatility: float
    conservative: float
    games: int
    provisional: bool
    learner_id: int | None
    parent_id: int | None
    step: int | None
    metadata: dict[str, Any]
    created_at: datetime
    sides: list[SideRating] = []


class PlayerReport(Answer):
    """A worker's report that a player cannot be played.

    `token` owns the worker; null in an open league. `checked` says that the server found nothing wrong with the stored
    weights. `resolution` is null while the report is open: `confirmed` by the server's check or an admin,
    `corroborated` by other tokens, `refuted` by other tokens that played it, `dismissed` by an admin, or `cleared`.
    """

    worker_id: str
    worker: str
    token: str | None
    reason: str
    checked: bool
    reported_at: datetime
    resolution: str | None
    resolved_at: datetime | None


class DismissalRequest(Request):
    """Why the reports about a player are dismissed."""

    reason: Text = ""


class PlayerName(Answer):
    """A player, briefly."""

    player_id: int
    name: str


class LifecycleRequest(Request):
    """Why a person changes a standing; with `expected` only if it is still this one."""

    reason: Text = ""
    expected: Standing | None = None


class StandingsItem(Player):
    """A line of the league table, ranked by `conservative`; `win_rate` is the mean score of its rated games."""

    rank: int
    win_rate: float | None


class RatingPoint(Answer):
    """A player's rating after one period, made under the rating config of that id; see `RatingPeriod`."""

    period_id: int
    number: int
    config_id: str
    closed_at: datetime
    rating: float
    deviation: float
    volatility: float
    games: int
