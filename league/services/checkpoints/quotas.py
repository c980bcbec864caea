"""Quotas of worker tokens: bytes of unfinished uploads and stored bytes.

An upload counts from its start, for the token that announced it last. An unfinished one stops counting when its
presigned URL expires, unless its bytes arrive later. Admins, and all callers without authentication, have no quota.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from league.auth import Principal
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Checkpoint
from league.db.upsert import insert_into
from league.errors import QuotaExceededError, UnfinishedUploadsError
from league.services.auth import ownership
from league.settings import Settings
from league.storage.base import CheckpointStore
from league.storage.s3 import ADDRESS_S

ABANDONED = timedelta(seconds=ADDRESS_S)
"""Age after which an unfinished upload is considered abandoned."""

_FORGOTTEN = timedelta(days=1)
_RETRY_S = 10
_UNFINISHED = Checkpoint.state == "announced"


def require_room(session: Session, settings: Settings, caller: Principal, size_bytes: int, now: datetime) -> None:
    """Reject an upload that exceeds a token's quotas.

    Raises:
        QuotaExceededError: The stored bytes would exceed the quota.
        UnfinishedUploadsError: The unfinished uploads would exceed the quota.
    """
    if not ownership.is_restricted(caller):
        return
    own = Checkpoint.owner == caller.name
    under_way = func.sum(Checkpoint.size_bytes).filter(_UNFINISHED, Checkpoint.announced_at > now - ABANDONED)
    stored = func.sum(Checkpoint.size_bytes).filter(~_UNFINISHED)
    coming, there = (int(total or 0) for total in session.execute(select(under_way, stored).where(own)).one())
    value = f"{size_bytes:,} bytes of token {caller.name!r}"
    if size_bytes + coming + there > settings.token_stored_max_bytes:
        rule = f"it has {coming + there:,} of at most {settings.token_stored_max_bytes:,} stored bytes per token"
        remedy = "delete unused checkpoints with `league admin gc`, or raise LEAGUE_TOKEN_STORED_MAX_BYTES"
        raise QuotaExceededError(value, rule, remedy)
    if size_bytes + coming > settings.token_unfinished_max_bytes:
        limit = settings.token_unfinished_max_bytes
        rule = f"its unfinished uploads have {coming:,} of at most {limit:,} bytes per token"
        remedy = "finish them first, or raise LEAGUE_TOKEN_UNFINISHED_MAX_BYTES"
        error = UnfinishedUploadsError(value, rule, remedy)
        error.retry_after_s = _RETRY_S
        raise error


@dataclass(frozen=True)
class Upload:
    """A checkpoint of at most `size_bytes` that a caller begins to send."""

    caller: Principal
    sha256: str
    size_bytes: int
    now: datetime


def announce(session: Session, settings: Settings, upload: Upload) -> None:
    """Count an upload of bytes that are not in the store yet; idempotent.

    Raises:
        QuotaExceededError: The stored bytes would exceed the quota.
        UnfinishedUploadsError: The unfinished uploads would exceed the quota.
    """
    if ownership.is_restricted(upload.caller):
        # Two concurrent uploads of a token would otherwise both see room for themselves.
        locks.acquire(session, Lock.UPLOADS, upload.caller.name)
        if (
            session.scalar(select(Checkpoint.sha256).where(Checkpoint.sha256 == upload.sha256, ~_UNFINISHED))
            is not None
        ):
            return
        own = Checkpoint.owner == upload.caller.name, _UNFINISHED
        stale = or_(Checkpoint.sha256 == upload.sha256, Checkpoint.announced_at <= upload.now - _FORGOTTEN)
        session.execute(delete(Checkpoint).where(*own, stale))
        require_room(session, settings, upload.caller, upload.size_bytes, upload.now)
    row = {"size_bytes": upload.size_bytes, "owner": ownership.owner(upload.caller), "announced_at": upload.now}
    # Stored rows are not changed: they belong to the token that uploaded the bytes first.
    statement = insert_into(session, Checkpoint).values(sha256=upload.sha256, state="announced", **row)
    session.execute(statement.on_conflict_do_update(index_elements=["sha256"], set_=row, where=_UNFINISHED))


def note_arrival(session: Session, sha256: str, now: datetime) -> None:
    """Record that announced bytes are in the store."""
    arrived = update(Checkpoint).where(Checkpoint.sha256 == sha256, _UNFINISHED)
    session.execute(arrived.values(state="stored", stored_at=now))


@contextmanager
def counted(database: Database, settings: Settings, store: CheckpointStore, upload: Upload) -> Iterator[None]:
    """Count an upload through the server while the block receives it.

    Raises:
        QuotaExceededError: The stored bytes would exceed the quota.
        UnfinishedUploadsError: The unfinished uploads would exceed the quota.
    """
    with database.write() as session:
        announce(session, settings, upload)
    try:
        yield
    except Exception:  # not GeneratorExit, which the garbage collector may raise inside another write
        with database.write() as session:
            session.execute(delete(Checkpoint).where(Checkpoint.sha256 == upload.sha256, _UNFINISHED))
        raise
    size_bytes = store.find(upload.sha256).size_bytes
    known = {"size_bytes": size_bytes, "state": "stored", "stored_at": upload.now}
    with database.write() as session:
        announced = {"owner": ownership.owner(upload.caller), "announced_at": upload.now}
        row = {"sha256": upload.sha256, **announced, **known}
        statement = insert_into(session, Checkpoint).values(row)  # another upload of the same bytes may have failed
        session.execute(statement.on_conflict_do_update(index_elements=["sha256"], set_=known, where=_UNFINISHED))


def forget(session: Session, sha256: str, before: datetime | None = None) -> None:
    """Stop counting deleted bytes: all, or those stored before a time."""
    earlier = ~_UNFINISHED if before is None else Checkpoint.stored_at < before
    session.execute(delete(Checkpoint).where(Checkpoint.sha256 == sha256, earlier))


def arrived(session: Session, before: datetime) -> set[str]:
    """Return the SHA-256 of all checkpoints with a row as stored before a time."""
    return set(session.scalars(select(Checkpoint.sha256).where(Checkpoint.stored_at < before)))
