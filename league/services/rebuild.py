"""Ratings and payoffs computed again from the match log, each period by the rule it was closed under."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.db.models import Period, Rating
from league.services import events, learners, ledger, match_log, payoffs, periods
from league.services.ground import Ground, settle
from league.services.ground import read as read_ground
from league.services.ledger import EMPTY, Closing, Ledger
from league.services.match_log import Games
from league.services.payoffs import Records
from league.services.rating import Entry, Rule

Cut = tuple[int, Rule]
"""Up to which match a period goes, and how it is rated."""


@dataclass(frozen=True)
class Rebuilt:
    """What came of an environment: `differing` ratings, periods and payoffs were not bit for bit what the log says."""

    environment: str
    periods: int
    ratings: int
    differing: int


@dataclass(frozen=True, eq=False)
class Step:
    """A period computed again: the state before it, its matches, what it changed and the state after it."""

    before: Ledger
    games: Games
    closing: Closing
    after: Ledger


@dataclass(frozen=True, eq=False)
class _Correction:
    """A period as the log says it is."""

    period_id: int
    matches: int
    players: int
    refitted: bool
    entries: Mapping[int, Entry]


@dataclass(frozen=True, eq=False)
class _Audit:
    """What an environment's stored ratings and payoffs should have been; `records` is None where they are right."""

    ground: Ground
    outcome: Rebuilt
    corrections: Sequence[_Correction]
    records: Records | None


def rebuild(database: Database, now: datetime, environment: str | None = None) -> list[Rebuilt]:
    """Compute every period again and keep the outcome.

    Nothing differs unless somebody changed the tables from outside, or said that some results do not count.

    Args:
        database: Whose ratings.
        now: The time that the audit log has of a change.
        environment: Which environment; None for all, each in a transaction of its own.
    """
    with database.read() as session:
        chosen = learners.environments(session) if environment is None else [environment]
    return [_rebuild(database, each, now) for each in chosen]


def inspect(session: Session, environment: str) -> Rebuilt:
    """Compute every period of an environment again, say what differs and leave it."""
    return _audit(session, environment).outcome


def replay(session: Session, environment: str, cuts: Iterable[Cut]) -> Iterator[Step]:
    """Compute periods from the first match on."""
    roster = periods.roster(session, environment)
    before, start = EMPTY, 0
    for last_match_id, rule in cuts:
        games = match_log.read(session, environment, start, last_match_id)
        closing = ledger.close(before, roster, games, rule)
        after = before.after(closing)
        yield Step(before, games, closing, after)
        before, start = after, last_match_id


def _rebuild(database: Database, environment: str, now: datetime) -> Rebuilt:
    return settle(
        database,
        environment,
        lambda session: _audit(session, environment),
        lambda session, audit: _correct(session, environment, audit, now),
    )


def _audit(session: Session, environment: str) -> _Audit:
    """Compare what is stored with what the log says, version by version."""
    ground = read_ground(session, environment)
    corrections: list[_Correction] = []
    state, count, ratings, differing = EMPTY, 0, 0, 0
    for stored in _versions(session, environment):
        cuts = [(period.last_match_id, Rule.restored(period.rule)) for period in stored]
        for period, step in zip(stored, replay(session, environment, cuts), strict=True):
            correction = _Correction(
                period.id, len(step.games), len(step.games.players()), step.closing.refitted, step.closing.entries
            )
            wrong = _differences(session, period, correction)
            if wrong:
                corrections.append(correction)
            state, count = step.after, count + 1
            ratings, differing = ratings + len(step.closing.entries), differing + wrong
    kept, right = payoffs.read(session, environment).counts(), state.records.counts()
    wrong = sum(kept.get(pair) != right.get(pair) for pair in kept.keys() | right.keys())
    outcome = Rebuilt(environment, count, ratings, differing + wrong)
    return _Audit(ground, outcome, corrections, state.records if wrong else None)


def _versions(session: Session, environment: str) -> list[list[Period]]:
    """Return the periods of each version, oldest first."""
    query = select(Period).where(Period.environment == environment).order_by(Period.version, Period.number)
    versions: dict[int, list[Period]] = {}
    for period in session.scalars(query):
        versions.setdefault(period.version, []).append(period)
    return list(versions.values())


def _differences(session: Session, period: Period, right: _Correction) -> int:
    """Count what is stored of a period and not right."""
    columns = Rating.rating, Rating.deviation, Rating.volatility, Rating.games, Rating.score
    rows = session.execute(select(Rating.player_id, *columns).where(Rating.period_id == period.id))
    stored = {player: tuple(numbers) for player, *numbers in rows}
    computed = {player: _numbers(entry) for player, entry in right.entries.items()}
    ratings = sum(stored.get(player) != computed.get(player) for player in stored.keys() | computed.keys())
    summary = period.matches, period.players, period.refitted
    return ratings + (summary != (right.matches, right.players, right.refitted))


def _numbers(entry: Entry) -> tuple[float, float, float, int, float]:
    return entry.rating, entry.deviation, entry.volatility, entry.games, entry.score


def _correct(session: Session, environment: str, audit: _Audit, now: datetime) -> Rebuilt:
    """Make what is stored what the log says."""
    if not audit.outcome.differing:
        return audit.outcome
    for right in audit.corrections:
        summary = {"matches": right.matches, "players": right.players, "refitted": right.refitted}
        session.execute(update(Period).where(Period.id == right.period_id).values(summary))
        session.execute(delete(Rating).where(Rating.period_id == right.period_id))
        periods.write_ratings(session, right.period_id, right.entries)
    if audit.records is not None:
        payoffs.rewrite(session, environment, audit.records)
    events.record(
        session,
        "rebuild",
        environment=environment,
        player_id=None,
        actor="league rebuild",
        reason="computed again from the match log",
        details={"periods": len(audit.corrections), "differing": audit.outcome.differing},
        now=now,
    )
    return audit.outcome
