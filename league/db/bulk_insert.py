"""Bulk inserts: many rows in one statement, bound as one value where that is faster."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, cast

from pydantic_core import to_json
from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    Insert,
    Row,
    String,
    Table,
    bindparam,
    func,
    literal,
    literal_column,
    select,
    true,
)
from sqlalchemy import cast as as_type
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import TypeEngine

from league.db import locks
from league.db.locks import Lock
from league.db.models import Base

AnyColumn = InstrumentedAttribute[Any] | ColumnElement[Any]

_ROWS_MAX = 64  # per statement on SQLite, a power of two


@dataclass(frozen=True)
class _OnConflict:
    """Conflict action: the key columns and the columns to update."""

    key: tuple[str, ...]
    changed: tuple[str, ...]


def among(session: Session, column: InstrumentedAttribute[Any], values: Collection[str | int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of the values; text must not contain NUL, which PostgreSQL rejects."""
    dialect = session.get_bind().dialect.name
    return _one_of(dialect, column, literal(listed(dialect, values), _list_type(dialect, column)))


def among_bound(dialect: str, column: AnyColumn, name: str) -> ColumnElement[bool]:
    """Return the condition of `among` with a bound parameter that takes `listed` values."""
    return _one_of(dialect, column, bindparam(name, type_=_list_type(dialect, column)))


def listed(dialect: str, values: Collection[str | int]) -> list[str | int] | str:
    """Return values in the form that the dialect binds as one parameter."""
    return list(values) if dialect == "postgresql" else json.dumps(list(values))


def _one_of(dialect: str, column: AnyColumn, values: ColumnElement[Any]) -> ColumnElement[bool]:
    # One parameter for the whole list, so that lists of any length share a prepared statement.
    if dialect == "postgresql":
        return column == func.any(values)
    return column.in_(select(func.json_each(values).table_valued("value").c.value))


def _list_type(dialect: str, column: AnyColumn) -> TypeEngine[Any]:
    return ARRAY(column.type) if dialect == "postgresql" else String()


def insert_new(
    session: Session,
    table: type[Base],
    rows: Sequence[Mapping[str, Any]],
    returning: Sequence[InstrumentedAttribute[Any]] = (),
    under: tuple[Lock, str] | None = None,
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Insert rows in order, except those with an existing key; return columns of the inserted rows.

    Args:
        session: A write transaction.
        table: Table to insert into.
        rows: All with the same columns, at least two: text, numbers, booleans, times, bytes and None.
        returning: Columns of `table` to return, of text or numbers.
        under: Lock and environment; the statement acquires the shared lock before the first row gets its id.
    """
    return _insert(session, table, rows, None, tuple(each.key for each in returning), under)


def put(
    session: Session,
    table: type[Base],
    rows: Sequence[Mapping[str, Any]],
    key: Sequence[InstrumentedAttribute[Any]],
    fixed: Sequence[InstrumentedAttribute[Any]] = (),
) -> None:
    """Upsert rows in order.

    Args:
        session: A write transaction.
        table: Table to insert into.
        rows: As for `insert_new`, each key at most once.
        key: Key columns.
        fixed: Columns that never change, so their indices need no update.
    """
    if not rows:
        return
    unchanged = {each.key for each in (*key, *fixed)}
    on_conflict = _OnConflict(tuple(each.key for each in key), tuple(name for name in rows[0] if name not in unchanged))
    _insert(session, table, rows, on_conflict, ())


def _insert(
    session: Session,
    table: type[Base],
    rows: Sequence[Mapping[str, Any]],
    on_conflict: _OnConflict | None,
    returning: tuple[str, ...],
    under: tuple[Lock, str] | None = None,
) -> Sequence[Row[*tuple[Any, ...]]]:
    if not rows:
        return []
    target, names = cast(Table, table.__table__), tuple(rows[0])
    if session.get_bind().dialect.name != "postgresql":
        return _insert_into_sqlite(session, target, rows, on_conflict, returning)
    # one parameter: binding 1,500 values takes longer than parsing them from JSON in PostgreSQL
    values: dict[str, Any] = {"rows": _as_json(rows)} | ({} if under is None else locks.named(*under))
    statement = _from_json(target, names, on_conflict, returning, under is not None)
    outcome = session.connection().execute(statement, values)
    return outcome.all() if returning else []


@lru_cache
def _from_json(
    target: Table, names: tuple[str, ...], on_conflict: _OnConflict | None, returning: tuple[str, ...], locked: bool
) -> Insert:
    blank: ColumnElement[Any] = literal_column(f"NULL::{target.name}")
    rows = as_type(bindparam("rows", type_=String), JSON)
    given = func.json_populate_recordset(blank, rows).table_valued(*names, name="new")
    # The join makes every row depend on the CTE, which PostgreSQL therefore evaluates before it assigns the first id.
    source = given.join(locks.sharing(), true()) if locked else given
    statement = postgresql.insert(target).from_select(names, select(*given.c).select_from(source))
    if on_conflict is not None:
        changed = {name: statement.excluded[name] for name in on_conflict.changed}
        statement = statement.on_conflict_do_update(index_elements=on_conflict.key, set_=changed)
    else:
        statement = statement.on_conflict_do_nothing()
    return statement.returning(*(target.c[name] for name in returning)) if returning else statement


def _insert_into_sqlite(
    session: Session,
    target: Table,
    rows: Sequence[Mapping[str, Any]],
    on_conflict: _OnConflict | None,
    returning: tuple[str, ...],
) -> list[Row[*tuple[Any, ...]]]:
    """Bind many rows to one statement; row by row, the driver would release the GIL each time."""
    connection, names = session.connection(), tuple(rows[0])
    in_order = itemgetter(*names)
    inserted: list[Row[*tuple[Any, ...]]] = []
    for some in _in_powers_of_two(rows):
        values = tuple(
            _as_bare_time(value) if type(value) is datetime else value
            for value in chain.from_iterable(map(in_order, some))
        )
        outcome = connection.exec_driver_sql(
            _values_statement(target, names, len(some), on_conflict, returning), values
        )
        if returning:
            inserted += outcome.all()
    return inserted


def _in_powers_of_two(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Split rows into powers of two, so that the driver caches only a few statements."""
    start, size = 0, _ROWS_MAX
    while start < len(rows):
        while size > len(rows) - start:
            size //= 2
        yield rows[start : start + size]
        start += size


@lru_cache
def _values_statement(
    target: Table, names: tuple[str, ...], count: int, on_conflict: _OnConflict | None, returning: tuple[str, ...]
) -> str:
    row = f"({', '.join('?' * len(names))})"
    conflict = "DO NOTHING"
    if on_conflict is not None:
        changed = ", ".join(f"{name} = excluded.{name}" for name in on_conflict.changed)
        conflict = f"({', '.join(on_conflict.key)}) DO UPDATE SET {changed}"
    answer = f" RETURNING {', '.join(returning)}" if returning else ""
    values = ", ".join([row] * count)
    return f"INSERT INTO {target.name} ({', '.join(names)}) VALUES {values} ON CONFLICT {conflict}{answer}"  # noqa: S608


@lru_cache
def _as_bare_time(value: datetime) -> str:
    """Format a time like `UtcDateTime`."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def _as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON for PostgreSQL."""
    binary = [name for name, value in rows[0].items() if isinstance(value, bytes)]
    if binary:  # JSON has no binary type
        rows = [{**row, **{name: f"\\x{row[name].hex()}" for name in binary}} for row in rows]
    return to_json(rows).decode()
