"""The standings of an environment, now or as of a past period, and a player's rating curve."""

from sqlalchemy import SQLColumnExpression, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Event, Period, Player, Rating
from league.errors import InvalidRequestError, UnknownPeriodError
from league.services.environments import lookup as environments
from league.services.ratings import rated_players, side_ratings
from league.services.ratings.period import RatingConfig
from league.settings import Settings


def get_standings(
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
    query = rated_players.rated(as_of).where(Player.environment == environment)
    columns: tuple[SQLColumnExpression[str | None], ...] = (Player.standing, Player.call_sign)
    if as_of is not None:
        closed_at = _period(session, as_of, environment).closed_at
        query = query.where(Player.created_at <= closed_at).outerjoin(
            Event, Event.id == rated_players.last_change(closed_at)
        )
        columns = rated_players.logged_standing(), rated_players.logged_call_sign()
    if standing is not None:
        query = query.where(columns[0] == standing)
    ranked = query.order_by(rated_players.conservative().desc(), Player.id).limit(limit).offset(offset)
    rows = session.execute(ranked.add_columns(*columns)).all()
    sides = side_ratings.of_players(session, [row[0] for row in rows], as_of)
    return [
        wire.StandingsItem.model_validate(
            rated_players.fields(player, rating, settings)
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


def get_rating_curve(session: Session, player_id: int, limit: int, after: int) -> list[wire.RatingPoint]:
    """Follow a player's rating over the periods that changed it, oldest first, after the given period.

    Raises:
        UnknownPlayerError: There is no such player.
    """
    rated_players.require(session, player_id)
    query = select(Rating, Period).join(Period, Period.id == Rating.period_id).where(Period.current_version())
    query = query.where(Rating.player_id == player_id, Rating.period_id > after).order_by(Rating.period_id)
    return [
        wire.RatingPoint(
            period_id=period.id,
            number=period.number,
            config_id=RatingConfig.restored(period.rule).id,
            closed_at=period.closed_at,
            rating=rating.rating,
            deviation=rating.deviation,
            volatility=rating.volatility,
            games=rating.games,
        )
        for rating, period in session.execute(query.limit(limit))
    ]


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
