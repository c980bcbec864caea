"""Players with their current rating: queries, lookup by id, and response bodies."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, case, func, select
from sqlalchemy.orm import Session

from arena.ratings.glicko2 import Ratings
from league import wire
from league.db.bulk_insert import among
from league.db.models import Event, Player, PlayerTag, Rating
from league.errors import UnknownPlayerError
from league.provisional import is_provisional
from league.services.ratings import side_ratings
from league.services.ratings.period import PlayerRating
from league.settings import Settings

OUT_OF_PLAY = ("retired", "quarantined")
_CHANGES = ("promote", "retire", "reinstate", "quarantine")


def rated(as_of: int | None = None) -> "Select[Player, Rating]":
    """Select players with their rating after the last period or period `as_of`; NULL before their first."""
    history = select(Rating.id).where(Rating.player_id == Player.id, Rating.side.is_(None))
    if as_of is not None:
        history = history.where(Rating.period_id <= as_of)
    # A correlated subquery with LIMIT 1 reads one index entry per player; a GROUP BY would read every rating.
    last = history.order_by(Rating.period_id.desc()).limit(1).correlate(Player).scalar_subquery()
    return select(Player, Rating).outerjoin(Rating, Rating.id == last)


def list_frozen(session: Session, environment: str) -> "Sequence[Row[Player, Rating]]":
    """Return the frozen players of an environment with their rating; None before their first."""
    return session.execute(rated().where(Player.environment == environment, Player.kind != "learner")).all()


def entry_of(player: Player, last: Rating | None) -> PlayerRating:
    """Return a player's rating at the start of a period: the last one, or its initial one."""
    if last is None:
        return PlayerRating(player.kind, player.start_rating, player.start_deviation, player.start_volatility, 0, 0.0)
    return PlayerRating(
        player.kind, last.rating, last.deviation, last.volatility, last.games, last.score, last.standard_error
    )


def require(session: Session, player_id: int) -> tuple[Player, Rating | None]:
    """Return a player with its current rating.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    player, rating = _row(session, player_id)
    return player, rating


def show(session: Session, settings: Settings, player_id: int) -> wire.Player:
    """Return one player as a response body.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    return shown(session, settings, [_row(session, player_id)])[0]


def shown(session: Session, settings: Settings, players: "Sequence[Row[Player, Rating]]") -> list[wire.Player]:
    """Return players as response bodies, with their ratings after the last period."""
    sides = side_ratings.of_players(session, [player for player, _ in players])
    tags = get_tags(session, among(session, PlayerTag.player_id, [player.id for player, _ in players]))
    return [
        wire.Player.model_validate(
            fields(player, rating, settings) | {"sides": sides.get(player.id, []), "tags": tags.get(player.id, [])}
        )
        for player, rating in players
    ]


def get_tags(session: Session, condition: ColumnElement[bool]) -> dict[int, list[str]]:
    """Return the tags of the players that meet a condition on `player_tags`, in alphabetical order, by player id."""
    found: dict[int, list[str]] = {}
    query = select(PlayerTag.player_id, PlayerTag.tag).where(condition).order_by(PlayerTag.tag)
    for player_id, tag in session.execute(query):
        found.setdefault(player_id, []).append(tag)
    return found


def fields(player: Player, rating: Rating | None, settings: Settings) -> dict[str, Any]:
    """Return the fields of a player's response body."""
    value = player.start_rating if rating is None else rating.rating
    deviation = player.start_deviation if rating is None else rating.deviation
    return {
        "id": player.id,
        "kind": player.kind,
        "name": player.name,
        "call_sign": player.call_sign,
        "environment": player.environment,
        "signature": player.signature,
        "role": player.role,
        "standing": player.standing,
        "checkpoint": player.checkpoint,
        "rating": value,
        "deviation": deviation,
        "volatility": player.start_volatility if rating is None else rating.volatility,
        "conservative": value - 2 * deviation,
        "games": 0 if rating is None else rating.games,
        "provisional": is_provisional(player.kind, standard_error(player, rating), settings),
        "learner_id": player.learner_id,
        "parent_id": player.parent_id,
        "step": player.step,
        "run_id": player.run_id,
        "metadata": player.card,
        "note": player.note,
        "created_at": player.created_at,
    }


def conservative() -> ColumnElement[float]:
    """Return the sort key of the standings: rating - 2 RD, over `rated`."""
    value = func.coalesce(Rating.rating, Player.start_rating)
    return value - 2 * func.coalesce(Rating.deviation, Player.start_deviation)


def in_play() -> ColumnElement[bool]:
    """Return the condition for active players: neither retired nor quarantined."""
    # Baselines have no standing, and NULL is neither in a list nor outside of it.
    return func.coalesce(Player.standing, "candidate").not_in(OUT_OF_PLAY)


def last_change(until: datetime | None = None) -> ScalarSelect[int]:
    """Select a player's last change of standing, up to a time, from the audit log."""
    changes = select(Event.id).where(Event.player_id == Player.id, Event.kind.in_(_CHANGES))
    changes = changes if until is None else changes.where(Event.created_at <= until)
    return changes.order_by(Event.id.desc()).limit(1).correlate(Player).scalar_subquery()


def logged_call_sign() -> ColumnElement[str | None]:
    """Return the call-sign after the joined change, NULL before the first one."""
    call_sign: ColumnElement[str | None] = Event.details["call_sign"].as_string()
    return call_sign


def logged_standing() -> ColumnElement[str | None]:
    """Return the standing after the joined change; snapshots and external players start as candidates."""
    return case(
        (Event.id.is_not(None), Event.details["to"].as_string()),
        (Player.kind.in_(("snapshot", "external")), "candidate"),
    )


def standard_error(player: Player, rating: Rating | None) -> float:
    """Return the standard error of a rating in points, or its deviation before the first fit."""
    return player.start_deviation if rating is None else rating.uncertainty


def standard_error_column() -> ColumnElement[float]:
    """Return `standard_error` as a column, over `rated`."""
    return func.coalesce(Rating.standard_error, Rating.deviation, Player.start_deviation)


def ratings(players: "Sequence[Row[Player, Rating]]") -> Ratings:
    """Return the ratings of selected players as arrays."""
    values = [
        (player.start_rating, player.start_deviation, player.start_volatility)
        if rating is None
        else (rating.rating, rating.deviation, rating.volatility)
        for player, rating in players
    ]
    return Ratings(*np.array(values, dtype=np.float64).reshape(-1, 3).T)


def _row(session: Session, player_id: int) -> "Row[Player, Rating]":
    row = session.execute(rated().where(Player.id == player_id)).one_or_none()
    if row is None:
        raise UnknownPlayerError(player_id, "no player has this id", "list them with GET /players")
    return row
