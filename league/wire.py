"""The league's HTTP bodies: what workers, scripts and the page send and receive.

A request refuses fields that it does not know. An answer tolerates them, so that an older client reads a newer server.
Every time is aware UTC; ratings are on the Glicko scale; a score is home's, in [0, 1].
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    JsonValue,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError, from_json, to_json

PREFIX = "/api/v1"
"""Path before every call but health, readiness and metrics."""

METADATA_MAX_BYTES = 64 * 2**10  # of a player, as JSON
LEASE_ID_MAX_LENGTH = 64

Role = Literal["main", "main_exploiter", "league_exploiter"]
Kind = Literal["learner", "snapshot", "baseline"]
Standing = Literal["candidate", "commander", "retired", "quarantined"]
MatchKind = Literal["training", "rating"]
WorkerKind = Literal["trainer", "evaluator"]
Command = Literal["continue", "drain", "stop"]
Side = Literal["home", "away"]
LeaseState = Literal["open", "released", "played", "expired"]
ResultStatus = Literal["accepted", "duplicate", "conflict", "rejected"]


def _plain_number(value: object) -> object:
    """Refuse what JSON does not write as a number, but would become one."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("number", "must be a number")
    return value


def _written_time(value: object) -> object:
    """Refuse a time that is not written out; a bare number would become one."""
    if not isinstance(value, str | datetime):
        raise PydanticCustomError("time", "must be a time such as 2030-01-31T12:00:00Z")
    return value


Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="lower-case hexadecimal SHA-256")]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\p{L}\p{N}_.+-][\p{L}\p{N}_ .:+-]*$")]
WorkerName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]
Unicode = Annotated[str, Field(max_length=2**20)]  # a bound makes pydantic refuse lone surrogates
EnvironmentName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]
Signature = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s\x00]+$")]
PLAIN = BeforeValidator(_plain_number)  # last, or bounds before it are lost from the interface description
Whole = Annotated[int, PLAIN]
Real = Annotated[float, PLAIN]
Id = Annotated[int, Field(ge=1, lt=2**63), PLAIN]
Step = Annotated[int, Field(ge=0, lt=2**53), PLAIN]
Time = Annotated[AwareDatetime, BeforeValidator(_written_time)]
T = TypeVar("T")


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


class Request(BaseModel):
    """A body that the server reads; NaN and infinities travel as such, for the server to name."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


class Answer(BaseModel):
    """A body that the client reads."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Answer, Generic[T]):
    """One page of a list; `next_cursor` asks for the next one and is null on the last."""

    items: list[T]
    next_cursor: str | None


class WorkerCreate(Request):
    """A process that wants to play; the same name and kind again is the same worker.

    `instance` tells processes of one name apart: it stays the same as long as they go on with the same work, such as
    a run folder. Each is a worker of its own then, and those after the first get a number behind their name.
    """

    name: WorkerName
    kind: WorkerKind
    version: Annotated[Text, Field(max_length=64)]
    signatures: Annotated[list[Signature], Field(max_length=256)]
    instance: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}$")] | None = None


class Worker(Answer):
    """A registered worker: beat every `heartbeat_s`, ask for work again after `next_poll_s`."""

    id: str
    name: str
    kind: WorkerKind
    version: str
    signatures: list[str]
    command: Command
    seen_at: datetime
    heartbeat_s: float
    next_poll_s: float


class Quarantine(Answer):
    """What a worker reports from `since` on does not count, until `until` where that is not null.

    While `lifted_at` is null it gets no leases.
    """

    since: datetime
    until: datetime | None
    reason: str
    actor: str
    imposed_at: datetime
    lifted_at: datetime | None


Measure = Literal["score", "length", "refusals"]


class WorkerCheck(Answer):
    """How a worker's results fit what others' and the ratings lead to expect.

    `observed` and `expected` are means over `results` reports: home's score, decisions of a match, or the share
    refused. Chance alone exceeds `chi_square`, of so many `degrees` of freedom, with the probability `p_value`.
    """

    measure: Measure
    environment: str | None
    kind: MatchKind | None
    results: int
    observed: float
    expected: float
    chi_square: float
    degrees: int
    p_value: float
    suspect: bool


class ListedWorker(Worker):
    """A worker with how its last results fit; `results` were taken of it, `refused` were not."""

    registered_at: datetime
    quarantine: Quarantine | None
    results: int
    refused: int
    checks: list[WorkerCheck]
    suspect: bool


