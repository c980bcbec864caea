"""Garbage collection of checkpoints that nothing refers to.

A checkpoint is needed as long as a player has it, in whatever standing: a retired one can be reinstated and its matches
be explained. Leases, matches and learners name players, so players are all that is looked at. What no player has is an
upload that was never published; it is kept while it is young, because its sender may be about to publish it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Player
from league.errors import UnknownCheckpointError
from league.services.audit import log as audit_log
from league.services.checkpoints import quotas
from league.storage.base import CheckpointStore, Leftover, Stored

NOTED_AT_ONCE = 100
"""Of what is deleted, so many are one line of the audit log."""

STAYED = "not deleted: published or sent again meanwhile, or the command was interrupted"
"""The reason of a line about what the one before it said was going."""


@dataclass(frozen=True)
class Survey:
    """What a store holds, against what players need.

    Attributes:
        needed: Checkpoints that players have.
        unpublished: Checkpoints that no player has, old enough to be deleted.
        leftovers: What is no checkpoint, old enough to be deleted.
        missing: SHA-256 of what players have and the store does not.
    """

    needed: list[Stored]
    unpublished: list[Stored]
    leftovers: list[Leftover]
    missing: list[str]

    @property
    def deletable(self) -> list[Stored | Leftover]:
        """All that can go."""
        return [*self.unpublished, *self.leftovers]


def survey(database: Database, store: CheckpointStore, before: datetime) -> Survey:
    """Compare the store with the players; what was touched at `before` or later is left alone."""
    stored = list(store.listing())  # before the players: what is published meanwhile then counts as needed
    with database.read() as session:
        query = select(Player.checkpoint).where(Player.kind == "snapshot").distinct()
        wanted = {checkpoint for checkpoint in session.scalars(query) if checkpoint is not None}
    return Survey(
        needed=[one for one in stored if one.sha256 in wanted],
        unpublished=[one for one in stored if one.sha256 not in wanted and one.stored_at < before],
        leftovers=list(store.leftovers(before)),
        missing=sorted(wanted - {one.sha256 for one in stored}),
    )


def collect(
    database: Database, store: CheckpointStore, found: Survey, before: datetime, *, actor: str, now: datetime
) -> Iterator[Stored | Leftover]:
    """Delete what a survey found, and say what is gone; what was published or touched since then stays.

    The audit log names things before they go, hundred by hundred: a collector may be killed. What stays after all gets
    a line, too. Tokens no longer pay for what is not there, such as what a killed collector deleted.
    """
    going = found.deletable
    for start in range(0, len(going), NOTED_AT_ONCE):
        left = going[start : start + NOTED_AT_ONCE]
        _note(database, left, actor, now, "")
        try:
            for one in tuple(left):
                if _delete(database, store, one, before):
                    left.remove(one)
                    yield one
        finally:
            if left:
                _note(database, left, actor, now, STAYED)
    known = {one.sha256 for one in (*found.needed, *found.unpublished)}
    with database.read() as session:
        doubtful = quotas.arrived(session, before) - known
    for sha256 in sorted(doubtful):
        _forget_lost(database, store, sha256, before)


def _note(database: Database, some: Sequence[Stored | Leftover], actor: str, now: datetime, reason: str) -> None:
    hashes = [one.sha256 for one in some if isinstance(one, Stored)]
    details = {"objects": len(some), "bytes": sum(one.size_bytes for one in some), "checkpoints": hashes}
    with database.write() as session:
        audit_log.record(
            session, "gc", environment=None, player_id=None, actor=actor, reason=reason, details=details, now=now
        )


def damaged(store: CheckpointStore, found: Survey, *, set_aside: bool) -> Iterator[Stored]:
    """Read every checkpoint that players need, and name those whose bytes are not their own any more."""
    is_fine = store.sound if set_aside else store.intact
    return (stored for stored in found.needed if not is_fine(stored.sha256))


def _delete(database: Database, store: CheckpointStore, one: Stored | Leftover, before: datetime) -> bool:
    if isinstance(one, Stored):
        return _remove(database, store, one.sha256, before)
    store.discard(one)
    return True


def _remove(database: Database, store: CheckpointStore, sha256: str, before: datetime) -> bool:
    """Delete a checkpoint unless it has a player by now; nobody publishes while that is decided."""
    with database.write() as session:
        locks.acquire(session, Lock.COLLECTION)
        if session.scalar(select(Player.id).where(Player.checkpoint == sha256).limit(1)) is not None:
            return False
        gone = store.remove(sha256, before)
        if gone:
            quotas.forget(session, sha256)
        return gone


def _forget_lost(database: Database, store: CheckpointStore, sha256: str, before: datetime) -> None:
    try:
        store.find(sha256)
    except UnknownCheckpointError:
        with database.write() as session:
            quotas.forget(session, sha256, before)
