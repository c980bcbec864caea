"""Ratings of players by side, as response bodies, for asymmetric games."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, func, select
from sqlalchemy.orm import Session, aliased

from league import wire
from league.db import bulk_insert
from league.db.models import Player, Rating
from league.services.environments import lookup as environments
from league.services.ratings.sides import SIDES


@dataclass(frozen=True, slots=True)
class OnSide:
    """A player's rating on one side."""

    rating: float
    deviation: float
    games: int
    score: float


OnSides = dict[wire.Side, OnSide]


def is_last(as_of: int | None = None) -> ColumnElement[bool]:
    """Return the condition for the last rating of each player on each side, or the last up to period `as_of`."""
    other = aliased(Rating)
    same = other.player_id == Rating.player_id, other.side == Rating.side
    history = select(func.max(other.period_id)).where(*same)
    if as_of is not None:
        history = history.where(other.period_id <= as_of)
    last = Rating.period_id == history.correlate(Rating).scalar_subquery()
    return and_(Rating.side.is_not(None), last)


def of_environment(session: Session, environment: str, as_of: int | None = None) -> dict[int, OnSides]:
    """Return the ratings on both sides after the last period or period `as_of`, by player id."""
    return _read(session, Player.environment == environment, as_of)


def of_players(
    session: Session, players: Sequence[Player], as_of: int | None = None
) -> dict[int, list[wire.SideRating]]:
    """Return the ratings by side of some players, home first, by player id."""
    found = _read(session, bulk_insert.among(session, Player.id, [player.id for player in players]), as_of)
    rated = [player for player in players if player.id in found]
    names = {each: environments.sides(session, each) for each in {player.environment for player in rated}}
    return {player.id: to_wire(found[player.id], names[player.environment]) for player in rated}


def to_wire(on_sides: OnSides, names: tuple[str, str] | None) -> list[wire.SideRating]:
    """Return a player's ratings by side as response bodies, home first, with the sides' names in the game."""
    named = zip(SIDES, names or SIDES, strict=True)
    return [
        wire.SideRating(
            side=side,
            name=name,
            rating=one.rating,
            deviation=one.deviation,
            games=one.games,
            win_rate=one.score / one.games if one.games else None,
        )
        for side, name in named
        if (one := on_sides.get(side)) is not None
    ]


def _read(session: Session, which: ColumnElement[bool], as_of: int | None) -> dict[int, OnSides]:
    rated: tuple[SQLColumnExpression[Any], ...] = Rating.rating, Rating.deviation, Rating.games, Rating.score
    query = select(Rating.player_id, Rating.side, *rated).join(Player, Player.id == Rating.player_id)
    found: dict[int, OnSides] = {}
    for player_id, side, *numbers in session.connection().execute(query.where(which, is_last(as_of))):
        found.setdefault(player_id, {})[side] = OnSide(*numbers)
    return found
