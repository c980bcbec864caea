"""Storage of ratings, overall and by side, as rating periods read and append them."""

from collections.abc import Iterator, Mapping

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from league.db.models import Player, Rating
from league.services.ratings import rated_players
from league.services.ratings.period import PlayerRating
from league.services.ratings.side_ratings import is_last
from league.services.ratings.sides import owner, seat_of
from league.wire import Side

NUMBERS = Rating.rating, Rating.deviation, Rating.volatility, Rating.games, Rating.score


def read(session: Session, environment: str, as_of: int | None = None) -> dict[int, PlayerRating]:
    """Return every player that a period has rated, after the last one or after period `as_of`."""
    query = rated_players.rated(as_of).where(Player.environment == environment, Rating.id.is_not(None))
    rows = session.connection().execute(query.with_only_columns(Player.id, Player.kind, *NUMBERS))
    return {row.id: PlayerRating(*row[1:]) for row in rows}


def read_sides(session: Session, environment: str) -> dict[int, PlayerRating]:
    """Return the seats that periods have rated, after the last one."""
    query = select(Rating.player_id, Rating.side, Player.kind, *NUMBERS)
    query = query.join(Player, Player.id == Rating.player_id).where(Player.environment == environment, is_last())
    rows = session.connection().execute(query)
    return {seat_of(row.player_id, row.side): PlayerRating(*row[2:]) for row in rows}


def by_side(
    entries: Mapping[int, PlayerRating], seats: Mapping[int, PlayerRating]
) -> Iterator[tuple[Side | None, int, PlayerRating]]:
    """Yield the side, the player and the rating of each entry, overall ones first."""
    for player, entry in sorted(entries.items()):
        yield None, player, entry
    for seat, entry in sorted(seats.items()):
        player, side = owner(seat)
        yield side, player, entry


def write(
    session: Session, period_id: int, entries: Mapping[int, PlayerRating], seats: Mapping[int, PlayerRating]
) -> None:
    """Append a period's ratings: overall by player, and those of sides by seat."""
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
        }
        for side, player, entry in by_side(entries, seats)
    ]
    if rows:
        session.execute(insert(Rating), rows)
