"""Shared parts of all tables: keys, times, enumerations and names of constraints."""

from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, get_args

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Enum, Integer, LargeBinary, MetaData, String, TypeDecorator
from sqlalchemy.orm import DeclarativeBase

from league.wire import Command, GateState, Kind, LeaseState, MatchKind, ResultStatus, Role, Side, Standing, WorkerKind

CheckpointState = Literal["announced", "stored"]

TokenScope = Literal["read", "worker", "admin"]

Resolution = Literal["confirmed", "corroborated", "refuted", "dismissed", "cleared"]
"""Resolution of a report that a snapshot is unplayable.

confirmed: the server's own check or an admin agreed. corroborated: other owners reported the same, and the snapshot was
quarantined. refuted: other owners have played the snapshot. dismissed: an admin found the report false, or reinstated
the snapshot. cleared: the report was false, and an admin trusts its owner again, or the cause is local to the worker.
"""

Id = BigInteger().with_variant(Integer, "sqlite")
"""A 64-bit key. The variant for SQLite is INTEGER, because only an INTEGER PRIMARY KEY is assigned automatically."""


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time; SQLite, which has no time zones, stores it as a naive one."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert an aware time to UTC; reject a naive one."""
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


def _vocabulary(name: str, words: object) -> Enum:
    """Return the type of a text column with a CHECK constraint on its values."""
    # A CHECK constraint, because SQLite has no enumerations and PostgreSQL cannot remove a value from a native one.
    return Enum(*get_args(words), name=name, native_enum=False, create_constraint=True, length=None)


class Base(DeclarativeBase):
    """Base of all tables; constraints have predictable names, so that migrations can refer to them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger(),
        str: String(),
        datetime: UtcDateTime(),
        bytes: LargeBinary(),
        # None becomes SQL's NULL instead of the JSON value null, so that `IS NULL` finds it.
        dict[str, Any]: JSON(none_as_null=True),
        list[str]: JSON(),
        list[dict[str, Any]]: JSON(none_as_null=True),
        CheckpointState: _vocabulary("state", CheckpointState),
        Command: _vocabulary("command", Command),
        GateState: _vocabulary("state", GateState),
        Kind: _vocabulary("kind", Kind),
        LeaseState: _vocabulary("state", LeaseState),
        MatchKind: _vocabulary("kind", MatchKind),
        Resolution: _vocabulary("resolution", Resolution),
        ResultStatus: _vocabulary("status", ResultStatus),
        Role: _vocabulary("role", Role),
        Side: _vocabulary("side", Side),
        Standing: _vocabulary("standing", Standing),
        TokenScope: _vocabulary("scope", TokenScope),
        WorkerKind: _vocabulary("kind", WorkerKind),
    }
