"""Closing of rating periods, in two phases.

The first phase computes in a read transaction and blocks no writer. The second writes in a short transaction, and only
if the inputs of the first are unchanged. The computation may therefore be long and run in several processes, while each
match is rated exactly once. See docs/contributing/decisions/0004-rating-periods-are-ranges-of-match-ids.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, SQLColumnExpression, func, select
from sqlalchemy.orm import Session

from league import wire
from league.db import locks
from league.db.arrays import read_columns
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Match, Period, Player
from league.services.audit import log as audit_log
from league.services.audit.log import RULE, Cause
from league.services.environments import lookup as environments
from league.services.matches import counting, pair_records
from league.services.matches import log as match_log
from league.services.matches.log import MatchArrays
from league.services.population import cache as population_cache
from league.services.population.cache import Population, Version
from league.services.promotion import rules as promotion_rules
from league.services.rating_periods.queries import newest, to_wire
from league.services.ratings import input_version, sides, store
from league.services.ratings import state as rating_state
from league.services.ratings.input_version import InputVersion
from league.services.ratings.period import PlayerRating, RatingConfig, Roster
from league.services.ratings.state import RatingState, RatingUpdate
from league.services.unplayable_reports import false_reports
from league.settings import Settings

_START = Player.start_rating, Player.start_deviation, Player.start_volatility


@dataclass(frozen=True, eq=False)
class _PreparedPeriod:
    """A computed period that is not written yet.

    Attributes:
        inputs: Version of its inputs.
        version: Version of the ratings.
        number: Number of the period.
        after: Last match id of the previous period; 0 for the first.
        last_match_id: Its last match id.
        not_before: Time of its last match or of the previous closing, whichever is later; None without either.
        games: Its matches.
        rule: Rating configuration.
        closing: Changed ratings.
        payoffs: Rows of the pairs that played in it.
        side_payoffs: Rows of the pairs by side, in asymmetric games.
        population: All players with their new ratings, for the promotion rules; None if these are off.
        present: Version of the population that `population` is based on.
    """

    inputs: InputVersion
    version: int
    number: int
    after: int
    last_match_id: int
    not_before: datetime | None
    games: MatchArrays
    rule: RatingConfig
    closing: RatingUpdate
    payoffs: Sequence[Mapping[str, Any]]
    side_payoffs: Sequence[Mapping[str, Any]]
    population: Population | None
    present: Version


def close(database: Database, settings: Settings, environment: str, cause: Cause) -> wire.RatingPeriod:
    """Close a period over all matches so far; without matches, the deviations of idle learners still grow.

    Raises:
        UnknownEnvironmentError: No learner of this environment ever registered.
    """
    period = None
    while period is None:  # another process closed one first: close the next one
        with database.read() as session:
            environments.require(session, environment)
        watermark = _watermark(database, environment)
        with database.read() as session:
            prepared = _prepare(session, settings, environment, watermark)
        period = _write_if_first(database, settings, environment, prepared, cause)
    return period


def close_if_due(database: Database, settings: Settings, environment: str, now: datetime) -> wire.RatingPeriod | None:
    """Close the open period if it is due over exactly the matches that it covers.

    Returns None if it is not due, or if another process closed it first.
    """
    # Before the read transaction, whose snapshot then contains every match up to the watermark.
    watermark = _watermark(database, environment)
    with database.read() as session:
        reason = _due(session, settings, environment, now, watermark)
        if reason is None:
            return None
        prepared = _prepare(session, settings, environment, watermark)
    return _write_if_first(database, settings, environment, prepared, Cause(RULE, reason, now))


def due(database: Database, settings: Settings, environment: str, now: datetime) -> str | None:
    """Return the reason why the open period is due, or None."""
    with database.read() as session:
        return _due(session, settings, environment, now)


def roster(session: Session, environment: str) -> Roster:
    """Return all players with their initial ratings."""
    query = select(Player.id, Player.parent_id, Player.learner_id, Player.kind, *_START)
    query = query.where(Player.environment == environment)
    rows = session.connection().execute(query).all()
    trained = {row.learner_id: row.id for row in rows if row.kind == "learner"}
    return Roster(
        newcomers={row.id: PlayerRating(row.kind, *row[4:], 0, 0.0) for row in rows},
        parents={row.id: row.parent_id for row in rows},
        learners={
            row.id: trained[row.learner_id] for row in rows if row.kind == "snapshot" and row.learner_id in trained
        },
    )


def rule_of(session: Session, settings: Settings, environment: str) -> RatingConfig:
    """Return the rating configuration of an environment's next period."""
    return RatingConfig.of(settings, unlike_sides=environments.sides(session, environment) is not None)


def _watermark(database: Database, environment: str) -> int:
    """Return a match id up to which all matches are committed.

    Writers of matches share the INTAKE lock until they commit. Acquiring it exclusively for a moment waits for all
    writers that have an id already; later ones get higher ids.
    """
    with database.write() as session:
        locks.acquire(session, Lock.INTAKE, environment)
        return match_log.end(session, environment)


