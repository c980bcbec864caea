"""Tables of the league.

`matches` with `behaviours` is append-only and the truth; `ratings` and `payoffs`, by side as well, and `fingerprints`
are derived from it when a period closes and can be computed again at any time. A period takes in the matches of its
environment with ids in (`last_match_id` of the period before, its own `last_match_id`].
"""

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    TypeDecorator,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Id = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit key that SQLite assigns by itself too."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time; SQLite, which has no time zones, stores it bare."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turn an aware time into UTC; refuse a bare one."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone: pass aware times, such as datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return an aware UTC time."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Base of all tables; constraints have predictable names, so that migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger(),
        str: String(),
        datetime: UtcDateTime(),
        bytes: LargeBinary(),
        dict[str, Any]: JSON(none_as_null=True),
        list[str]: JSON(),
        list[dict[str, Any]]: JSON(none_as_null=True),
    }


class Token(Base):
    """A bearer token, known by its hash alone. A revoked one stays, so that the server stays closed."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    digest: Mapped[str] = mapped_column(unique=True)
    scope: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Worker(Base):
    """A process that plays. `owner` is the worker token that registered it; nobody's while the league is open."""

    __tablename__ = "workers"
    __table_args__ = (UniqueConstraint("name", "kind"), Index("uq_workers_instance", "kind", "instance", unique=True))

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    instance: Mapped[str | None]
    kind: Mapped[str]
    version: Mapped[str]
    signatures: Mapped[list[str]]
    command: Mapped[str]
    owner: Mapped[str | None]
    registered_at: Mapped[datetime]
    seen_at: Mapped[datetime]


