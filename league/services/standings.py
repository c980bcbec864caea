"""Ratings as people see them: one player's, the league table, now or as of a past period, and curves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, SQLColumnExpression, and_, case, func, select
from sqlalchemy.orm import Session

from arena.glicko2 import Ratings
from league import wire
from league.config import Settings
from league.db.models import Event, Period, Player, Rating
from league.errors import InvalidRequestError, UnknownPeriodError, UnknownPlayerError
from league.services import side_standings
from league.services.environments import lookup as environments
from league.services.rating import Rule

OUT_OF_PLAY = ("retired", "quarantined")
_CHANGES = ("promote", "retire", "reinstate", "quarantine")


def rated(as_of: int | None = None) -> "Select[Player, Rating]":
    """Select players, each with its rating after the last period, or after period `as_of`; null before its first."""
    history = select(Rating.period_id).where(Rating.player_id == Player.id)
    if as_of is not None:
        history = history.where(Rating.period_id <= as_of)
    last = history.order_by(Rating.period_id.desc()).limit(1).correlate(Player).scalar_subquery()
    joined = and_(Rating.player_id == Player.id, Rating.period_id == last)
    return select(Player, Rating).outerjoin(Rating, joined)


def require(session: Session, player_id: int) -> tuple[Player, Rating | None]:
    """Return a player with its current rating.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    player, rating = _row(session, player_id)
    return player, rating


def show(session: Session, settings: Settings, player_id: int) -> wire.Player:
    """Show one player.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    return shown(session, settings, [_row(session, player_id)])[0]


def shown(session: Session, settings: Settings, players: "Sequence[Row[Player, Rating]]") -> list[wire.Player]:
    """Show players, each with its rating after the last period."""
    sides = side_standings.of_players(session, [player for player, _ in players])
    return [
        wire.Player.model_validate(fields(player, rating, settings) | {"sides": sides.get(player.id, [])})
        for player, rating in players
    ]


def table(
    session: Session,
    settings: Settings,
    environment: str,
    standing: str | None,
    limit: int,
    offset: int,
    as_of: int | None,
) -> list[wire.StandingsItem]:
    """Rank the players of an environment by conservative rating.

    As of a past period, ratings, games, standings and call-signs are those of its end.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
        UnknownPeriodError: `as_of` is no period.
        InvalidRequestError: `as_of` is another environment's period.
    """
    environments.require_known(session, environment)
    query = rated(as_of).where(Player.environment == environment)
    columns: tuple[SQLColumnExpression[str | None], ...] = (Player.standing, Player.call_sign)
    if as_of is not None:
        closed_at = _period(session, as_of, environment).closed_at
        query = query.where(Player.created_at <= closed_at).outerjoin(Event, Event.id == last_change(closed_at))
        columns = standing_told(), call_sign_told()
    if standing is not None:
        query = query.where(columns[0] == standing)
    ranked = query.order_by(conservative().desc(), Player.id).limit(limit).offset(offset)
    rows = session.execute(ranked.add_columns(*columns)).all()
    sides = side_standings.of_players(session, [row[0] for row in rows], as_of)
    return [
        wire.StandingsItem.model_validate(
            fields(player, rating, settings)
            | {
                "rank": offset + place,
                "win_rate": _win_rate(rating),
                "sides": sides.get(player.id, []),
                "standing": then,
                "call_sign": call_sign,
            }
        )
        for place, (player, rating, then, call_sign) in enumerate(rows, start=1)
    ]


def curve(session: Session, player_id: int, limit: int, after: int) -> list[wire.RatingPoint]:
    """Follow a player's rating over the periods that changed it, oldest first, after the given period.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    require(session, player_id)
    query = select(Rating, Period).join(Period, Period.id == Rating.period_id).where(Period.current_version())
    query = query.where(Rating.player_id == player_id, Rating.period_id > after).order_by(Rating.period_id)
    return [
        wire.RatingPoint(
            period_id=period.id,
            number=period.number,
            config_id=Rule.restored(period.rule).id,
            closed_at=period.closed_at,
            rating=rating.rating,
            deviation=rating.deviation,
            volatility=rating.volatility,
            games=rating.games,
        )
        for rating, period in session.execute(query.limit(limit))
    ]


def fields(player: Player, rating: Rating | None, settings: Settings) -> dict[str, Any]:
    """Return the wire fields of a player."""
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
        "provisional": deviation >= settings.provisional_deviation,
        "learner_id": player.learner_id,
        "parent_id": player.parent_id,
        "step": player.step,
        "metadata": player.card,
        "created_at": player.created_at,
    }


def conservative() -> ColumnElement[float]:
    """Return the order of the league table: rating - 2 RD, over `rated`."""
    value = func.coalesce(Rating.rating, Player.start_rating)
    return value - 2 * func.coalesce(Rating.deviation, Player.start_deviation)


def in_play() -> ColumnElement[bool]:
    """Select everybody but who is retired or quarantined."""
    return func.coalesce(Player.standing, "candidate").not_in(OUT_OF_PLAY)


def last_change(until: datetime | None = None) -> ScalarSelect[int]:
    """Select a player's last change of standing, up to a time, from the audit log."""
    changes = select(Event.id).where(Event.player_id == Player.id, Event.kind.in_(_CHANGES))
    changes = changes if until is None else changes.where(Event.created_at <= until)
    return changes.order_by(Event.id.desc()).limit(1).correlate(Player).scalar_subquery()


def call_sign_told() -> ColumnElement[str | None]:
    """Return the call-sign that a player had after the joined change; before its first it has none."""
    told: ColumnElement[str | None] = Event.details["call_sign"].as_string()
    return told


def standing_told() -> ColumnElement[str | None]:
    """Return the standing that the joined change led to; snapshots and external players begin as candidates."""
    return case(
        (Event.id.is_not(None), Event.details["to"].as_string()),
        (Player.kind.in_(("snapshot", "external")), "candidate"),
    )


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


def _win_rate(rating: Rating | None) -> float | None:
    return None if rating is None or rating.games == 0 else rating.score / rating.games


def _period(session: Session, period_id: int, environment: str) -> Period:
    period = session.get(Period, period_id)
    if period is None:
        raise UnknownPeriodError(period_id, "no rating period has this id", "list them with GET /rating-periods")
    if period.environment != environment:
        rule = f"it is a period of {period.environment}, not of {environment}"
        raise InvalidRequestError(f"as_of={period_id}", rule, "name a period of the same environment")
    return period