class WorkerQuarantine(Request):
    """From when on a worker is not trusted, and why."""

    since: Time
    reason: Annotated[Text, Field(min_length=1)]


class WorkerReinstatement(Request):
    """Why a worker is trusted again; `restore` makes what it reported meanwhile count after all."""

    reason: Text = ""
    restore: Annotated[bool, Field(strict=True)] = False


class LearnerProgress(Request):
    """How far a learner has come, with its latest metrics."""

    learner_id: Id
    step: Step
    metrics: Annotated[dict[str, Real | None], Field(max_length=512)] = {}


class Heartbeat(Request):
    """A sign of life, optionally with progress."""

    learners: Annotated[list[LearnerProgress], Field(max_length=64)] = []


class HeartbeatAnswer(Answer):
    """What the worker is to do next; while it is quarantined it gets no leases and its results do not count."""

    command: Command
    next_poll_s: float
    quarantine: Quarantine | None = None


class CommandRequest(Request):
    """What a worker is to be told at its next heartbeat."""

    command: Command


class LearnerCreate(Request):
    """A lineage to train, found or made by (environment, name).

    `max_decisions` is the environment's longest match; results of longer ones are then refused.
    """

    name: Name
    role: Role
    environment: EnvironmentName
    signature: Signature
    max_decisions: Annotated[int, Field(ge=1, lt=2**53), PLAIN] | None = None


class Learner(Answer):
    """A trained lineage. `player_id` is the learner as a rated player."""

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


class UploadCreate(Request):
    """A checkpoint about to be sent."""

    size_bytes: Annotated[int, Field(ge=0, lt=2**63), PLAIN]


class Upload(Answer):
    """Where to send a checkpoint's bytes with PUT: nowhere if they are `stored`, else to `url` with these `headers`.

    A null `url` is the checkpoint's own address at the server. After a PUT to another one, POST to
    `/checkpoints/{sha256}/complete` has the bytes verified.
    """

    stored: bool
    url: str | None
    headers: dict[str, str]


class Checkpoint(Answer):
    """A checkpoint that the league has."""

    sha256: str
    size_bytes: int


class PlayerCreate(Request):
    """A snapshot to publish; the same (learner, checkpoint, step) again is the same player."""

    learner_id: Id
    checkpoint: Sha256
    step: Step
    metadata: Metadata = {}


