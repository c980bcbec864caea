"""Quotas of worker tokens: bytes on their way into the store, and bytes stored.

An upload is counted before its first byte. One that nobody finishes within the time that an address of the store lasts
counts no more, unless its bytes arrive after all. Admins, and everybody while the league is open, are not bounded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from league.auth import Principal
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Upload
from league.errors import QuotaExceededError, UnfinishedUploadsError
from league.services.auth import ownership
from league.settings import Settings
from league.storage.base import CheckpointStore
from league.storage.s3 import ADDRESS_S

ABANDONED = timedelta(seconds=ADDRESS_S)
"""An upload that was begun so long ago and did not end has probably no sender any more."""

_FORGOTTEN = timedelta(days=1)
_RETRY_S = 10
_UNFINISHED = Upload.stored_at.is_(None)


def require_room(session: Session, settings: Settings, caller: Principal, size_bytes: int, now: datetime) -> None:
    """Refuse an upload of so many bytes that a token has no room for.

    Raises:
        QuotaExceededError: It has, or would have, too much in the store.
        UnfinishedUploadsError: It has too much on the way.
    """
    if not ownership.is_restricted(caller):
        return
    own = Upload.owner == caller.name
    under_way = func.sum(Upload.size_bytes).filter(_UNFINISHED, Upload.begun_at > now - ABANDONED)
    stored = func.sum(Upload.size_bytes).filter(~_UNFINISHED)
    coming, there = (int(total or 0) for total in session.execute(select(under_way, stored).where(own)).one())
    value = f"{size_bytes:,} bytes of token {caller.name!r}"
    if size_bytes + coming + there > settings.token_stored_max_bytes:
        rule = f"it has {coming + there:,} of the {settings.token_stored_max_bytes:,} bytes that a token may store"
        way_out = "delete what no player has with `league gc`, or raise LEAGUE_TOKEN_STORED_MAX_BYTES"
        raise QuotaExceededError(value, rule, way_out)
    if size_bytes + coming > settings.token_unfinished_max_bytes:
        limit = settings.token_unfinished_max_bytes
        rule = f"{coming:,} of the {limit:,} bytes that a token may send at once are on their way"
        way_out = "finish those first, or raise LEAGUE_TOKEN_UNFINISHED_MAX_BYTES"
        error = UnfinishedUploadsError(value, rule, way_out)
        error.retry_after_s = _RETRY_S
        raise error


def announce(
    session: Session, settings: Settings, caller: Principal, sha256: str, size_bytes: int, now: datetime
) -> None:
    """Count an upload that goes past the server; announced again, it counts once.

    Raises:
        QuotaExceededError: The token has, or would have, too much in the store.
        UnfinishedUploadsError: It has too much on the way.
    """
    if ownership.is_restricted(caller):
        locks.acquire(session, Lock.UPLOADS, caller.name)
        before = Upload.owner == caller.name, Upload.sha256 == sha256, _UNFINISHED
        session.execute(delete(Upload).where(*before))
        _count(session, settings, caller, sha256, size_bytes, now)


def note_arrival(session: Session, caller: Principal, sha256: str, now: datetime) -> None:
    """Note that what a token announced, if it announced anything, is in the store."""
    if ownership.is_restricted(caller):
        announced = Upload.owner == caller.name, Upload.sha256 == sha256, _UNFINISHED
        upload_id = session.scalar(select(func.max(Upload.id)).where(*announced))
        if upload_id is not None:
            _finish(session, upload_id, now)


@contextmanager
def counted(
    database: Database,
    settings: Settings,
    store: CheckpointStore,
    caller: Principal,
    sha256: str,
    size_bytes: int,
    now: datetime,
) -> Iterator[None]:
    """Count an upload through the server, of at most so many bytes, while the block takes it in.

    Raises:
        QuotaExceededError: The token has, or would have, too much in the store.
        UnfinishedUploadsError: It has too much on the way.
    """
    if not ownership.is_restricted(caller):
        yield
        return
    with database.write() as session:
        locks.acquire(session, Lock.UPLOADS, caller.name)
        upload_id = _count(session, settings, caller, sha256, size_bytes, now)
    try:
        yield
    except Exception:  # not GeneratorExit: the garbage collector may raise that inside of another write
        with database.write() as session:
            session.execute(delete(Upload).where(Upload.id == upload_id))
        raise
    size_bytes = store.find(sha256).size_bytes
    with database.write() as session:
        session.execute(update(Upload).where(Upload.id == upload_id).values(size_bytes=size_bytes))
        _finish(session, upload_id, now)


def forget(session: Session, sha256: str, before: datetime | None = None) -> None:
    """Count bytes no more that were deleted from the store: all, or those that came before a time."""
    earlier = ~_UNFINISHED if before is None else Upload.stored_at < before
    session.execute(delete(Upload).where(Upload.sha256 == sha256, earlier))


def arrived(session: Session, before: datetime) -> set[str]:
    """Return the SHA-256 of what tokens stored before a time and pay for."""
    return set(session.scalars(select(Upload.sha256).where(Upload.stored_at < before).distinct()))


def _count(session: Session, settings: Settings, caller: Principal, sha256: str, size_bytes: int, now: datetime) -> int:
    own = Upload.owner == caller.name, _UNFINISHED
    session.execute(delete(Upload).where(*own, Upload.begun_at <= now - _FORGOTTEN))
    require_room(session, settings, caller, size_bytes, now)
    upload = Upload(owner=caller.name, sha256=sha256, size_bytes=size_bytes, begun_at=now, stored_at=None)
    session.add(upload)
    session.flush()
    return upload.id


def _finish(session: Session, upload_id: int, now: datetime) -> None:
    """Note an arrival; what the same token sent before under the same name is the same bytes."""
    noted = update(Upload).where(Upload.id == upload_id).values(stored_at=now)
    row = session.execute(noted.returning(Upload.owner, Upload.sha256)).one_or_none()
    if row is not None:
        same = Upload.owner == row.owner, Upload.sha256 == row.sha256, ~_UNFINISHED, Upload.id != upload_id
        session.execute(delete(Upload).where(*same))
