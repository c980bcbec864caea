"""Exactly-once storage of match results.

The idempotency key of a result is (lease, sequence). The first payload under a key is final: an equal payload is a
duplicate and a different one a conflict. A unique index decides whether a key is new, so concurrent requests get
consistent answers. Rejected results and conflicts are stored as refusals, so that a resent report gets the same answer
again.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import bindparam, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from arena.seeding.arrays import derive_array
from league import wire
from league.auth import Principal
from league.db import locks
from league.db.bulk_insert import among, insert_new
from league.db.engine import Database
from league.db.group_commit import one_by_one
from league.db.locks import Lock
from league.db.models import Base, Match, Refusal, Worker
from league.services.auth import ownership
from league.services.matches import behaviours
from league.services.matches.behaviours import Packed
from league.services.matchmaking.lease_cache import LeaseCache, LeaseRecord
from league.services.results import validation
from league.services.results.validation import Reporter, Submission
from league.services.workers import service as workers
from league.settings import Settings

_HASH_BYTES = 16
_REFUSED: dict[str, wire.ResultStatus] = {"conflict": "conflict", "rejected": "rejected"}

Key = tuple[str, int]
Row = dict[str, Any]
ValidResults = Mapping[int, wire.Result]
"""Valid results by their index in the batch."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of one reported result."""

    status: wire.ResultStatus
    match_id: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class StoredMatch:
    """Match stored under an idempotency key."""

    match_id: int
    payload_hash: bytes
    late: bool


@dataclass(slots=True)
class _Classified:
    """Results of a batch by their index, classified before anything is written.

    Attributes:
        final: Final verdicts.
        rejected: Reason to reject a result, unless the match log has it already.
        new: Index of the first result under each key that may be new.
    """

    final: dict[int, Verdict] = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)
    new: dict[Key, int] = field(default_factory=dict)


def submit(
    database: Database,
    settings: Settings,
    cache: LeaseCache,
    caller: Principal,
    batch: wire.ResultReport,
    now: datetime,
) -> list[wire.ResultAnswer]:
    """Store a worker's results; return one answer per result, in order.

    Leases never change, so results are validated before the write transaction, which stays short. If a lease was
    deleted with its environment in the meantime, the insert violates a foreign key. The batch is then validated again
    without the cache.

    Raises:
        UnknownWorkerError: There is no such worker.
        ForbiddenError: The worker belongs to another token.
    """
    try:
        return _submit(database, settings, cache, caller, batch, now)
    except IntegrityError:
        cache.forget({each.lease_id for each in batch.results})
        return _submit(database, settings, cache, caller, batch, now)


def _submit(
    database: Database,
    settings: Settings,
    cache: LeaseCache,
    caller: Principal,
    batch: wire.ResultReport,
    now: datetime,
) -> list[wire.ResultAnswer]:
    valid = {index: result for index, result in enumerate(batch.results) if isinstance(result, wire.Result)}
    with database.autocommit_read() as session:
        ownership.require_worker(session, caller, batch.worker_id)
        reporter, has_refusals = _reporter(session, batch.worker_id)
        lease_ids = {result.lease_id for result in batch.results if wire.storable_lease_id(result.lease_id)}
        leases = cache.get(session, lease_ids)
        refusals = _stored_refusals(session, reporter.worker_id, lease_ids) if has_refusals else {}
        limits = cache.limits(session, _longest_matches(valid.values(), leases))
        submission = Submission(reporter, now, settings.lease_grace_s)
        classified = _classify(batch.results, leases, refusals, limits, submission)
        rejected = {index: valid[index] for index in classified.rejected}
        known = classified.final | _compare(session, rejected, classified.rejected)
    # In the order of keys: two batches that share keys then wait for each other's index entries in the same order and
    # cannot deadlock.
    rows = {index: _row(valid[index], leases[lease_id], now) for (lease_id, _), index in sorted(classified.new.items())}
    accepted = _accept(database, rows, {index: valid[index] for index in rows})
    verdicts = known | {classified.new[key]: verdict for key, verdict in accepted.items()}
    # Usually every result is accepted, and the second transaction is not needed.
    if len(verdicts) < len(batch.results) or any(verdict.status in _REFUSED for verdict in verdicts.values()):
        verdicts |= database.group_commit(
            one_by_one, lambda session: _refuse(session, reporter, batch.results, verdicts, now)
        )
    return [_answer(result, verdicts[index]) for index, result in enumerate(batch.results)]


