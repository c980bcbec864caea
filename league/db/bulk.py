"""Many values in one statement, with one bound value each column: fast to send, the same text every time, no limit."""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import ARRAY, ColumnElement, Insert, Row, String, Table, bindparam, func, literal, select
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
    names, keys = tuple(rows[0]), tuple(column.key for column in returning)
    if session.get_bind().dialect.name == "postgresql":
        columns = {name: [row[name] for row in rows] for name in names}
        outcome = session.execute(_from_arrays(table, names, keys), columns)
    else:
        outcome = session.execute(_from_rows(table, keys), rows)
    return outcome.all() if returning else []


@lru_cache
def _from_arrays(table: type[Base], names: tuple[str, ...], returning: tuple[str, ...]) -> Insert:
    target = _table(table)
    columns = [target.c[name] for name in names]
    arrays = [func.unnest(bindparam(column.name, type_=ARRAY(column.type))) for column in columns]
    statement = postgresql.insert(target).from_select(names, select(*arrays)).on_conflict_do_nothing()
    return _returning(statement, target, returning)


@lru_cache
def _from_rows(table: type[Base], returning: tuple[str, ...]) -> Insert:
    target = _table(table)
    return _returning(sqlite.insert(target).on_conflict_do_nothing(), target, returning)


def _returning(statement: Insert, target: Table, names: tuple[str, ...]) -> Insert:
    return statement.returning(*(target.c[name] for name in names)) if names else statement


def _table(table: type[Base]) -> Table:
    return cast(Table, table.__table__)  # the bare table: rows need no object mapper
