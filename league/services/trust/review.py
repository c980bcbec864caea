"""Review of workers: compare their results with the other workers' results of the same pairings."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league import wire
from league.db.models import Match, Period, Player, Quarantine, Refusal, Worker
from league.pagination import Page, paginate
from league.recent_value import RecentValue
from league.services.environments import lookup as environments
from league.services.matches import counting
from league.services.population import cache as population_cache
from league.services.trust import statistics as worker_statistics
from league.services.trust.statistics import Fit, Reports
from league.services.workers import service as workers
from league.settings import Settings

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_EXTERNAL = Player.kind == "external"

MAX_AGE = timedelta(seconds=15)
"""Maximum age of a cached review on dashboard pages."""

KINDS: tuple[wire.MatchKind, ...] = ("training", "rating")
MEASURES: dict[wire.Measure, worker_statistics.Check] = {
    "score": worker_statistics.scores,
    "length": worker_statistics.lengths,
}


@dataclass(frozen=True, eq=False)
class _Log:
    """The last M counted matches of an environment, oldest first; `worker` indexes `workers`.

    Matches with an `external` player are not tested: its strength depends on the worker that runs it.
    """

    workers: Sequence[str]
    since: datetime
    ids: IntArray
    worker: IntArray
    training: NDArray[np.bool_]
    home: IntArray
    away: IntArray
    score: FloatArray
    decisions: IntArray
    external: NDArray[np.bool_]


@dataclass(frozen=True)
class _WorkerReviews:
    """Review of all workers over the last matches.

    Attributes:
        since: Time of the oldest match; None without matches.
        results: Number of matches by worker id.
        checks: Statistical checks by worker id.
    """

    since: datetime | None
    results: Mapping[str, int]
    checks: Mapping[str, Sequence[wire.WorkerCheck]]


@dataclass(frozen=True)
class _Review:
    """Review of one worker: numbers of results and refusals, and its checks."""

    results: int
    refused: int
    checks: Sequence[wire.WorkerCheck]


class ReviewCache(RecentValue[_WorkerReviews]):
    """Cached review of all workers: computing it takes tenths of a second, and every open dashboard page polls it."""

    def current(self, session: Session, settings: Settings, now: datetime) -> _WorkerReviews:
        """Return the cached review, or a new one if it is older than `MAX_AGE` or the population has changed."""
        return self.get(population_cache.version(session), now, MAX_AGE, lambda: _compute(session, settings))


def list_workers(
    session: Session, settings: Settings, name: str | None, limit: int, cursor: str = ""
) -> Page[wire.ListedWorker]:
    """List workers with their checks, in the order of ids after the cursor; optionally only those with a name.

    The review covers the last `review_matches` matches of each environment, without excluded ones.
    """
    query = select(Worker) if name is None else select(Worker).where(Worker.name == name)
    found = session.scalars(paginate(query, Worker.id, cursor, limit)).all()
    return Page.cut(_to_wire(session, settings, found, _compute(session, settings)), limit, attrgetter("id"))


def get_worker(
    session: Session, settings: Settings, review: ReviewCache, worker_id: str, now: datetime
) -> wire.ListedWorker:
    """Return one worker with its checks, from the cached review.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    found = [workers.require(session, worker_id)]
    return _to_wire(session, settings, found, review.current(session, settings, now))[0]


def latest(
    session: Session,
    settings: Settings,
    review: ReviewCache,
    limit: int,
    kind: wire.WorkerKind | None,
    now: datetime,
) -> list[wire.ListedWorker]:
    """List the workers that were seen last, optionally of one kind, with their checks from the cached review."""
    query = select(Worker).order_by(Worker.seen_at.desc(), Worker.id).limit(limit)
    query = query if kind is None else query.where(Worker.kind == kind)
    return _to_wire(session, settings, session.scalars(query).all(), review.current(session, settings, now))


def _to_wire(
    session: Session, settings: Settings, found: Sequence[Worker], reviews: _WorkerReviews
) -> list[wire.ListedWorker]:
    still_open = session.scalars(select(Quarantine).where(Quarantine.lifted_at.is_(None)))
    quarantines = {row.worker_id: row for row in still_open}
    refused = _count_refusals(session, [worker.id for worker in found], reviews.since)
    return [
        _body(settings, worker, quarantines.get(worker.id), _review(settings, worker.id, reviews, refused))
        for worker in found
    ]


def _compute(session: Session, settings: Settings) -> _WorkerReviews:
    since: list[datetime] = []
    results: Counter[str] = Counter()
    checks: dict[str, list[wire.WorkerCheck]] = {}
    for environment in environments.names(session):
        log = _read_log(session, environment, settings.review_matches)
        if log is None:
            continue
        since.append(log.since)
        reported = np.bincount(log.worker, minlength=len(log.workers)).tolist()
        results.update(dict(zip(log.workers, reported, strict=True)))
        for worker_id, check in _checks(session, settings, environment, log):
            checks.setdefault(worker_id, []).append(check)
    return _WorkerReviews(min(since, default=None), results, checks)


