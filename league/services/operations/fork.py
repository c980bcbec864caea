"""Fork: create a new league from another league's state at the close of one of its rating periods.

The state is selected during an export and then imported elsewhere. It contains the matches that were rated by then.
Standings and call-signs come from the audit log, payoffs are recounted from the matches, and ratings are copied.
Workers quarantined today are also quarantined in the fork, because the stored ratings of that time exclude them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, case, false, func, literal, null, or_, select, true
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.db.models import (
    Base,
    Behaviour,
    Champion,
    Checkpoint,
    Draw,
    Environment,
    Event,
    Gate,
    Learner,
    LearnerProgress,
    Lease,
    Match,
    MeasureSet,
    MetricPoint,
    Period,
    Player,
    PlayerTag,
    Quarantine,
    Rating,
    Refusal,
    Replay,
    Run,
    SnapshotDecision,
    Token,
    UnplayableReport,
    Worker,
)
from league.errors import UnknownPeriodError
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.pair_records import PairRecords
from league.services.operations import export, import_
from league.services.operations.archive import ArchiveReader, Manifest, Progress
from league.services.operations.export import View
from league.services.ratings import rated_players, sides
from league.services.ratings import store as rating_store
from league.services.ratings.period import RatingConfig
from league.storage.base import CheckpointStore

_ARCHIVE = ".fork.zip"
"""Name of the intermediate archive in the scratch folder."""


@dataclass(frozen=True)
class ForkPoint:
    """Point in time of a fork.

    Attributes:
        period_id: The last rating period.
        environment: Environment of that period.
        at: Time at which it was closed.
        matches: Id of the last match rated by then, by environment.
    """

    period_id: int
    environment: str
    at: datetime
    matches: Mapping[str, int]


@dataclass(frozen=True)
class League:
    """Database and checkpoint store of a league."""

    database: Database
    store: CheckpointStore


def fork(
    source: League, destination: League, period_id: int, scratch: Path, cause: Cause, progress: Progress
) -> tuple[ForkPoint, Manifest]:
    """Create a new league from another league's state at the end of a rating period. The source may be running.

    If the fork fails, the destination's database is unchanged, and checkpoints already copied are not copied again.

    Args:
        source: The league, at this version's schema.
        destination: An empty database and a store.
        period_id: A period of any environment; the other environments are forked as of the same time.
        scratch: Folder with room for a second copy of the tables and checkpoints.
        cause: Actor and time for the audit log of the new league.
        progress: Receives the progress.

    Raises:
        UnknownPeriodError: There is no such period.
        OccupiedLeagueError: The destination has a league.
        UnknownCheckpointError: The source's store lacks a checkpoint.
    """
    with source.database.read() as session:
        cut = fork_point(session, period_id)
    path = scratch / _ARCHIVE
    path.unlink(missing_ok=True)  # a fork that was killed may have left its own
    try:
        manifest = export.export(
            source.database,
            source.store,
            path,
            cause.now,
            progress,
            export.ExportOptions(view=lambda session: view_of(session, cut)),
        )
        with ArchiveReader(path) as archive:
            import_.load(archive, destination.database, destination.store, cause.now, progress)
    finally:
        path.unlink(missing_ok=True)
    with destination.database.write() as session:
        audit_log.record(
            session,
            "fork",
            replace(cause, reason=f"as of period {period_id} of {cut.environment}"),
            details={"period": period_id, "closed_at": cut.at.isoformat(), "source": str(source.database)},
        )
    return cut, manifest


def fork_point(session: Session, period_id: int) -> ForkPoint:
    """Return the point in time at which a period was closed.

    Raises:
        UnknownPeriodError: There is no such period.
    """
    period = session.get(Period, period_id)
    if period is None:
        raise UnknownPeriodError(period_id, "no rating period has this id", "list them with GET /rating-periods")
    # Both conditions: the clock may have been set back between two periods.
    existing = Period.id <= period_id, Period.closed_at <= period.closed_at
    last = select(Period.environment, func.max(Period.last_match_id)).where(*existing).group_by(Period.environment)
    matches = dict(iter(session.execute(last))) | {period.environment: period.last_match_id}
    return ForkPoint(period_id, period.environment, period.closed_at, matches)


def view_of(session: Session, cut: ForkPoint) -> View:
    """Select each table's rows as of a point in time; every table has its rule here."""
    at = cut.at
    by_environment = [and_(Match.environment == each, Match.id <= last) for each, last in cut.matches.items()]
    matches = or_(false(), *by_environment)
    copied_matches = select(Match.id).where(matches)
    leases = or_(Lease.granted_at <= at, Lease.id.in_(select(Match.lease_id).where(matches)))
    periods = _periods(cut)
    players = Player.created_at <= at
    published = select(Player.checkpoint).where(players)
    referred = or_(Refusal.match_id.is_(None), Refusal.match_id.in_(copied_matches))
    records = {each: _records(session, cut, each) for each in sorted(cut.matches)}
    tables: dict[str, Select[Any] | list[dict[str, Any]]] = {
        "tokens": _rows(Token, true()),
        # None of them is lost, because they play for the source league.
        "workers": _rows(Worker, true(), lost_at=Worker.__table__.c.seen_at),
        "quarantines": _rows(Quarantine, true()),
        # Held by processes of the source league.
        "leader_leases": [],
        "webhooks": [],
        "environments": _environments(at),
        "learners": _rows(Learner, Learner.created_at <= at),
        "learner_progress": _progress(at),
        "runs": _rows(Run, Run.started_at <= at),
        "players": _players(at),
        "player_tags": _rows(PlayerTag, PlayerTag.player_id.in_(select(Player.id).where(players))),
        "opponent_distributions": _rows(Draw, Draw.id.in_(select(Lease.draw_id).where(leases))),
        "leases": _rows(Lease, leases),
        "gates": _gates(at),
        "unplayable_reports": _reports(at),
        "matches": _rows(Match, matches),
        "measure_sets": _rows(MeasureSet, true()),
        "behaviours": _rows(Behaviour, Behaviour.match_id.in_(copied_matches)),
        "metric_points": _rows(MetricPoint, MetricPoint.reported_at <= at),
        "replays": _rows(Replay, Replay.match_id.in_(copied_matches)),
        "refusals": _rows(Refusal, and_(Refusal.refused_at <= at, referred)),
        "periods": _rows(Period, periods),
        "ratings": _rows(Rating, Rating.period_id.in_(select(Period.id).where(periods))),
        "payoffs": _sorted(row for name, (of_pairs, _) in records.items() for row in of_pairs.rows(name)),
        "side_payoffs": _sorted(
            row for name, (_, by_side) in records.items() for row in rating_store.side_rows(by_side, name)
        ),
        # The forked league fits its own.
        "pair_models": [],
        "champions": _rows(Champion, Champion.since <= at),
        "checkpoints": _rows(Checkpoint, Checkpoint.sha256.in_(published)),
        "events": _rows(Event, Event.created_at <= at),
        "snapshot_decisions": _decisions(at),
    }
    return View(tables, players)


