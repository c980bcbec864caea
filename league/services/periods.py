"""Rating periods close: matches become ratings, in one transaction, the same way every time."""

from datetime import datetime

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from league import wire
from league.config import Settings
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Match, Period, Player, Rating
from league.errors import UnknownEnvironmentError
from league.services import events, learners, match_log, payoffs, promotion, rating, standings
from league.services.match_log import Games
from league.services.rating import Entry, Rule


def close(
    database: Database, settings: Settings, environment: str, *, actor: str, reason: str, now: datetime
) -> wire.RatingPeriod:
    """Rate everything that has been reported; a period without matches lets idle learners' deviations grow.

    Raises:
        UnknownEnvironmentError: No learner of this environment ever registered.
    """
    watermark = _watermark(database, environment)
    with database.write() as session:
        if environment not in learners.environments(session):
            known = ", ".join(learners.environments(session)) or "none yet"
            raise UnknownEnvironmentError(environment, f"the league plays {known}", "name one of those")
        locks.hold(session, Lock.PERIOD, environment)
        return _close(session, settings, environment, watermark, actor, reason, now)


def close_if_due(database: Database, settings: Settings, environment: str, now: datetime) -> wire.RatingPeriod | None:
    """Close the open period if the rule says so and no other process is at it."""
    with database.read() as session:
        if _due(session, settings, environment, now) is None:
            return None
    watermark = _watermark(database, environment)
    with database.write() as session:
        if not locks.attempt(session, Lock.PERIOD, environment):
            return None
        reason = _due(session, settings, environment, now)
        if reason is None:
            return None
        return _close(session, settings, environment, watermark, "rule", reason, now)


def listing(session: Session, environment: str | None, limit: int, before: int | None) -> list[wire.RatingPeriod]:
    """List periods, newest first, before the given one."""
    query = select(Period).order_by(Period.id.desc()).limit(limit)
    query = query if environment is None else query.where(Period.environment == environment)
    query = query if before is None else query.where(Period.id < before)
    return [_body(period) for period in session.scalars(query)]


def _watermark(database: Database, environment: str) -> int:
    """Return an id that no match still on its way in can fall under.

    Writers of matches share the intake lock until they commit. Holding it alone for a moment waits for those that
    have drawn an id already; whoever comes later draws a higher one.
    """
    with database.write() as session:
        locks.hold(session, Lock.INTAKE, environment)
        return match_log.end(session, environment)


def _due(session: Session, settings: Settings, environment: str, now: datetime) -> str | None:
    """Say why the open period is to close now; None while it is not."""
    last = _last(session, environment)
    still_open = Match.environment == environment, Match.id > (last.last_match_id if last else 0)
    count, oldest = session.execute(select(func.count(), func.min(Match.reported_at)).where(*still_open)).one()
    if count == 0:
        return None
    if (now - oldest).total_seconds() >= settings.period_age_s:
        return f"age: the oldest result is {settings.period_age_s:g} s old"
    if last and (now - last.closed_at).total_seconds() < settings.period_spacing_s:
        return None
    sides = [select(seat.label("player")).where(*still_open) for seat in (Match.home_id, Match.away_id)]
    active = session.scalar(select(func.count()).select_from(sides[0].union(sides[1]).subquery())) or 1
    if 2 * count >= settings.period_games * active:
        return f"games: {count} matches of {active} players"
    return None


def _close(
    session: Session, settings: Settings, environment: str, watermark: int, actor: str, reason: str, now: datetime
) -> wire.RatingPeriod:
    last = _last(session, environment)
    start, number = (last.last_match_id, last.number) if last else (0, 0)
    end, rule = max(watermark, start), Rule.of(settings)
    games = match_log.read(session, environment, start, end)
    changed = rating.advance(_entries(session, environment, games), games, rule)
    period = Period(
        environment=environment,
        number=number + 1,
        last_match_id=end,
        matches=len(games),
        players=len(games.players()),
        rule=rule.stored(),
        reason=reason,
        closed_at=now,
    )
    session.add(period)
    session.flush()
    write_ratings(session, {period.id: changed})
    payoffs.write(session, environment, payoffs.advance(payoffs.stored(session, environment), games))
    locks.hold(session, Lock.EVENTS)
    if settings.automatic_promotion:
        promotion.apply(session, settings, environment, now)
    body = _body(period)
    events.record(
        session,
        "period",
        environment=environment,
        player_id=None,
        actor=actor,
        reason=reason,
        details=body.model_dump(mode="json", include={"id", "number", "matches", "players"}),
        now=now,
    )
    return body


def _entries(session: Session, environment: str, games: Games) -> dict[int, Entry]:
    """Return everybody who takes part in a period: its players, and learners that played before."""
    idle = select(Player.id).join(Rating, Rating.player_id == Player.id)
    idle = idle.where(Player.environment == environment, Player.kind == "learner")
    taking_part = sorted({*games.players(), *session.scalars(idle.distinct())})
    query = standings.rated().where(Player.id.in_(taking_part))
    return {player.id: entry_of(player, last) for player, last in session.execute(query)}


def entry_of(player: Player, last: Rating | None) -> Entry:
    """Return a player as a rating period takes it, from its last rating or from its start."""
    if last is None:
        return Entry(player.kind, player.start_rating, player.start_deviation, player.start_volatility, 0, 0.0)
    return Entry(player.kind, last.rating, last.deviation, last.volatility, last.games, last.score)


def write_ratings(session: Session, ratings: dict[int, dict[int, Entry]]) -> None:
    """Append ratings, given per period and player."""
    rows = [
        {
            "period_id": period_id,
            "player_id": player_id,
            "rating": entry.rating,
            "deviation": entry.deviation,
            "volatility": entry.volatility,
            "games": entry.games,
            "score": entry.score,
        }
        for period_id, changed in ratings.items()
        for player_id, entry in sorted(changed.items())
    ]
    if rows:
        session.execute(insert(Rating), rows)


def _last(session: Session, environment: str) -> Period | None:
    return session.scalar(
        select(Period).where(Period.environment == environment).order_by(Period.number.desc()).limit(1)
    )


def _body(period: Period) -> wire.RatingPeriod:
    return wire.RatingPeriod(
        id=period.id,
        number=period.number,
        environment=period.environment,
        matches=period.matches,
        players=period.players,
        closed_at=period.closed_at,
        reason=period.reason,
    )