def _review(settings: Settings, worker_id: str, reviews: _WorkerReviews, refusals: Mapping[str, int]) -> _Review:
    results, refused = reviews.results.get(worker_id, 0), refusals.get(worker_id, 0)
    fit = worker_statistics.refusals(refused, refused + results)
    of_refusals = [] if fit is None else [_check("refusals", None, None, fit, settings)]
    return _Review(results, refused, [*reviews.checks.get(worker_id, ()), *of_refusals])


def _read_log(session: Session, environment: str, limit: int) -> _Log | None:
    newest = select(Match.id).where(Match.environment == environment).order_by(Match.id.desc())
    # A range of ids bounds the query below by the index on (environment, id).
    start = session.scalar(newest.offset(limit).limit(1)) or 0
    columns = Match.id, Match.worker_id, Match.kind, Match.home_id, Match.away_id, Match.score, Match.decisions
    # Self-play is no evidence about a worker: both sides are the same player.
    chosen = Match.environment == environment, Match.id > start, Match.home_id != Match.away_id
    query = select(*columns, Match.reported_at).where(*chosen, *counting.counted(session)).order_by(Match.id)
    rows = session.execute(query).all()
    if not rows:
        return None
    ids, reporters, kinds, home, away, score, decisions, reported_at = zip(*rows, strict=True)
    external = list(session.scalars(select(Player.id).where(Player.environment == environment, _EXTERNAL)))
    names, worker = np.unique(np.array(reporters), return_inverse=True)
    return _Log(
        workers=names.tolist(),
        since=reported_at[0],
        ids=np.array(ids, dtype=np.int64),
        worker=worker.reshape(-1),
        training=np.array(kinds) == "training",
        home=np.array(home, dtype=np.int64),
        away=np.array(away, dtype=np.int64),
        score=np.array(score, dtype=np.float64),
        # The test of lengths takes logarithms.
        decisions=np.maximum(np.array(decisions, dtype=np.int64), 1),
        external=np.isin(home, external) | np.isin(away, external),
    )


def _checks(
    session: Session, settings: Settings, environment: str, log: _Log
) -> Iterator[tuple[str, wire.WorkerCheck]]:
    pairing, stratum = _group_numbers(log.home, log.away), _strata(session, environment, log)
    all_reports = Reports(log.worker, pairing, stratum, log.score, log.decisions)
    for kind in KINDS:
        reports = all_reports.select(~log.external & (log.training == (kind == "training")))
        for measure, check in MEASURES.items():
            fits = worker_statistics.check_sequentially(check, reports, len(log.workers), settings.suspicion_level)
            for worker_id, fit in zip(log.workers, fits, strict=True):
                if fit is not None:
                    yield worker_id, _check(measure, environment, kind, fit, settings)


def _strata(session: Session, environment: str, log: _Log) -> IntArray:
    """Assign matches to strata of constant strength: a pairing, or a pairing in one rating period for training matches.

    Learners change from period to period, frozen players do not.
    """
    current = Period.environment == environment, Period.current_version(), Period.last_match_id >= int(log.ids[0])
    ends = session.scalars(select(Period.last_match_id).where(*current).order_by(Period.number)).all()
    # Matches after the last period get the next number: a stratum of their own.
    period = np.searchsorted(np.array(ends, dtype=np.int64), log.ids)
    return _group_numbers(log.home, log.away, np.where(log.training, period, -1))


def _group_numbers(*columns: IntArray) -> IntArray:
    """Number the rows so that equal rows get equal numbers."""
    # With `axis`, NumPy 2.0 returns the inverse in two dimensions and other releases in one.
    _, number = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return number.reshape(-1)


def _count_refusals(session: Session, worker_ids: Sequence[str], since: datetime | None) -> dict[str, int]:
    query = select(Refusal.worker_id, func.count()).where(Refusal.worker_id.in_(worker_ids))
    query = query if since is None else query.where(Refusal.refused_at >= since)
    return dict(iter(session.execute(query.group_by(Refusal.worker_id))))


def _check(
    measure: wire.Measure, environment: str | None, kind: wire.MatchKind | None, fit: Fit, settings: Settings
) -> wire.WorkerCheck:
    suspect = fit.p_value < settings.suspicion_level
    return wire.WorkerCheck.of(fit, measure=measure, environment=environment, kind=kind, suspect=suspect)


def _body(settings: Settings, worker: Worker, quarantine: Quarantine | None, review: _Review) -> wire.ListedWorker:
    return wire.ListedWorker.of(
        worker,
        heartbeat_s=settings.heartbeat_s,
        next_poll_s=settings.next_poll_s,
        quarantine=None if quarantine is None else wire.Quarantine.of(quarantine),
        results=review.results,
        refused=review.refused,
        checks=list(review.checks),
        suspect=any(check.suspect for check in review.checks),
    )
