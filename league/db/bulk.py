"""Many rows or values in one statement, bound in one piece where that is faster."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    JSON,
    ColumnElement,
    Insert,
    Row,
    String,
    Table,
    bindparam,
    column,
    func,
    literal,
    literal_column,
    select,
)
from sqlalchemy import cast as as_type
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db.models import Base


def among(session: Session, column: InstrumentedAttribute[Any], values: Collection[str | int]) -> ColumnElement[bool]:
    """Select the rows whose column has one of the values; text must be free of NUL, which PostgreSQL does not take."""
    if session.get_bind().dialect.name == "postgresql":
        return column == func.any(literal(list(values), ARRAY(column.type)))
    each = func.json_each(literal(json.dumps(list(values)), String)).table_valued("value")
    return column.in_(select(each.c.value))


def insert_new(
    session: Session,
    table: type[Base],
    rows: Sequence[Mapping[str, Any]],
    returning: Sequence[InstrumentedAttribute[Any]] = (),
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Insert rows in order, leaving out those whose key is taken; return columns of the rows that were new.

    Args:
        session: A write transaction.
        table: Where to.
        rows: All with the same columns.
        returning: Columns of `table` to return.
    """
    if not rows:
        return []
    target, names = cast(Table, table.__table__), tuple(each.key for each in returning)
    if session.get_bind().dialect.name == "postgresql":
        # one value to bind: binding 1,500 of them takes longer than PostgreSQL takes to read them from JSON
        values = {"rows": json.dumps(list(rows), default=_as_json)}
        outcome = session.execute(_from_json(target, tuple(rows[0]), names), values)
    else:
        outcome = session.execute(_from_rows(target, names), rows)
    return outcome.all() if returning else []


@lru_cache
def _from_json(target: Table, names: tuple[str, ...], returning: tuple[str, ...]) -> Insert:
    blank: ColumnElement[Any] = literal_column(f"NULL::{target.name}")
    source = func.json_populate_recordset(blank, as_type(bindparam("rows", type_=String), JSON))
    columns: list[ColumnElement[Any]] = [column(name) for name in names]
    chosen = select(*columns).select_from(source)
    statement = postgresql.insert(target).from_select(names, chosen).on_conflict_do_nothing()
    return _returning(statement, target, returning)


@lru_cache
def _from_rows(target: Table, returning: tuple[str, ...]) -> Insert:
    return _returning(sqlite.insert(target).on_conflict_do_nothing(), target, returning)


def _returning(statement: Insert, target: Table, names: tuple[str, ...]) -> Insert:
    return statement.returning(*(target.c[name] for name in names)) if names else statement


def _as_json(value: bytes | datetime) -> str:
    """Write what JSON has no form for as PostgreSQL reads it."""
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value.isoformat()