def _due(session: Session, settings: Settings, environment: str, now: datetime, end: int | None = None) -> str | None:
    """Return the reason why a period of the open matches up to `end`, None for all, is due, or None."""
    last = newest(session, environment)
    start = last.last_match_id if last else 0
    still_open = [Match.environment == environment, Match.id > start, *counting.rated(session)]
    if end is not None:
        still_open.append(Match.id <= end)
    oldest = session.scalar(select(Match.reported_at).where(*still_open).order_by(Match.id).limit(1))
    if oldest is None:
        return None
    age_s = (now - oldest).total_seconds()
    if age_s >= settings.period_age_s:
        return f"closed: the oldest result is {settings.period_age_s:g} s old"
    # Otherwise the period would stay open until the clock catches up with the oldest result.
    if age_s <= -settings.period_age_s:
        return f"closed: the clock was set back by {settings.period_age_s:g} s or more after the oldest result"
    if last and 0.0 <= (now - last.closed_at).total_seconds() < settings.period_spacing_s:
        return None
    return _enough_games(session, settings.period_games, environment, still_open)


def _enough_games(
    session: Session, games: int, environment: str, still_open: Sequence[ColumnElement[bool]]
) -> str | None:
    """Return the reason if the open matches reach the threshold of games per active player, or None.

    It reads at most the number of matches that is enough for all players of the environment.
    """
    player_count = (
        session.scalar(select(func.count()).select_from(Player).where(Player.environment == environment)) or 0
    )
    # Every match counts for two players; the expression rounds up.
    enough = -(-games * player_count // 2)
    columns: tuple[SQLColumnExpression[Any], ...] = Match.home_id, Match.away_id
    seats = select(*columns).where(*still_open).order_by(Match.id).limit(enough + 1)
    home, away = read_columns(session, seats, len(columns))
    if home.size > enough:
        return f"closed: game threshold ({enough} matches) reached"
    active = np.union1d(home, away).size
    return (
        f"closed: game threshold reached by {active} players ({home.size} matches)"
        if 2 * home.size >= games * active
        else None
    )


def _write_if_first(
    database: Database,
    settings: Settings,
    environment: str,
    prepared: _PreparedPeriod,
    cause: Cause,
) -> wire.RatingPeriod | None:
    """Write a period unless its inputs have changed; None if they have."""
    with database.write() as session:
        if not input_version.unchanged(session, environment, prepared.inputs):
            return None
        return _write(session, settings, environment, prepared, cause)


def _prepare(session: Session, settings: Settings, environment: str, watermark: int) -> _PreparedPeriod:
    before, rule = input_version.read(session, environment), rule_of(session, settings, environment)
    last = newest(session, environment)
    version, start, number = (last.version, last.last_match_id, last.number) if last else (1, 0, 0)
    # Another process may have closed a period past the watermark since it was read.
    end = max(watermark, start)
    games = match_log.read(session, environment, start, end)
    state = _load_state(session, environment, version)
    closing = rating_state.apply_period(state, roster(session, environment), games, rule)
    changed = closing.records.among(games).rows(environment)
    population = (
        population_cache.load(session, environment).rated(closing.entries) if settings.automatic_promotion else None
    )
    present = population_cache.version(session)
    by_side = (
        store.side_rows(closing.sides.records.among(sides.seated(games)), environment) if rule.unlike_sides else ()
    )
    not_before = _not_before(session, environment, last, end)
    return _PreparedPeriod(
        before, version, number + 1, start, end, not_before, games, rule, closing, changed, by_side, population, present
    )


def _write(
    session: Session, settings: Settings, environment: str, prepared: _PreparedPeriod, cause: Cause
) -> wire.RatingPeriod:
    now = cause.now
    unchanged = population_cache.version(session) == prepared.present
    period = Period(
        environment=environment,
        version=prepared.version,
        number=prepared.number,
        last_match_id=prepared.last_match_id,
        matches=len(prepared.games),
        players=len(prepared.games.players),
        rule=prepared.rule.stored(),
        refitted=prepared.closing.refitted,
        reason=cause.reason,
        closed_at=now if prepared.not_before is None else max(now, prepared.not_before),
    )
    session.add(period)
    session.flush()
    store.write(session, period.id, prepared.closing.entries, prepared.closing.sides.entries)
    pair_records.write(session, prepared.payoffs)
    store.write_side_records(session, prepared.side_payoffs)
    false_reports.refute(session, environment, prepared.after, prepared.last_match_id, now)
    if prepared.population is not None:
        # A player may have been added since the first phase, and the promotion rules must not overlook it.
        population = prepared.population if unchanged else population_cache.load(session, environment)
        promotion_rules.apply(session, settings, population, now)
    body = to_wire(period)
    audit_log.record(
        session,
        "period",
        cause,
        environment=environment,
        details=body.model_dump(mode="json", include={"id", "number", "matches", "players"}),
    )
    return body


def _not_before(session: Session, environment: str, last: Period | None, end: int) -> datetime | None:
    """Return the latest time of the period's matches and of the last closing, in case the clock was set back since."""
    covered = Match.id > (last.last_match_id if last else 0), Match.id <= end
    reported_at = session.scalar(select(func.max(Match.reported_at)).where(Match.environment == environment, *covered))
    closed_at = last.closed_at if last else None
    return max((each for each in (reported_at, closed_at) if each is not None), default=None)


def _load_state(session: Session, environment: str, version: int) -> RatingState:
    """Return the rating state after the closed periods."""
    last_fit = session.scalar(
        select(func.max(Period.id)).where(Period.environment == environment, Period.version == version, Period.refitted)
    )
    fitted: dict[int, int] = {}
    if last_fit is not None:
        fitted = rating_state.games_of_frozen(store.read(session, environment, last_fit))
    entries, records = store.read(session, environment), pair_records.read(session, environment)
    return RatingState(entries, records, fitted, store.read_sides(session, environment))