def _reports(at: datetime) -> Select[Any]:
    """Select reports made by then; those resolved later are open."""
    resolved = UnplayableReport.resolved_at <= at
    changed = {
        "resolution": case((resolved, UnplayableReport.resolution)),
        "resolved_at": case((resolved, UnplayableReport.resolved_at)),
    }
    return _rows(UnplayableReport, UnplayableReport.reported_at <= at, **changed)


def _rows(kind: type[Base], chosen: ColumnElement[bool], **changed: ColumnElement[Any]) -> Select[Any]:
    """Select rows of a table in order of its primary key, with some columns replaced."""
    table = Base.metadata.tables[kind.__tablename__]
    columns = [changed[each.name].label(each.name) if each.name in changed else each for each in table.columns]
    return select(*columns).where(chosen).order_by(*table.primary_key.columns)


def _periods(cut: ForkPoint) -> ColumnElement[bool]:
    """Select the periods up to the cut, without later versions of the ratings or unfinished ones."""
    rated = [and_(Period.environment == each, Period.last_match_id <= last) for each, last in cut.matches.items()]
    return and_(Period.id <= cut.period_id, Period.closed_at <= cut.at, or_(false(), *rated))


def _environments(at: datetime) -> Select[Any]:
    """Select the environments; the signature is that of the last learner created by then, or NULL."""
    own = Learner.environment == Environment.name, Learner.created_at <= at
    signature = select(Learner.signature).where(*own).order_by(Learner.id.desc()).limit(1).correlate(Environment)
    return _rows(Environment, Environment.created_at <= at, signature=signature.scalar_subquery())


