"""Garbage collection of unreferenced checkpoints and recordings.

A checkpoint is needed as long as a player references it, in any standing, because a retired player can be reinstated.
Leases, matches and learners reference players, so only players are checked. An unreferenced checkpoint is an
unpublished upload, which is deleted only after some time because its worker may still publish it.

A recording without a row was uploaded by a server that was killed before its commit, or its environment was deleted. A
young one is kept, because its row may be about to be committed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Player, Replay
from league.errors import UnknownCheckpointError
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.checkpoints import quotas
from league.storage.base import CheckpointStore, Leftover, Stored
from league.storage.recordings import StoredRecording

Unused = Stored | Leftover | StoredRecording
"""Object of a store that the league does not use."""

NOTED_AT_ONCE = 100
"""Number of deleted objects per audit entry."""

STAYED = "not deleted: it was published or uploaded again, or the command was interrupted"
"""Reason of an entry that corrects the previous one."""


@dataclass(frozen=True)
class Survey:
    """Comparison of a store with the checkpoints of players and the recordings of matches.

    Attributes:
        needed: Checkpoints of players.
        unpublished: Unreferenced checkpoints that are old enough to delete.
        leftovers: Leftovers that are old enough to delete.
        recordings: Recordings without a row that are old enough to delete.
        missing: SHA-256 of players' checkpoints that are not in the store.
    """

    needed: list[Stored]
    unpublished: list[Stored]
    leftovers: list[Leftover]
    recordings: list[StoredRecording]
    missing: list[str]

    @property
    def deletable(self) -> list[Unused]:
        """All objects that can be deleted."""
        return [*self.unpublished, *self.leftovers, *self.recordings]


def survey(database: Database, store: CheckpointStore, before: datetime) -> Survey:
    """Compare the store with the database, ignoring objects modified at `before` or later."""
    # Read before the rows, so that objects published concurrently count as needed.
    stored, recordings = list(store.listing()), list(store.recordings.listing())
    with database.read() as session:
        query = select(Player.checkpoint).where(Player.kind == "snapshot").distinct()
        wanted = {checkpoint for checkpoint in session.scalars(query) if checkpoint is not None}
        recorded = set(session.scalars(select(Replay.key)))
    return Survey(
        needed=[one for one in stored if one.sha256 in wanted],
        unpublished=[one for one in stored if one.sha256 not in wanted and one.stored_at < before],
        leftovers=list(store.leftovers(before)),
        recordings=[one for one in recordings if one.key not in recorded and one.stored_at < before],
        missing=sorted(wanted - {one.sha256 for one in stored}),
    )


def collect(
    database: Database, store: CheckpointStore, found: Survey, before: datetime, *, actor: str, now: datetime
) -> Iterator[Unused]:
    """Delete the objects of a survey and yield the deleted ones; those published or modified since then stay.

    The audit log lists objects before their deletion, in batches, because the process may be killed. Objects that were
    not deleted after all get a correcting entry. Deleted objects no longer count towards quotas.
    """
    going = found.deletable
    for start in range(0, len(going), NOTED_AT_ONCE):
        left = going[start : start + NOTED_AT_ONCE]
        _note(database, left, actor, now, "")
        try:
            # A copy, because deleted objects leave the list: what remains in it gets the correcting entry.
            for one in tuple(left):
                if _delete(database, store, one, before):
                    left.remove(one)
                    yield one
        finally:
            if left:
                _note(database, left, actor, now, STAYED)
    known = {one.sha256 for one in (*found.needed, *found.unpublished)}
    with database.read() as session:
        # Rows whose bytes vanished from the store by other means would count towards quotas forever.
        doubtful = quotas.arrived(session, before) - known
    for sha256 in sorted(doubtful):
        _forget_lost(database, store, sha256, before)


def _note(database: Database, some: Sequence[Unused], actor: str, now: datetime, reason: str) -> None:
    hashes = [one.sha256 for one in some if isinstance(one, Stored)]
    details = {"objects": len(some), "bytes": sum(one.size_bytes for one in some), "checkpoints": hashes}
    with database.write() as session:
        audit_log.record(session, "gc", Cause(actor, reason, now), details=details)


def damaged(store: CheckpointStore, found: Survey, *, move_aside: bool) -> Iterator[Stored]:
    """Read all checkpoints of players and yield the damaged ones."""
    is_fine = store.sound if move_aside else store.is_intact
    return (stored for stored in found.needed if not is_fine(stored.sha256))


def _delete(database: Database, store: CheckpointStore, one: Unused, before: datetime) -> bool:
    if isinstance(one, Stored):
        return _remove(database, store, one.sha256, before)
    if isinstance(one, StoredRecording):
        return store.recordings.remove(one.key, before)
    store.discard(one)
    return True


def _remove(database: Database, store: CheckpointStore, sha256: str, before: datetime) -> bool:
    """Delete a checkpoint unless a player references it, under a lock against concurrent publishing."""
    with database.write() as session:
        # Publishing holds it shared, so no player can refer to the checkpoint between this check and the deletion.
        locks.acquire(session, Lock.COLLECTION)
        if session.scalar(select(Player.id).where(Player.checkpoint == sha256).limit(1)) is not None:
            return False
        removed = store.remove(sha256, before)
        if removed:
            quotas.forget(session, sha256)
        return removed


def _forget_lost(database: Database, store: CheckpointStore, sha256: str, before: datetime) -> None:
    try:
        store.find(sha256)
    except UnknownCheckpointError:
        with database.write() as session:
            quotas.forget(session, sha256, before)
