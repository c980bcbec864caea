"""Storage of ratings and of pair records by side.

Overall pair records are in `league.services.matches.pair_records`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from league.db import bulk_insert
from league.db.arrays import read_columns
from league.db.models import Player, Rating, SidePayoff
from league.services.matches.pair_records import PairRecords
from league.services.ratings import rated_players
from league.services.ratings.period import PlayerRating
from league.services.ratings.side_ratings import is_last
from league.services.ratings.sides import SideState, away_seats, owner, seat_of
from league.wire import Side

NUMBERS = Rating.rating, Rating.deviation, Rating.volatility, Rating.games, Rating.score, Rating.standard_error
_PAYOFFS = ("home_id", "away_id", "matches", "games", "points", "wins", "draws", "losses")


def read(session: Session, environment: str, as_of: int | None = None) -> dict[int, PlayerRating]:
    """Return the ratings of all rated players, after the last period or period `as_of`."""
    query = rated_players.rated(as_of).where(Player.environment == environment, Rating.id.is_not(None))
    rows = session.connection().execute(query.with_only_columns(Player.id, Player.kind, *NUMBERS))
    return {player: PlayerRating(kind, *numbers) for player, kind, *numbers in rows}


def read_sides(session: Session, environment: str) -> SideState:
    """Return the ratings and pair records of seats after the last closed period."""
    query = select(Rating.player_id, Rating.side, Player.kind, *NUMBERS)
    query = query.join(Player, Player.id == Rating.player_id).where(Player.environment == environment, is_last())
    rows = session.connection().execute(query)
    entries = {seat_of(row.player_id, row.side): PlayerRating(*row[2:]) for row in rows}
    return SideState(entries, read_side_records(session, environment))


def read_side_records(session: Session, environment: str) -> PairRecords:
    """Return the records of pairs of seats up to the last closed period."""
    query = select(*(getattr(SidePayoff, name) for name in _PAYOFFS)).where(SidePayoff.environment == environment)
    query = query.order_by(SidePayoff.home_id, SidePayoff.away_id)
    home, away, matches, *numbers = read_columns(session, query, len(_PAYOFFS))
    return PairRecords(home.astype(np.int64), away_seats(away.astype(np.int64)), matches.astype(np.int64), *numbers)


def by_side(
    entries: Mapping[int, PlayerRating], seats: Mapping[int, PlayerRating]
) -> Iterator[tuple[Side | None, int, PlayerRating]]:
    """Yield side, player and rating of each entry, overall ones first."""
    for player, entry in sorted(entries.items()):
        yield None, player, entry
    for seat, entry in sorted(seats.items()):
        player, side = owner(seat)
        yield side, player, entry


def write(
    session: Session, period_id: int, entries: Mapping[int, PlayerRating], seats: Mapping[int, PlayerRating]
) -> None:
    """Insert a period's ratings: overall by player, and by seat."""
    rows = [
        {
            "player_id": player,
            "side": side,
            "period_id": period_id,
            "rating": entry.rating,
            "deviation": entry.deviation,
            "volatility": entry.volatility,
            "games": entry.games,
            "score": entry.score,
            "standard_error": entry.standard_error,
        }
        for side, player, entry in by_side(entries, seats)
    ]
    if rows:
        session.execute(insert(Rating), rows)


def side_rows(records: PairRecords, environment: str) -> list[dict[str, Any]]:
    """Return records of pairs of seats as rows of the table."""
    return [
        {
            "home_id": row["low_id"],
            "away_id": owner(row["high_id"])[0],
            **{name: row[name] for name in ("environment", *_PAYOFFS[2:])},
        }
        for row in records.rows(environment)
    ]


def write_side_records(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Upsert records as returned by `side_rows`."""
    key = SidePayoff.home_id, SidePayoff.away_id
    bulk_insert.put(session, SidePayoff, rows, key=key, fixed=(SidePayoff.environment,))


def rewrite_side_records(session: Session, environment: str, records: PairRecords) -> None:
    """Replace all records of an environment."""
    session.execute(delete(SidePayoff).where(SidePayoff.environment == environment))
    write_side_records(session, side_rows(records, environment))
