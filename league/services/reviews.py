"""Workers as their results show them: how they fit what others' and the ratings lead to expect."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.glicko2 import Ratings, expected_score
from league import wire
from league.config import Settings
from league.db.models import Match, Period, Player, Quarantine, Rating, Refusal, Worker
from league.services import exclusion, learners, standings, worker_checks, workers
from league.services.worker_checks import Fit, Reports

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

KINDS: tuple[wire.MatchKind, ...] = ("training", "rating")
MEASURES: dict[wire.Measure, worker_checks.Check] = {"score": worker_checks.scores, "length": worker_checks.lengths}


@dataclass(frozen=True, eq=False)
class _Log:
    """M matches of an environment that count, oldest first; `worker` indexes `workers`."""

    workers: Sequence[str]
    since: datetime
    ids: IntArray
    worker: IntArray
    training: NDArray[np.bool_]
    home: IntArray
    away: IntArray
    score: FloatArray
    decisions: IntArray


@dataclass(frozen=True)
class _Review:
    """What the last matches and refusals say of one worker."""

    results: int
    refused: int
    checks: Sequence[wire.WorkerCheck]


def listing(session: Session, settings: Settings, limit: int, after: str, name: str | None) -> list[wire.ListedWorker]:
    """List workers by id, after the given one, all or those of a name, with how their results fit.

    Looked at are the last `review_matches` matches of each environment, as far as they count.
    """
    query = select(Worker).where(Worker.id > after).order_by(Worker.id).limit(limit)
    query = query if name is None else query.where(Worker.name == name)
    return _listed(session, settings, session.scalars(query).all())


def latest(session: Session, settings: Settings, limit: int, kind: wire.WorkerKind | None) -> list[wire.ListedWorker]:
    """List the workers that were seen last, all or those of a kind, as `listing` does."""
    query = select(Worker).order_by(Worker.seen_at.desc(), Worker.id).limit(limit)
    query = query if kind is None else query.where(Worker.kind == kind)
    return _listed(session, settings, session.scalars(query).all())


def _listed(session: Session, settings: Settings, found: Sequence[Worker]) -> list[wire.ListedWorker]:
    still_open = session.scalars(select(Quarantine).where(Quarantine.lifted_at.is_(None)))
    quarantines = {row.worker_id: row for row in still_open}
    reviews = _reviews(session, settings, [worker.id for worker in found])
    return [_body(settings, worker, quarantines.get(worker.id), reviews[worker.id]) for worker in found]


def _reviews(session: Session, settings: Settings, worker_ids: Sequence[str]) -> dict[str, _Review]:
    results = dict.fromkeys(worker_ids, 0)
    checks: dict[str, list[wire.WorkerCheck]] = {worker_id: [] for worker_id in worker_ids}
    since: list[datetime] = []
    for environment in learners.environments(session):
        log = _read(session, environment, settings.review_matches)
        if log is None:
            continue
        since.append(log.since)
        for place, worker_id in enumerate(log.workers):
            if worker_id in results:
                results[worker_id] += int((log.worker == place).sum())
        for worker_id, check in _checks(session, settings, environment, log):
            if worker_id in checks:
                checks[worker_id].append(check)
    refused = _refused(session, worker_ids, min(since, default=None))
    for worker_id in worker_ids:
        fit = worker_checks.refusals(refused.get(worker_id, 0), refused.get(worker_id, 0) + results[worker_id])
        if fit is not None:
            checks[worker_id].append(_check("refusals", None, None, fit, settings))
    return {each: _Review(results[each], refused.get(each, 0), checks[each]) for each in worker_ids}


def _read(session: Session, environment: str, limit: int) -> _Log | None:
    newest = select(Match.id).where(Match.environment == environment).order_by(Match.id.desc())
    start = session.scalar(newest.offset(limit).limit(1)) or 0
    columns = Match.id, Match.worker_id, Match.kind, Match.home_id, Match.away_id, Match.score, Match.decisions
    chosen = Match.environment == environment, Match.id > start, Match.home_id != Match.away_id
    query = select(*columns, Match.reported_at).where(*chosen, *exclusion.counted(session)).order_by(Match.id)
    rows = session.execute(query).all()
    if not rows:
        return None
    ids, reporters, kinds, home, away, score, decisions, reported_at = zip(*rows, strict=True)
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
        decisions=np.maximum(np.array(decisions, dtype=np.int64), 1),
    )


def _checks(
    session: Session, settings: Settings, environment: str, log: _Log
) -> Iterator[tuple[str, wire.WorkerCheck]]:
    period, predicted = _predictions(session, environment, log)
    _, pairing = np.unique(np.stack([log.home, log.away]), axis=1, return_inverse=True)
    everything = Reports(log.worker, pairing.reshape(-1), period, log.score, predicted, log.decisions)
    for kind in KINDS:
        reports = everything.chosen(log.training == (kind == "training"))
        for measure, check in MEASURES.items():
            fits = worker_checks.one_by_one(check, reports, len(log.workers), settings.suspicion_level)
            for worker_id, fit in zip(log.workers, fits, strict=True):
                if fit is not None:
                    yield worker_id, _check(measure, environment, kind, fit, settings)


def _predictions(session: Session, environment: str, log: _Log) -> tuple[IntArray, FloatArray]:
    """Return each match's rating period, counted from the first, and home's score by the ratings in force then."""
    of_environment = Period.environment == environment, standings.in_force()
    query = select(Period.id, Period.last_match_id).where(*of_environment).order_by(Period.number)
    before = session.execute(query.where(Period.last_match_id < int(log.ids[0]))).all()
    during = session.execute(query.where(Period.last_match_id >= int(log.ids[0]))).all()
    players = np.union1d(log.home, log.away)
    ratings = _history(session, players, before[-1][0] if before else 0, [period_id for period_id, _ in during])
    period = np.searchsorted(np.array([last for _, last in during], dtype=np.int64), log.ids)
    first = period * players.size
    home, away = np.searchsorted(players, log.home), np.searchsorted(players, log.away)
    return period, expected_score(ratings, first + home, first + away)


def _history(session: Session, players: IntArray, before: int, periods: Sequence[int]) -> Ratings:
    """Return the ratings of P players before the first of N periods and after each, one after the other: (N + 1) P."""
    rating, deviation = np.zeros((2, len(periods) + 1, players.size))
    start = standings.rated(before).where(Player.id.in_(players.tolist())).order_by(Player.id)
    first = standings.ratings(session.execute(start).all())
    rating[:], deviation[:] = first.rating, first.deviation
    changes = select(Rating).where(Rating.period_id.in_(periods), Rating.player_id.in_(players.tolist()))
    number = {period_id: place for place, period_id in enumerate(periods, start=1)}
    for change in session.scalars(changes.order_by(Rating.period_id)):
        place = int(np.searchsorted(players, change.player_id))
        rating[number[change.period_id] :, place] = change.rating
        deviation[number[change.period_id] :, place] = change.deviation
    return Ratings(rating.reshape(-1), deviation.reshape(-1), np.zeros(rating.size))


def _refused(session: Session, worker_ids: Sequence[str], since: datetime | None) -> dict[str, int]:
    query = select(Refusal.worker_id, func.count()).where(Refusal.worker_id.in_(worker_ids))
    query = query if since is None else query.where(Refusal.refused_at >= since)
    return dict(iter(session.execute(query.group_by(Refusal.worker_id))))


def _check(
    measure: wire.Measure, environment: str | None, kind: wire.MatchKind | None, fit: Fit, settings: Settings
) -> wire.WorkerCheck:
    return wire.WorkerCheck(
        measure=measure,
        environment=environment,
        kind=kind,
        results=fit.results,
        observed=fit.observed,
        expected=fit.expected,
        chi_square=fit.chi_square,
        degrees=fit.degrees,
        p_value=fit.p_value,
        suspect=fit.p_value < settings.suspicion_level,
    )


def _body(settings: Settings, worker: Worker, quarantine: Quarantine | None, review: _Review) -> wire.ListedWorker:
    return wire.ListedWorker(
        **workers.body(worker, settings, settings.next_poll_s).model_dump(),
        registered_at=worker.registered_at,
        quarantine=None if quarantine is None else workers.quarantine_body(quarantine),
        results=review.results,
        refused=review.refused,
        checks=list(review.checks),
        suspect=any(check.suspect for check in review.checks),
    )