class Player(Answer):
    """Anything rated. `conservative` is rating - 2 RD; `provisional` says that RD is still wide.

    `games` and the rating are those of the last closed period. `checkpoint` is a SHA-256, `baseline:NAME`, or null for
    a learner, whose weights move. `standing` is a snapshot's alone.
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


class StandingsItem(Player):
    """A line of the league table, ranked by `conservative`; `win_rate` is the mean score of its rated games."""

    rank: int
    win_rate: float | None


class LifecycleRequest(Request):
    """Why a person changes a standing; with `expected` only if it is still this one."""

    reason: Text = ""
    expected: Standing | None = None


class ChampionRequest(Request):
    """Who is to be champion of its environment; a candidate becomes a commander by it.

    With `expected`, the player id of the present champion or `nobody`, only if that still holds.
    """

    player_id: Id
    reason: Text = ""
    expected: Id | Literal["nobody"] | None = None


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


class TrainingLeases(Request):
    """Ask for opponents of one learner, by its player id.

    A trainer that lets the learner play itself in environments of its own says that `self_play` is false: then others
    are drawn, as long as there are any.
    """

    kind: Literal["training"]
    worker_id: Text
    player_id: Id
    count: Annotated[int, Field(ge=1, le=4096), PLAIN]
    budget: Annotated[int, Field(ge=1), PLAIN]
    self_play: bool = True


class RatingLeases(Request):
    """Ask for pairs of frozen players.

    Two consecutive items are one pair on one seed with sides swapped, so `count` is made even.
    """

    kind: Literal["rating"]
    worker_id: Text
    environment: EnvironmentName
    count: Annotated[int, Field(ge=1, le=4096), PLAIN]
    budget: Annotated[int, Field(ge=1), PLAIN]


LeaseRequest = Annotated[TrainingLeases | RatingLeases, Field(discriminator="kind")]


class Seat(Answer):
    """Who sits on a side: `checkpoint` is a SHA-256, `baseline:NAME`, or null for the live learner itself."""

    player_id: int
    checkpoint: str | None
    name: str


class Lease(Answer):
    """Permission to play up to `budget` matches until `expires_at`.

    The match of sequence s (0-based) has the seed `arena.seeding.match_seed(seed, s)`. `propensity` is the probability
    with which this opponent was drawn, null for a rating pair, whose sampling has none in closed form; `branch` names
    the rule and `reason` says it in words.
    """

    lease_id: str
    kind: MatchKind
    home: Seat
    away: Seat
    learner_side: Side | None
    seed: int
    budget: int
    expires_at: datetime
    propensity: float | None
    branch: str
    reason: str = ""


class LeaseAnswer(Answer):
    """Granted leases; fewer than asked, or none, while there is nobody to play."""

    items: list[Lease]
    next_poll_s: float


class UnplayablePlayer(Request):
    """Somebody on the released leases whom the worker cannot play for good, such as for damaged weights, and why."""

    player_id: Id
    reason: Annotated[Text, Field(min_length=1)]


class ReleaseRequest(Request):
    """Leases that will not be played further.

    A player that is named in `unplayable` is not leased to this worker again for a while. One that enough workers name
    is quarantined, until somebody reinstates it.
    """

    worker_id: Text
    lease_ids: Annotated[list[Text], Field(max_length=4096)]
    unplayable: Annotated[list[UnplayablePlayer], Field(max_length=4096)] = []


class ReleaseAnswer(Answer):
    """How many of the named leases were still open, and the players who were quarantined by this call."""

    released: int
    quarantined: list[int] = []


class Result(Request):
    """One finished match. Ranges are checked per item, so that a bad one never fails its batch."""

    lease_id: Unicode
    sequence: Whole
    score: Real
    decisions: Whole
    reason: Unicode
    seed: Whole
    learner_step: Whole | None = None


class ResultBatch(Request):
    """Finished matches of one worker."""

    worker_id: Text
    results: Annotated[list[Result], Field(max_length=10_000)]


def storable_lease_id(text: str) -> bool:
    """Say whether some league may have granted a lease of this id."""
    return len(text) <= LEASE_ID_MAX_LENGTH and text.isascii() and text.isprintable()


@dataclass(frozen=True)
class UnreadableResult:
    """An item of a batch that is no result, and why; `content` is the item as text."""

    lease_id: str
    sequence: int
    content: str
    detail: str


def _read_item(item: object, read: ValidatorFunctionWrapHandler) -> Result | UnreadableResult:
    """Keep a bad item from failing its batch."""
    try:
        result: Result = read(item)
    except ValidationError as error:
        return _unreadable(item, error)
    return result


def _unreadable(item: object, error: ValidationError) -> UnreadableResult:
    first = error.errors()[0]
    named = item if isinstance(item, dict) else {}
    lease_id, sequence = named.get("lease_id"), named.get("sequence")
    place = ".".join(str(part) for part in first["loc"][1:]) or "item"
    rule = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    return UnreadableResult(
        lease_id=lease_id if isinstance(lease_id, str) and storable_lease_id(lease_id) else "",
        sequence=sequence if type(sequence) is int else -1,
        content=repr(item),
        detail=f"unreadable result: {place}={first['input']!a:.120}: {rule}; see /docs for what a result is",
    )


class ReceivedBatch(Request):
    """Finished matches of one worker, each item read on its own."""

    model_config = ConfigDict(title="ResultBatch")

    worker_id: Text
    results: Annotated[
        list[Annotated[Result | SkipJsonSchema[InstanceOf[UnreadableResult]], WrapValidator(_read_item)]],
        Field(max_length=10_000),
    ]


class ResultAnswer(Answer):
    """What became of one result. `detail` says why where it was not simply accepted."""

    lease_id: str
    sequence: int
    status: ResultStatus
    match_id: int | None
    detail: str | None


class ResultBatchAnswer(Answer):
    """One answer per result, in order; where every item is a conflict, further members of a problem of status 409."""

    items: list[ResultAnswer]
    next_poll_s: float


class PlayerName(Answer):
    """A player, briefly."""

    player_id: int
    name: str


class Match(Answer):
    """One match of the log; `late` came after its lease expired, inside the grace window.

    `period_id` is null until a period has taken the match in; `counts` is false where its worker was not trusted.
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
    reported_at: datetime


class PeriodCreate(Request):
    """Close a period now; without an environment, that of the league's only one."""

    environment: EnvironmentName | None = None
    reason: Text = "by hand"


