"""What all tables have in common: keys, times, names of constraints."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Integer, LargeBinary, MetaData, String, TypeDecorator
from sqlalchemy.orm import DeclarativeBase

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
