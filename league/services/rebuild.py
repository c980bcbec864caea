"""Ratings and payoffs computed again from the match log."""

from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Period, Player, Rating
from league.services import learners, match_log, payoffs, periods, rating
from league.services.rating import Entry, Rule

History = dict[int, dict[int, Entry]]


@dataclass(frozen=True)
class Rebuilt:
    """What came of an environment: `differing` ratings and payoffs were not bit for bit what the log says."""

    environment: str
    periods: int
    ratings: int
    differing: int


def rebuild(database: Database, environment: str | None = None) -> list[Rebuilt]:
    """Compute every period again, each by the rule it was closed under, and keep the outcome.

    Nothing differs unless somebody changed the tables from outside.

    Args:
        database: Whose ratings.
        environment: Which environment; None for all, each in a transaction of its own.
    """
    with database.read() as session:
        chosen = learners.environments(session) if environment is None else [environment]
    return [_rebuild(database, each) for each in chosen]


def _rebuild(database: Database, environment: str) -> Rebuilt:
    with database.write() as session:
        locks.hold(session, Lock.PERIOD, environment)
        history, counts = _recompute(session, environment)
        differing = _replace_ratings(session, environment, history) + _replace_payoffs(session, environment, counts)
    return Rebuilt(environment, len(history), sum(len(changed) for changed in history.values()), differing)


def _recompute(session: Session, environment: str) -> tuple[History, dict[payoffs.Pair, payoffs.Count]]:
    players = session.scalars(select(Player).where(Player.environment == environment))
    beginners = {player.id: periods.entry_of(player, None) for player in players}
    rated: dict[int, Entry] = {}
    history: History = {}
    counts: dict[payoffs.Pair, payoffs.Count] = {}
    start = 0
    for period in session.scalars(select(Period).where(Period.environment == environment).order_by(Period.number)):
        games = match_log.read(session, environment, start, period.last_match_id)
        entries = {player: rated.get(player, beginners[player]) for player in games.players()}
        entries |= {player: entry for player, entry in rated.items() if entry.kind == "learner"}
        history[period.id] = rating.advance(entries, games, Rule(**period.rule))
        rated |= history[period.id]
        counts |= payoffs.advance(counts, games)
        start = period.last_match_id
    return history, counts


def _replace_ratings(session: Session, environment: str, history: History) -> int:
    """Make the stored ratings those of the history; return how many were not."""
    of_periods = Rating.period_id.in_(select(Period.id).where(Period.environment == environment))
    stored = {
        (row.period_id, row.player_id, row.rating, row.deviation, row.volatility, row.games, row.score)
        for row in session.scalars(select(Rating).where(of_periods))
    }
    computed = {
        (period_id, player_id, entry.rating, entry.deviation, entry.volatility, entry.games, entry.score)
        for period_id, changed in history.items()
        for player_id, entry in changed.items()
    }
    differing = {key[:2] for key in stored ^ computed}
    if differing:
        session.expunge_all()
        session.execute(delete(Rating).where(of_periods))
        periods.write_ratings(session, history)
    return len(differing)


def _replace_payoffs(session: Session, environment: str, counts: dict[payoffs.Pair, payoffs.Count]) -> int:
    """Make the stored payoffs those given; return how many were not."""
    stored = payoffs.stored(session, environment)
    differing = sum(stored.get(pair) != counts.get(pair) for pair in stored.keys() | counts.keys())
    if differing:
        payoffs.rewrite(session, environment, counts)
    return differing
