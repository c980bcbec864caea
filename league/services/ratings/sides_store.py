"""Storage of pair records by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from league.db import bulk_insert
from league.db.arrays import read_columns
from league.db.models import SidePayoff
from league.services.matches.pair_records import PairRecords
from league.services.ratings import store
from league.services.ratings.sides import SideState, away_seats, owner

_COLUMNS = ("home_id", "away_id", "matches", "games", "points", "wins", "draws", "losses")


def read(session: Session, environment: str) -> SideState:
    """Read what is known of seats after the last closed period."""
    return SideState(store.read_sides(session, environment), read_records(session, environment))


def read_records(session: Session, environment: str) -> PairRecords:
    """Read what pairs of seats scored up to the last closed period."""
    query = select(*(getattr(SidePayoff, name) for name in _COLUMNS)).where(SidePayoff.environment == environment)
    query = query.order_by(SidePayoff.home_id, SidePayoff.away_id)
    home, away, matches, *numbers = read_columns(session, query, len(_COLUMNS))
    return PairRecords(home.astype(np.int64), away_seats(away.astype(np.int64)), matches.astype(np.int64), *numbers)


def rows(records: PairRecords, environment: str) -> list[dict[str, Any]]:
    """Return records of pairs of seats as rows of the table."""
    return [
        {
            "home_id": row["low_id"],
            "away_id": owner(row["high_id"])[0],
            **{name: row[name] for name in ("environment", *_COLUMNS[2:])},
        }
        for row in records.rows(environment)
    ]


def write(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep records, new or changed, as `rows` gives them."""
    bulk_insert.put(
        session, SidePayoff, rows, key=(SidePayoff.home_id, SidePayoff.away_id), fixed=(SidePayoff.environment,)
    )


def rewrite(session: Session, environment: str, records: PairRecords) -> None:
    """Replace all records of an environment."""
    session.execute(delete(SidePayoff).where(SidePayoff.environment == environment))
    write(session, rows(records, environment))