def _progress(at: datetime) -> Select[Any]:
    """Select the progress of learners: the step is that of their last snapshot by then."""
    own = Player.learner_id == LearnerProgress.learner_id, Player.kind == "snapshot", Player.created_at <= at
    step = select(func.max(Player.step)).where(*own).correlate(LearnerProgress).scalar_subquery()
    logged = MetricPoint.learner_id == LearnerProgress.learner_id, MetricPoint.reported_at <= at
    last = select(func.max(MetricPoint.number)).where(*logged).correlate(LearnerProgress).scalar_subquery()
    none = literal({}, LearnerProgress.metrics.type)
    unknown = {"metrics": none, "metrics_at": null(), "verdicts": null()}
    existing = LearnerProgress.learner_id.in_(select(Learner.id).where(Learner.created_at <= at))
    return _rows(LearnerProgress, existing, step=step, points=func.coalesce(last, 0), **unknown)


def _players(at: datetime) -> Select[Any]:
    """Select the players with their standing and call-sign of that time, from the audit log."""
    logged = {"standing": rated_players.logged_standing(), "call_sign": rated_players.logged_call_sign()}
    chosen = _rows(Player, Player.created_at <= at, **logged)
    return chosen.outerjoin(Event, Event.id == rated_players.last_change(at))


def _gates(at: datetime) -> Select[Any]:
    """Select the gates; those closed later are open."""
    closed = Gate.closed_at <= at
    return _rows(
        Gate,
        Gate.opened_at <= at,
        state=case((closed, Gate.state), else_="open"),
        verdict=case((closed, Gate.verdict), else_=literal({}, Gate.verdict.type)),
        closed_reason=case((closed, Gate.closed_reason)),
        closed_at=case((closed, Gate.closed_at)),
    )


def _decisions(at: datetime) -> Select[Any]:
    """Select the snapshot decisions; a snapshot published later is not linked yet."""
    existing = SnapshotDecision.event_id.in_(select(Event.id).where(Event.created_at <= at))
    published = SnapshotDecision.player_id.in_(select(Player.id).where(Player.created_at <= at))
    return _rows(SnapshotDecision, existing, player_id=case((published, SnapshotDecision.player_id)))


def _records(session: Session, cut: ForkPoint, environment: str) -> tuple[PairRecords, PairRecords]:
    """Recount the pair records, overall and by side, period by period as they were counted originally."""
    own = Period.environment == environment, _periods(cut)
    version = select(func.max(Period.version)).where(*own).scalar_subquery()
    closed = select(Period.last_match_id, Period.rule).where(*own, Period.version == version).order_by(Period.number)
    records, by_side, start = pair_records.NO_RECORDS, pair_records.NO_RECORDS, 0
    for end, rule in session.execute(closed).all():
        games = match_log.read(session, environment, start, end)
        records, start = records.advance(games), end
        if RatingConfig.restored(rule).unlike_sides:
            by_side = by_side.advance(sides.seated(games))
    return records, by_side


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort pair records by their two player ids, which are the first columns."""
    return sorted(rows, key=lambda row: tuple(row.values())[:2])