def _longest_matches(results: Iterable[wire.Result], leases: Mapping[str, LeaseRecord]) -> dict[str, int]:
    """Return the largest number of decisions among the results of each environment."""
    longest: dict[str, int] = {}
    for result in results:
        if (lease := leases.get(result.lease_id)) is not None:
            longest[lease.environment] = max(result.decisions, longest.get(lease.environment, 0))
    return longest


def _classify(
    results: Sequence[wire.Result | wire.UnreadableResult],
    leases: Mapping[str, LeaseRecord],
    refusals: Mapping[bytes, Verdict],
    limits: Mapping[str, int],
    submission: Submission,
) -> _Classified:
    classified, seeds = _Classified(), _seeds(results, leases)
    for index, result in enumerate(results):
        lease = leases.get(result.lease_id)
        before = refusals.get(_digest(result)) if refusals else None
        if before is not None:
            classified.final[index] = before
        elif isinstance(result, wire.UnreadableResult):
            classified.final[index] = Verdict("rejected", None, result.detail)
        elif lease is None or lease.worker_id != submission.reporter.worker_id:
            classified.final[index] = Verdict("rejected", None, validation.not_owned(result, lease))
        else:
            # A sequence out of range has no seed; `refusal` rejects it before it looks at the seed.
            seed, max_decisions = seeds.get(index, lease.seed), limits.get(lease.environment)
            reason = validation.refusal(result, lease, seed, max_decisions, submission)
            if reason is None:
                # The first of equal keys in a batch is inserted. The others are compared with it afterwards.
                classified.new.setdefault(_key(result), index)
            else:
                classified.rejected[index] = reason
    return classified


def _seeds(results: Sequence[wire.Result | wire.UnreadableResult], leases: Mapping[str, LeaseRecord]) -> dict[int, int]:
    """Derive the match seeds for all results in one vectorised call, by index; out-of-range sequences have none."""
    known = [
        (index, lease.seed, result.sequence)
        for index, result in enumerate(results)
        if (lease := leases.get(result.lease_id)) is not None and 0 <= result.sequence < lease.budget
    ]
    indices, seeds, sequences = np.array(known, dtype=np.int64).reshape(-1, 3).T
    return dict(zip(indices.tolist(), derive_array(seeds, "match", sequences).tolist(), strict=True))


# --- reads -----------------------------------------------------------------------------------------------------------


_WORKERS, _REFUSALS = Base.metadata.tables[Worker.__tablename__], Base.metadata.tables[Refusal.__tablename__]
_REPORTER = select(  # Core, not ORM: object mapping costs more than the statement
    _WORKERS.c.signatures, select(_REFUSALS.c.worker_id).where(_REFUSALS.c.worker_id == _WORKERS.c.id).exists()
).where(_WORKERS.c.id == bindparam("worker"))


def _reporter(session: Session, worker_id: str) -> tuple[Reporter, bool]:
    """Return the reporting worker, and whether any of its results was ever refused.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    row = session.connection().execute(_REPORTER, {"worker": worker_id}).one_or_none()
    if row is None:
        raise workers.unknown(worker_id)
    signatures, has_refusals = row
    return Reporter(worker_id, frozenset(signatures)), has_refusals


def _stored_refusals(session: Session, worker_id: str, lease_ids: Collection[str]) -> dict[bytes, Verdict]:
    """Return the stored refusals of a worker's results under these leases, by digest."""
    query = select(Refusal).where(Refusal.worker_id == worker_id, among(session, Refusal.lease_id, lease_ids))
    return {row.digest: Verdict(_REFUSED[row.status], row.match_id, row.detail) for row in session.scalars(query)}


