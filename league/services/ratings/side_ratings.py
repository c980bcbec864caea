"""Ratings of players by side, as they are shown, where the two sides of a game are unlike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, aliased

from league import wire
from league.db import bulk_insert
from league.db.models import Player, SideRating
from league.services.environments import lookup as environments


def is_last(as_of: int | None = None) -> ColumnElement[bool]:
    """Select the last rating of each player on each side, or the last one up to period `as_of`."""
    other = aliased(SideRating)
    same = other.player_id == SideRating.player_id, other.side == SideRating.side
    history = select(func.max(other.period_id)).where(*same)
    if as_of is not None:
        history = history.where(other.period_id <= as_of)
    return SideRating.period_id == history.correlate(SideRating).scalar_subquery()


def of_players(
    session: Session, players: Sequence[Player], as_of: int | None = None
) -> dict[int, list[wire.SideRating]]:
    """Return the sides on which some players are rated, home first, by id of the player.

    Args:
        session: A transaction.
        players: Who.
        as_of: After this period; None for after the last one.
    """
    ids = [player.id for player in players]
    query = select(SideRating).where(bulk_insert.among(session, SideRating.player_id, ids), is_last(as_of))
    rated = session.scalars(query.order_by(SideRating.player_id, SideRating.side.desc())).all()
    if not rated:
        return {}
    environments = {player.id: player.environment for player in players}
    names = {each: _names(session, each) for each in {environments[one.player_id] for one in rated}}
    found: dict[int, list[wire.SideRating]] = {}
    for one in rated:
        shown = wire.SideRating(
            side=cast(wire.Side, one.side),
            name=names[environments[one.player_id]][one.side],
            rating=one.rating,
            deviation=one.deviation,
            games=one.games,
            win_rate=one.score / one.games if one.games else None,
        )
        found.setdefault(one.player_id, []).append(shown)
    return found


@dataclass(frozen=True, slots=True)
class OnSide:
    """What a player is rated on a side."""

    rating: float
    deviation: float


def of_environment(session: Session, environment: str, as_of: int | None = None) -> dict[int, dict[str, OnSide]]:
    """Return the ratings on `home` and `away` after the last period, or after period `as_of`, by id of the player."""
    query = select(SideRating.player_id, SideRating.side, SideRating.rating, SideRating.deviation)
    query = query.join(Player, Player.id == SideRating.player_id).where(
        Player.environment == environment, is_last(as_of)
    )
    found: dict[int, dict[str, OnSide]] = {}
    for player_id, side, *numbers in session.connection().execute(query):
        found.setdefault(player_id, {})[side] = OnSide(*numbers)
    return found


def _names(session: Session, environment: str) -> dict[str, str]:
    home, away = environments.sides(session, environment) or ("home", "away")
    return {"home": home, "away": away}
