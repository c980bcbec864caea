"""Integrity checks: invariants of the tables and the checkpoint store, checked read-only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from sqlalchemy import ForeignKey, and_, func, select
from sqlalchemy.orm import Session, aliased

from league.db.engine import Database
from league.db.models import Base, Behaviour, Event, Learner, Lease, Match, Period, Player
from league.errors import InvariantError
from league.services.checkpoints import garbage_collection
from league.services.environments import lookup as environments
from league.services.gates import sprt as gate_sprt
from league.services.lifecycle import champions
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.behaviours import Packed
from league.services.population import snapshot_schedule
from league.services.rating_periods import rebuild
from league.services.ratings import rated_players
from league.services.replays import service as replays
from league.services.results import service as results
from league.storage.base import CheckpointStore

_EXAMPLES = 5
_ROWS_AT_ONCE = 10_000
_TOLERANCE = timedelta(minutes=10)
"""Maximum clock difference between servers of a league, including the time to close a period."""


@dataclass(frozen=True)
class Violation:
    """A violated invariant; `environment` is None if it concerns the whole league."""

    invariant: str
    environment: str | None
    finding: str


def check(
    database: Database, store: CheckpointStore, environment: str | None = None, *, unpublished_before: datetime
) -> list[Violation]:
    """Check all invariants; a check that depends on a violated one is skipped.

    Args:
        database: Tables of the league.
        store: Checkpoints and recordings of the league.
        environment: Name of an environment; None for all.
        unpublished_before: Checkpoints without a player and recordings without a row are violations only if they are
            older than this time, because newer ones may be about to be published.
    """
    with database.read() as session:
        found = list(_references(session))
        if found:
            return found  # the other checks join along these references
        for each in environments.names(session) if environment is None else [environment]:
            found += [*_players(session, each), *_champion(session, each), *_gates(session, each)]
            in_log = list(_matches(session, each))
            # Payoffs and ratings are computed from the match log, so they cannot be judged by a wrong one.
            found += in_log or [*_payoffs(session, each), *_ratings(session, each)]
    return [*found, *_replays(database, store), *_checkpoints(database, store, unpublished_before)]


def _references(session: Session) -> Iterator[Violation]:
    """Every reference points at a row: no lease without a player, no match without a lease."""
    for table in Base.metadata.sorted_tables:
        for key in sorted(table.foreign_keys, key=lambda key: key.parent.name):
            missing = _dangling(session, key)
            if missing:
                finding = (
                    f"rows of {table.name} whose {key.parent.name} is missing in {key.column.table.name}: {missing}"
                )
                yield Violation("references", None, finding)


def _dangling(session: Session, key: ForeignKey) -> int:
    target = key.column.table.alias()
    exists = select(target.c[key.column.name]).where(target.c[key.column.name] == key.parent).exists()
    query = select(func.count()).select_from(key.parent.table).where(key.parent.is_not(None), ~exists)
    return session.scalar(query) or 0


def _matches(session: Session, environment: str) -> Iterator[Violation]:
    """A match agrees with its lease and the environment of its players, and is rated only after it was reported."""
    home, away = aliased(Player), aliased(Player)
    query = select(Match.id).join(Lease, Lease.id == Match.lease_id)
    query = query.join(home, home.id == Match.home_id).join(away, away.id == Match.away_id)
    as_leased = and_(
        Lease.environment == Match.environment,
        Lease.kind == Match.kind,
        Lease.worker_id == Match.worker_id,
        Lease.home_id == Match.home_id,
        Lease.away_id == Match.away_id,
        Match.sequence < Lease.budget,
        Match.late == (Match.reported_at > Lease.expires_at),
        Match.environment == environment,
        away.environment == environment,
    )
    mismatched = session.scalars(query.where(home.environment == environment, ~as_leased).order_by(Match.id)).all()
    if mismatched:
        yield Violation("matches", environment, f"outside of their lease: {_some(mismatched)}")
    rewritten = list(_modified_matches(session, environment))
    if rewritten:
        finding = f"modified since they were reported (wrong hash): {_some(rewritten)}; restore a backup"
        yield Violation("matches", environment, finding)
    mistimed = sorted({*_before_their_lease(session, environment), *_after_their_period(session, environment)})
    if mistimed:
        finding = f"reported before their lease was granted or after their period was closed: {_some(mistimed)}"
        yield Violation("matches", environment, finding)
    closed = match_log.rated_through(session, environment)
    if closed > match_log.end(session, environment):
        yield Violation(
            "matches", environment, f"the last rating period includes match {closed}, which is missing in the log"
        )


def _modified_matches(session: Session, environment: str) -> Iterator[int]:
    """Find matches that were modified after they were reported; a rebuild would rate the modified values."""
    columns = Match.id, Match.payload_hash, Match.score, Match.decisions, Match.reason, Match.seed, Match.learner_step
    played = Behaviour.measure_set_id, Behaviour.home, Behaviour.away
    query = select(*columns, *played).outerjoin(Behaviour).where(Match.environment == environment).order_by(Match.id)
    # Streamed, because the whole log need not fit in memory.
    for row in session.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)):
        behaviour = None if row.home is None else Packed(row.measure_set_id, row.home, row.away)
        reported = row.score, row.decisions, row.reason, row.seed, row.learner_step
        if row.payload_hash != results.payload_hash(*reported, behaviour):
            yield row.id


def _before_their_lease(session: Session, environment: str) -> Iterator[int]:
    """Find matches that were reported before their lease was granted."""
    columns = Match.id, Match.reported_at, Lease.granted_at
    early = select(*columns).join(Lease, Lease.id == Match.lease_id).where(Match.reported_at < Lease.granted_at)
    for match_id, reported_at, granted_at in session.execute(early.where(Match.environment == environment)):
        # Subtracted here: SQLite stores times as text and has no difference of two of them.
        if granted_at - reported_at > _TOLERANCE:
            yield match_id


def _after_their_period(session: Session, environment: str) -> Iterator[int]:
    """Find matches that were reported after their rating period was closed."""
    query = select(Period.last_match_id, func.min(Period.closed_at)).where(Period.environment == environment)
    start = 0
    for last, closed_at in session.execute(query.group_by(Period.last_match_id).order_by(Period.last_match_id)).all():
        of_period = Match.environment == environment, Match.id > start, Match.id <= last
        yield from session.scalars(select(Match.id).where(*of_period, Match.reported_at > closed_at + _TOLERANCE))
        start = last


def _payoffs(session: Session, environment: str) -> Iterator[Violation]:
    """Each pair record counts the matches of the log up to the last period."""
    closed = match_log.rated_through(session, environment)
    games = match_log.read(session, environment, 0, closed)
    different = games.home != games.away
    pairs = np.stack((np.minimum(games.home, games.away), np.maximum(games.home, games.away)))[:, different]
    pairs_played, played = np.unique(pairs, axis=1, return_counts=True)
    in_log = dict(zip(zip(*pairs_played.tolist(), strict=True), played.tolist(), strict=True))
    stored = {pair: count.matches for pair, count in pair_records.read(session, environment).counts().items()}
    wrong = sorted(pair for pair in in_log.keys() | stored.keys() if in_log.get(pair, 0) != stored.get(pair, 0))
    if wrong:
        finding = f"pairs whose counts differ from the match log: {_some(wrong)}"
        yield Violation("payoffs", environment, finding)


def _ratings(session: Session, environment: str) -> Iterator[Violation]:
    """Every rating and payoff equals a rebuild from the match log, bit for bit."""
    try:
        outcome = rebuild.inspect(session, environment)
    except InvariantError as error:
        yield Violation("periods", environment, str(error))
        return
    if outcome.differing:
        finding = (
            f"different from the match log: {outcome.differing}, first {outcome.first}; `league rebuild` corrects them"
        )
        yield Violation("ratings", environment, finding)


def _players(session: Session, environment: str) -> Iterator[Violation]:
    """Learners have one player each; standings, call-signs and decisions agree with the audit log."""
    own = select(func.count()).where(Player.learner_id == Learner.id, Player.kind == "learner")
    alone = own.correlate(Learner).scalar_subquery() != 1
    missing = session.scalars(select(Learner.id).where(Learner.environment == environment, alone)).all()
    if missing:
        yield Violation("learners", environment, f"without a player of their own: {_some(missing)}")
    with_standing = Player.environment == environment, Player.kind.in_(("snapshot", "external"))
    query = select(Player.id).outerjoin(Event, Event.id == rated_players.last_change()).where(*with_standing)
    columns = {
        "standing": (Player.standing, rated_players.logged_standing()),
        "call-sign": (Player.call_sign, rated_players.logged_call_sign()),
    }
    for what, (stored, logged) in columns.items():
        # Not `!=`, which is unknown for NULL: a missing standing in the log must be found, too.
        differing = session.scalars(query.where(stored.is_distinct_from(logged)).order_by(Player.id)).all()
        if differing:
            finding = f"players whose {what} differs from the audit log: {_some(differing)}"
            yield Violation("standings", environment, finding)
    unsupported = snapshot_schedule.inconsistent(session, environment)
    if unsupported:
        yield Violation("decisions", environment, f"events that their evidence does not support: {_some(unsupported)}")


def _champion(session: Session, environment: str) -> Iterator[Violation]:
    """The champion is a commander and agrees with the audit log."""
    champion, logged = (
        champions.champion_id(session, environment),
        champions.champion_in_audit_log(session, environment),
    )
    if champion != logged:
        finding = f"{_player_or_none(champion)} is champion, but the audit log names {_player_or_none(logged)}"
        yield Violation("champion", environment, finding)
    if champion is not None and rated_players.require(session, champion)[0].standing != "commander":
        yield Violation("champion", environment, f"player {champion} is champion but not a commander")


def _gates(session: Session, environment: str) -> Iterator[Violation]:
    """Leases of a gate have its two players, and each verdict agrees with the match log."""
    mismatched = gate_sprt.find_wrong_leases(session, environment)
    if mismatched:
        yield Violation("gates", environment, f"leases of gates with other players: {_some(mismatched)}")
    wrong = gate_sprt.find_wrong_verdicts(session, environment)
    if wrong:
        yield Violation("gates", environment, f"gates whose verdict differs from the match log: {_some(wrong)}")


def _replays(database: Database, store: CheckpointStore) -> Iterator[Violation]:
    """The store has the bytes of all recordings with the right hash."""
    damaged = [file.match_id for file in replays.find_damaged(database, store.recordings)]
    if damaged:
        finding = f"matches whose recordings are missing or damaged: {_some(damaged)}; restore them from a backup"
        yield Violation("replays", None, finding)


def _checkpoints(database: Database, store: CheckpointStore, before: datetime) -> Iterator[Violation]:
    """The store has the checkpoints of all players with the right hash, and no other files."""
    found = garbage_collection.survey(database, store, before)
    if found.missing:
        finding = f"missing in the store, but used by players: {_some(found.missing)}"
        yield Violation("checkpoints", None, finding)
    damaged = [one.sha256 for one in garbage_collection.damaged(store, found, move_aside=False)]
    if damaged:
        finding = f"damaged (wrong hash): {_some(damaged)}; restore them from a backup"
        yield Violation("checkpoints", None, finding)
    if found.deletable:
        size = sum(one.size_bytes for one in found.deletable)
        finding = f"unused files: {len(found.deletable)}, {size:,} bytes; `league admin gc` deletes them"
        yield Violation("checkpoints", None, finding)


def _player_or_none(player_id: int | None) -> str:
    return "no player" if player_id is None else f"player {player_id}"


def _some(values: Sequence[object]) -> str:
    """Return the values separated by commas, shortened to the first few and the total."""
    named = ", ".join(str(value) for value in values[:_EXAMPLES])
    return named if len(values) <= _EXAMPLES else f"{named}, ... ({len(values):,} in all)"