class RatingPeriod(Answer):
    """A closed rating period: how many matches it took in, and of how many players.

    `config` is the rule it was rated under, `config_id` the beginning of a hash of it. Rating everything again under
    another rule makes a new `version` of all periods, numbered on from the last. `refitted` says that the whole history
    of the frozen players was fitted at the period's end.
    """

    id: int
    version: int
    number: int
    environment: str
    matches: int
    players: int
    config_id: str
    config: dict[str, Any]
    refitted: bool
    closed_at: datetime
    reason: str


class Champion(Answer):
    """Who holds an environment's alias `champion`: `number` counts its changes of hands, from 1."""

    environment: str
    number: int
    player: Player
    actor: str
    reason: str
    since: datetime


class ChampionChange(Answer):
    """A change of hands of the alias `champion`; `player` is null where nobody held it from then on."""

    environment: str
    number: int
    player: PlayerName | None
    actor: str
    reason: str
    since: datetime


class Payoff(Answer):
    """Who beats whom: row i, column j is P(player i beats player j) and the matches behind it.

    An unplayed pair has the win rate that the ratings predict. `intransitivity` is the share of the log-odds matrix
    that ratings do not explain, in [0, 1]. `total` players are in play; these are the strongest of them.
    """

    environment: str
    total: int
    players: list[PlayerName]
    names: list[str]
    win_rates: list[list[float]]
    counts: list[list[int]]
    intransitivity: float


class Superiority(Answer):
    """How sure the order of the frozen players in play is, strongest first, from all rating matches at once.

    `low` and `high` are the ends of 95 % bands; row i, column j of `superiority` is the probability that player i is
    stronger than player j. Both know that players of a lineage err together. Players without a rating match are left
    out. `period_id` is the last period whose matches count; null before the first.
    """

    environment: str
    period_id: int | None
    players: list[PlayerName]
    ratings: list[float]
    deviations: list[float]
    low: list[float]
    high: list[float]
    superiority: list[list[float]]


class OpponentChance(Answer):
    """How likely one opponent is drawn, and why.

    `weights` has its probability inside each branch, `propensity` over all of them. `win_rate` is the learner's against
    it, resting on `games` matches of the two. For rating leases all three are unknown, and `games` counts all its rated
    games.
    """

    player_id: int
    name: str
    propensity: float | None
    weights: dict[str, float]
    win_rate: float | None
    games: int
    rating: float
    deviation: float


class DrawFilter(Answer):
    """A rule about who is drawn, and the ids of the players that it took out of those whom the filters before left."""

    name: str
    rule: str
    removed: list[int]


class GroupShare(Answer):
    """How much of a branch falls to a group of players; null where it is unknown. Groups may overlap."""

    group: str
    players: int
    share: float | None


class DrawBranch(Answer):
    """A component of a distribution: its share, by which rule it weighs opponents, and upon whom its weight falls.

    `opponents` counts those it may draw. `effective_opponents` is the number of equally likely ones with the same
    entropy: far below `opponents` means that few are drawn again and again.
    """

    name: str
    share: float
    rule: str
    opponents: int
    effective_opponents: float | None
    groups: list[GroupShare]


class DrawAccount(Answer):
    """A distribution over opponents; propensities and `self_play` sum to 1. `filters` are in order."""

    branches: list[DrawBranch]
    self_play: float
    filters: list[DrawFilter]
    items: list[OpponentChance]


class Preview(DrawAccount):
    """The distribution that the learner's next lease is drawn from."""

    player_id: int
    environment: str


class LeaseExplanation(DrawAccount):
    """A lease, what became of it, and the distribution it was drawn from.

    `state` is `played` where every match of the budget was reported before the lease was swept or looked at.
    `pruned_at` says since when an old distribution is without its opponents; null where it has them.
    """

    lease: Lease
    worker_id: str
    environment: str
    granted_at: datetime
    released_at: datetime | None
    state: LeaseState
    matches: int
    branch: str
    propensity: float | None
    pruned_at: datetime | None = None


class Event(Answer):
    """Something that happened: `result`, `period`, a change of standing, of the champion or of a token; who and why."""

    id: int
    kind: str
    environment: str | None
    player_id: int | None
    actor: str
    reason: str
    details: dict[str, Any]
    created_at: datetime


class Health(Answer):
    """Liveness or readiness; `checks` says per part `ok` or why not."""

    status: Literal["ok", "unready"]
    checks: dict[str, str]