class Learner(Base):
    """A trained lineage and its latest metrics. `owner` is the worker token that founded it.

    `rules` are numbers of its role that are others than usual. `points` numbers what it reported of itself; `verdicts`
    is what its trainer says of its health, null where it says nothing. `sides` are the names of the two sides of its
    environment where they are unlike.
    """

    __tablename__ = "learners"
    __table_args__ = (UniqueConstraint("environment", "name"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    name: Mapped[str]
    role: Mapped[str]
    signature: Mapped[str]
    max_decisions: Mapped[int | None]
    sides: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    step: Mapped[int | None]
    metrics: Mapped[dict[str, Any]]
    metrics_at: Mapped[datetime | None]
    verdicts: Mapped[list[dict[str, Any]] | None]
    points: Mapped[int] = mapped_column(server_default="0")
    rules: Mapped[dict[str, Any] | None]
    owner: Mapped[str | None]
    created_at: Mapped[datetime]


class Player(Base):
    """Anything rated, with the rating it starts from.

    A snapshot starts where its learner stood after the period `start_period_id`, null before the first that rated it,
    with a deviation of at least `start_deviation_floor`. `owner` is the worker token that entered an external player.
    """

    __tablename__ = "players"
    __table_args__ = (
        UniqueConstraint("environment", "signature", "name"),
        UniqueConstraint("environment", "call_sign"),
        UniqueConstraint("learner_id", "checkpoint", "step"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[str]
    environment: Mapped[str]
    signature: Mapped[str]
    name: Mapped[str]
    call_sign: Mapped[str | None]
    role: Mapped[str | None]
    standing: Mapped[str | None]
    checkpoint: Mapped[str | None]
    learner_id: Mapped[int | None] = mapped_column(ForeignKey("learners.id"))
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
    step: Mapped[int | None]
    card: Mapped[dict[str, Any]]
    start_rating: Mapped[float]
    start_deviation: Mapped[float]
    start_volatility: Mapped[float]
    start_period_id: Mapped[int | None]
    start_deviation_floor: Mapped[float | None]
    owner: Mapped[str | None]
    created_at: Mapped[datetime]


Index("uq_players_learner", Player.learner_id, unique=True, sqlite_where=Player.kind == "learner",
      postgresql_where=Player.kind == "learner")  # fmt: skip


class Draw(Base):
    """A distribution that leases were drawn from, named by the hash of its content.

    Since `pruned_at` its opponents are forgotten, and the name is that of the content it had.
    """

    __tablename__ = "draws"

    id: Mapped[str] = mapped_column(primary_key=True)
    distribution: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    pruned_at: Mapped[datetime | None]


class Lease(Base):
    """Permission for one worker to play one pairing. `state` is settled when it is released, or swept after its end."""

    __tablename__ = "leases"

    id: Mapped[str] = mapped_column(primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    kind: Mapped[str]
    environment: Mapped[str]
    home_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    away_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    learner_side: Mapped[str | None]
    seed: Mapped[int]
    budget: Mapped[int]
    branch: Mapped[str]
    propensity: Mapped[float | None]
    draw_id: Mapped[str] = mapped_column(ForeignKey("draws.id"), index=True)
    gate_id: Mapped[int | None]
    granted_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    released_at: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(server_default="open")


Index("ix_leases_open", Lease.expires_at, sqlite_where=Lease.state == "open", postgresql_where=Lease.state == "open")
Index("ix_leases_gate", Lease.gate_id, Lease.id, sqlite_where=Lease.gate_id.is_not(None),
      postgresql_where=Lease.gate_id.is_not(None))  # fmt: skip


class Gate(Base):
    """A sequential test of two frozen players. Its leases name it; `verdict` is empty unless it has one."""

    __tablename__ = "gates"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    candidate_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    champion_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    elo0: Mapped[float]
    elo1: Mapped[float]
    alpha: Mapped[float]
    beta: Mapped[float]
    least_games: Mapped[int]
    state: Mapped[str]
    actor: Mapped[str]
    reason: Mapped[str]
    opened_at: Mapped[datetime]
    verdict: Mapped[dict[str, Any]]
    closed_reason: Mapped[str | None]
    closed_at: Mapped[datetime | None]


_TESTED = Gate.candidate_id, Gate.champion_id, Gate.elo0, Gate.elo1, Gate.alpha, Gate.beta, Gate.least_games
Index("uq_gates_open", *_TESTED, unique=True, sqlite_where=Gate.state == "open",
      postgresql_where=Gate.state == "open")  # fmt: skip


class UnplayableReport(Base):
    """The last time that a worker could not play a player, and why."""

    __tablename__ = "unplayable_reports"

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True, index=True)
    reason: Mapped[str]
    reported_at: Mapped[datetime]


class Match(Base):
    """One finished match. Never updated, never deleted."""

    __tablename__ = "matches"
    __table_args__ = (
        UniqueConstraint("lease_id", "sequence"),
        Index(None, "environment", "id"),
        Index(None, "home_id", "id"),
        Index(None, "away_id", "id"),
        Index(None, "home_id", "away_id", "id"),
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    lease_id: Mapped[str] = mapped_column(ForeignKey("leases.id"))
    sequence: Mapped[int]
    kind: Mapped[str]
    environment: Mapped[str]
    home_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    away_id: Mapped[int] = mapped_column(ForeignKey("players.id"))
    score: Mapped[float]
    decisions: Mapped[int]
    reason: Mapped[str]
    seed: Mapped[int]
    learner_step: Mapped[int | None]
    late: Mapped[bool]
    payload_hash: Mapped[bytes]
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    reported_at: Mapped[datetime]


class MeasureSet(Base):
    """Names of what behaviours or points of learners' curves are values of, in their order; named by their hash."""

    __tablename__ = "measure_sets"

    id: Mapped[str] = mapped_column(primary_key=True)
    measures: Mapped[list[str]]


class Behaviour(Base):
    """How both sides of a match played, where that was reported with it: float32 values, little-endian, NaN unknown."""

    __tablename__ = "behaviours"

    match_id: Mapped[int] = mapped_column(ForeignKey("matches.id"), primary_key=True, autoincrement=False)
    measure_set_id: Mapped[str] = mapped_column(ForeignKey("measure_sets.id"))
    home: Mapped[bytes]
    away: Mapped[bytes]


class MetricPoint(Base):
    """What a learner reported of itself at a step: float32 values, little-endian, NaN unknown.

    `number` counts a learner's points as they came. The older, the fewer are kept; see `league.services.curves`.
    """

    __tablename__ = "metric_points"
    __table_args__ = (UniqueConstraint("learner_id", "step"),)

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    measure_set_id: Mapped[str] = mapped_column(ForeignKey("measure_sets.id"))
    readings: Mapped[bytes]
    reported_at: Mapped[datetime]


class Replay(Base):
    """The recording of a match: `content` is its file as docs/replays.md describes it.

    A notable one stays longer than others: the match was played for a gate, or by its environment's champion.
    """

    __tablename__ = "replays"
    __table_args__ = (Index(None, "notable", "size_bytes"),)

    match_id: Mapped[int] = mapped_column(ForeignKey("matches.id"), primary_key=True, autoincrement=False)
    sha256: Mapped[str]
    size_bytes: Mapped[int]
    notable: Mapped[bool]
    stored_at: Mapped[datetime]
    content: Mapped[bytes]


class Fingerprint(Base):
    """A player's behaviour by one measure, over the matches up to the mark of its environment."""

    __tablename__ = "fingerprints"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    measure: Mapped[str] = mapped_column(primary_key=True)
    matches: Mapped[int]
    total: Mapped[float]
    squares: Mapped[float]


class FingerprintMark(Base):
    """Up to which match an environment's fingerprints go, and the last event before them that could change the past."""

    __tablename__ = "fingerprint_marks"

    environment: Mapped[str] = mapped_column(primary_key=True)
    last_match_id: Mapped[int]
    event_id: Mapped[int]


class Quarantine(Base):
    """Results of a worker that do not count: those reported from `since` on and before `until`, without end where null.

    `lifted_at` is null while the worker gets no leases. `pending_since` is the time of the last change while ratings do
    not show it.
    """

    __tablename__ = "quarantines"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), index=True)
    since: Mapped[datetime]
    until: Mapped[datetime | None]
    reason: Mapped[str]
    actor: Mapped[str]
    imposed_at: Mapped[datetime]
    lifted_at: Mapped[datetime | None]
    pending_since: Mapped[datetime | None]


Index("uq_quarantines_open", Quarantine.worker_id, unique=True, sqlite_where=Quarantine.lifted_at.is_(None),
      postgresql_where=Quarantine.lifted_at.is_(None))  # fmt: skip


class Refusal(Base):
    """A result that was not taken, and what its worker was told; `digest` is of all that it said."""

    __tablename__ = "refusals"
    __table_args__ = (Index(None, "worker_id", "refused_at"),)

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    lease_id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(primary_key=True)
    status: Mapped[str]
    match_id: Mapped[int | None] = mapped_column(ForeignKey("matches.id"))
    detail: Mapped[str]
    refused_at: Mapped[datetime]


class Period(Base):
    """A closed rating period, with the rating rule it was closed under.

    Rating the whole log again under another rule makes a new `version` of all periods, numbered on from the last; the
    newest one is in force. `refitted` says that the whole history was fitted at the period's end.
    """

    __tablename__ = "periods"
    __table_args__ = (UniqueConstraint("environment", "number"), Index(None, "environment", "last_match_id"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    environment: Mapped[str]
    version: Mapped[int] = mapped_column(server_default="1")
    number: Mapped[int]
    last_match_id: Mapped[int]
    matches: Mapped[int]
    players: Mapped[int]
    rule: Mapped[dict[str, Any]]
    refitted: Mapped[bool] = mapped_column(server_default=false())
    reason: Mapped[str]
    closed_at: Mapped[datetime]


class Rating(Base):
    """A player's rating after a period that changed it; `games` and `score` count from its start."""

    __tablename__ = "ratings"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    period_id: Mapped[int] = mapped_column(ForeignKey("periods.id"), primary_key=True, index=True)
    rating: Mapped[float]
    deviation: Mapped[float]
    volatility: Mapped[float]
    games: Mapped[int]
    score: Mapped[float]


class SideRating(Base):
    """A player's rating on one side, `home` or `away`, after a period that changed it; only where sides are unlike."""

    __tablename__ = "side_ratings"

    player_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    side: Mapped[str] = mapped_column(primary_key=True)
    period_id: Mapped[int] = mapped_column(ForeignKey("periods.id"), primary_key=True, index=True)
    rating: Mapped[float]
    deviation: Mapped[float]
    volatility: Mapped[float]
    games: Mapped[int]
    score: Mapped[float]


class Payoff(Base):
    """What two players' matches up to the last closed period say, from the view of the one with the lower id.

    `matches` is the plain number; the others fade as `arena.payoff` has it.
    """

    __tablename__ = "payoffs"

    low_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    high_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True, index=True)
    environment: Mapped[str] = mapped_column(index=True)
    matches: Mapped[int]
    games: Mapped[float]
    points: Mapped[float]
    wins: Mapped[float]
    draws: Mapped[float]
    losses: Mapped[float]


class SidePayoff(Base):
    """A pair's record as `Payoff` has it, of the matches in which one of them was at home; only where sides are unlike.

    Scores are those of `home_id`.
    """

    __tablename__ = "side_payoffs"

    home_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    away_id: Mapped[int] = mapped_column(ForeignKey("players.id"), primary_key=True)
    environment: Mapped[str] = mapped_column(index=True)
    matches: Mapped[int]
    games: Mapped[float]
    points: Mapped[float]
    wins: Mapped[float]
    draws: Mapped[float]
    losses: Mapped[float]


class Champion(Base):
    """Who holds an environment's alias `champion` from when on; nobody where there is no player. The last row holds."""

    __tablename__ = "champions"

    environment: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
    actor: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]


class Upload(Base):
    """Bytes that a worker token has begun to send into the store; `stored_at` is null until they are there."""

    __tablename__ = "uploads"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    owner: Mapped[str] = mapped_column(index=True)
    sha256: Mapped[str] = mapped_column(index=True)
    size_bytes: Mapped[int]
    begun_at: Mapped[datetime]
    stored_at: Mapped[datetime | None]


class Election(Base):
    """Which process does a duty for all of them, until when."""

    __tablename__ = "elections"

    duty: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    until: Mapped[datetime]


class Event(Base):
    """The audit log: who changed what, when and why."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "kind", "id"), Index(None, "actor", "id"))

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    kind: Mapped[str]
    environment: Mapped[str | None]
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"), index=True)
    actor: Mapped[str]
    reason: Mapped[str]
    details: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


Index("ix_events_no_period", Event.id, sqlite_where=Event.kind != "period", postgresql_where=Event.kind != "period")


class SnapshotDecision(Base):
    """That a learner was to leave a snapshot after the one of `since_step`, when it had come to `step`.

    With `reset` it was to begin anew then, with the weights of the checkpoint `start`, or its own first ones where that
    is null. What the decision rests on is in its event. `player_id` is the snapshot, null until it is published.
    """

    __tablename__ = "snapshot_decisions"

    learner_id: Mapped[int] = mapped_column(ForeignKey("learners.id"), primary_key=True)
    since_step: Mapped[int] = mapped_column(primary_key=True)
    step: Mapped[int]
    reset: Mapped[bool]
    start: Mapped[str | None]
    event_id: Mapped[int] = mapped_column(ForeignKey("events.id"))
    player_id: Mapped[int | None] = mapped_column(ForeignKey("players.id"))