def _stored_matches(session: Session, results: Collection[wire.Result]) -> dict[Key, StoredMatch]:
    """Return the stored matches under the results' keys.

    Leases and sequences are separate conditions, so the mapping may contain other keys of the same leases.
    """
    if not results:
        return {}
    columns = Match.lease_id, Match.sequence, Match.id, Match.payload_hash, Match.late
    leases = {result.lease_id for result in results}
    sequences = {result.sequence for result in results if 0 <= result.sequence < validation.INTEGER_LIMIT}
    query = select(*columns).where(among(session, Match.lease_id, leases), among(session, Match.sequence, sequences))
    rows = session.execute(query)
    return {
        (lease_id, sequence): StoredMatch(match_id, payload, late)
        for lease_id, sequence, match_id, payload, late in rows
    }


def _compare(session: Session, results: ValidResults, reasons: Mapping[int, str]) -> dict[int, Verdict]:
    """Compare results with the stored matches; a result without a stored match is rejected for its reason."""
    stored = _stored_matches(session, results.values())
    verdicts = {}
    for index, result in results.items():
        known = stored.get(_key(result))
        verdicts[index] = Verdict("rejected", None, reasons[index]) if known is None else _compare_one(result, known)
    return verdicts


# --- writes ----------------------------------------------------------------------------------------------------------


def _accept(database: Database, rows: Mapping[int, Row], results: ValidResults) -> dict[Key, Verdict]:
    """Insert new matches in the order of their keys; return verdicts for the rows that this call inserted.

    Without behaviour data, matches of one environment share one statement with concurrent batches.
    """
    environments = tuple(sorted({row["environment"] for row in rows.values()}))
    if any(result.behaviour is not None for result in results.values()):

        def store(session: Session) -> dict[Key, Verdict]:
            for environment in environments:
                # Closing a period takes INTAKE exclusively to read a watermark below which every match id is
                # committed.
                locks.acquire_shared(session, Lock.INTAKE, environment)
            accepted = _insert(session, list(rows.values()))
            _store_behaviours(session, results, accepted)
            return accepted

        # Batches share a transaction only if they take the same locks in the same order; `environments` is sorted.
        return database.group_commit(one_by_one, store, kind=("results", environments))
    accepted: dict[Key, Verdict] = {}
    for environment in environments:
        own = [row for row in rows.values() if row["environment"] == environment]
        # One environment per call: the statement itself acquires the shared INTAKE lock of that environment.
        accepted |= database.group_commit(_insert_batches, own, kind=environment, briefly=True)
    return accepted


def _insert_batches(session: Session, batches: Sequence[Sequence[Row]]) -> list[dict[Key, Verdict]]:
    """Insert the matches of several batches of one environment; the first batch with a key inserts it."""
    first: dict[Key, tuple[int, Row]] = {}
    for number, rows in enumerate(batches):
        for row in rows:
            first.setdefault((row["lease_id"], row["sequence"]), (number, row))
    accepted: list[dict[Key, Verdict]] = [{} for _ in batches]
    under = Lock.INTAKE, batches[0][0]["environment"]
    for key, verdict in _insert(session, [first[key][1] for key in sorted(first)], under).items():
        accepted[first[key][0]][key] = verdict
    return accepted


def _insert(session: Session, rows: Sequence[Row], under: tuple[Lock, str] | None = None) -> dict[Key, Verdict]:
    """Insert the rows whose key is new; rows are in the order of keys, so concurrent batches cannot deadlock."""
    inserted = insert_new(session, Match, rows, (Match.lease_id, Match.sequence, Match.id, Match.late), under)
    return {
        (lease_id, sequence): Verdict("accepted", match_id, _lateness(late))
        for lease_id, sequence, match_id, late in inserted
    }


def _refuse(
    session: Session,
    reporter: Reporter,
    results: Sequence[wire.Result | wire.UnreadableResult],
    known: Mapping[int, Verdict],
    now: datetime,
) -> dict[int, Verdict]:
    """Compare results that lost the race for their key with the stored ones and store refusals; return all verdicts."""
    pending = {
        index: each for index, each in enumerate(results) if index not in known and isinstance(each, wire.Result)
    }
    verdicts = {**known, **_compare(session, pending, {})}
    _store_refusals(session, reporter.worker_id, results, verdicts, now)
    return verdicts


