"""Storage of side ratings, and of pair records by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy.orm import Session

from league.db import bulk_insert
from league.db.arrays import read_columns
from league.db.models import Player, SidePayoff, SideRating
from league.services.matches.pair_records import PairRecords
from league.services.ratings.period import PlayerRating
from league.services.ratings.side_ratings import is_last
from league.services.ratings.sides import SideState, away_seats, owner, seat_of

_NUMBERS = SideRating.rating, SideRating.deviation, SideRating.volatility, SideRating.games, SideRating.score
_COLUMNS = ("home_id", "away_id", "matches", "games", "points", "wins", "draws", "losses")


def read(session: Session, environment: str) -> SideState:
    """Read what is known of seats after the last closed period."""
    entries = _entries(session, Player.environment == environment, is_last())
    return SideState(entries, read_records(session, environment))


def read_records(session: Session, environment: str) -> PairRecords:
    """Read what pairs of seats scored up to the last closed period."""
    query = select(*(getattr(SidePayoff, name) for name in _COLUMNS)).where(SidePayoff.environment == environment)
    query = query.order_by(SidePayoff.home_id, SidePayoff.away_id)
    home, away, matches, *numbers = read_columns(session, query, len(_COLUMNS))
    return PairRecords(home.astype(np.int64), away_seats(away.astype(np.int64)), matches.astype(np.int64), *numbers)


def ratings_of(session: Session, period_id: int) -> dict[int, PlayerRating]:
    """Return the entries that a period changed, by seat."""
    return _entries(session, SideRating.period_id == period_id)


def write_ratings(session: Session, period_id: int, entries: Mapping[int, PlayerRating]) -> None:
    """Append a period's ratings of sides, by seat."""
    rows = []
    for seat, entry in sorted(entries.items()):
        player, side = owner(seat)
        rows.append(
            {
                "player_id": player,
                "side": side,
                "period_id": period_id,
                "rating": entry.rating,
                "deviation": entry.deviation,
                "volatility": entry.volatility,
                "games": entry.games,
                "score": entry.score,
            }
        )
    if rows:
        session.execute(insert(SideRating), rows)


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


def _entries(session: Session, *which: ColumnElement[bool]) -> dict[int, PlayerRating]:
    query = select(SideRating.player_id, SideRating.side, Player.kind, *_NUMBERS)
    query = query.join(Player, Player.id == SideRating.player_id).where(*which)
    rows = session.connection().execute(query)
    return {seat_of(row.player_id, row.side): PlayerRating(row.kind, *row[3:]) for row in rows}