def _store_behaviours(session: Session, results: ValidResults, accepted: Mapping[Key, Verdict]) -> None:
    """Store the reported behaviour measures of new matches."""
    reported = {
        verdict.match_id: result.behaviour
        for result in results.values()
        if result.behaviour is not None
        and (verdict := accepted.get(_key(result))) is not None
        and verdict.match_id is not None
    }
    if reported:
        behaviours.store_behaviours(session, reported)


def _row(result: wire.Result, lease: LeaseRecord, now: datetime) -> Row:
    return {
        "lease_id": lease.lease_id,
        "sequence": result.sequence,
        "kind": lease.kind,
        "environment": lease.environment,
        "home_id": lease.home_id,
        "away_id": lease.away_id,
        "score": result.score,
        "decisions": result.decisions,
        "reason": result.reason,
        "seed": result.seed,
        "learner_step": result.learner_step,
        "late": now > lease.expires_at,
        "payload_hash": _payload_hash(result),
        "worker_id": lease.worker_id,
        # The clock of the server may have been set back since the lease was granted.
        "reported_at": max(now, lease.granted_at),
    }


def _store_refusals(
    session: Session,
    worker_id: str,
    results: Sequence[wire.Result | wire.UnreadableResult],
    verdicts: Mapping[int, Verdict],
    now: datetime,
) -> None:
    """Store refused results with the answer that the worker received."""
    refused = {
        _digest(results[index]): (results[index].lease_id, verdict)
        for index, verdict in verdicts.items()
        if verdict.status in _REFUSED
    }
    rows = [
        {
            "worker_id": worker_id,
            "digest": digest,
            # The digest alone recognises a report whose lease id the column cannot store.
            "lease_id": lease_id if wire.storable_lease_id(lease_id) else "",
            "status": verdict.status,
            "match_id": verdict.match_id,
            "detail": verdict.detail,
            "refused_at": now,
        }
        for digest, (lease_id, verdict) in sorted(refused.items())
    ]
    insert_new(session, Refusal, rows)


# --- one result ------------------------------------------------------------------------------------------------------


def _compare_one(result: wire.Result, stored: StoredMatch) -> Verdict:
    if stored.payload_hash == _payload_hash(result):
        return Verdict("duplicate", stored.match_id, _lateness(stored.late))
    rule = f"was already reported with other values as match {stored.match_id}, which stays"
    return Verdict("conflict", stored.match_id, f"conflict: sequence {result.sequence} of the lease {rule}")


def _lateness(late: bool) -> str | None:
    return "late: within the grace period after the lease expired" if late else None


def _answer(result: wire.Result | wire.UnreadableResult, verdict: Verdict) -> wire.ResultAnswer:
    return wire.ResultAnswer(
        lease_id=result.lease_id,
        sequence=result.sequence,
        status=verdict.status,
        match_id=verdict.match_id,
        detail=verdict.detail,
    )


def _key(result: wire.Result) -> Key:
    return result.lease_id, result.sequence


def _payload_hash(result: wire.Result) -> bytes:
    behaviour = None if result.behaviour is None else behaviours.pack(result.behaviour)
    return payload_hash(result.score, result.decisions, result.reason, result.seed, result.learner_step, behaviour)


def payload_hash(
    score: float, decisions: int, reason: str, seed: int, learner_step: int | None, behaviour: Packed | None
) -> bytes:
    """Hash the reported content of a match: an equal hash makes a repeated report a duplicate, another a conflict."""
    played = () if behaviour is None else (behaviour.measure_set_id, behaviour.home, behaviour.away)
    # Adding 0.0 turns -0.0 into 0.0, which compare equal but have different representations.
    return _hash(score + 0.0, decisions, reason, seed, learner_step, *played)


def _digest(result: wire.Result | wire.UnreadableResult) -> bytes:
    """Hash a report, valid or not, to recognise it when it is sent again."""
    if isinstance(result, wire.UnreadableResult):
        return _hash(result.content)
    return _hash(result.lease_id, result.sequence, _payload_hash(result))


def _hash(*parts: object) -> bytes:
    return hashlib.blake2b(repr(parts).encode(), digest_size=_HASH_BYTES).digest()
