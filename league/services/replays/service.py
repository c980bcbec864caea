"""Recordings of matches: stored, read, and deleted by age, number and size.

The bytes are in the checkpoint store. They are durable before their row is committed, and deleted after the deletion of
their row is committed. A crash in between leaves bytes without a row, which `league admin gc` deletes.
"""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session, aliased

from arena.replay import Header, RecordingError, unpack_recording
from arena.replay.columns import to_name
from league import wire
from league.auth import Principal
from league.db.bulk_insert import among, insert_new
from league.db.engine import Database
from league.db.models import Match, Player, Replay
from league.errors import (
    RefusedReplayError,
    ReplayConflictError,
    StoreUnavailableError,
    TooLargeError,
    UnknownMatchError,
    UnknownReplayError,
)
from league.services.auth import ownership
from league.services.lifecycle import champions
from league.settings import ReplayConfig
from league.storage.recordings import RecordingStore, new_key

RETAINED_SHARE = 0.99
"""If recordings exceed a limit, they are deleted down to this share of it, so that the next uploads need no search.

A search of 20,000 rows takes 30 ms of CPU, and a deleted file 1 to 4 ms, so few are deleted at a time.
"""

PRUNED_AT_ONCE = 100
"""Recordings deleted per transaction."""

UNPACKED = 16
"""Maximum decompressed size relative to the file limit; for recordings of mechs the ratio is about eleven."""

_HOME, _AWAY = aliased(Player), aliased(Player)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplayFile:
    """Location of a recording's bytes, with their size and hash."""

    match_id: int
    key: str
    sha256: str
    size_bytes: int

    def read(self, store: RecordingStore) -> bytes | None:
        """Return the bytes, or None if they are missing or damaged."""
        data = store.get(self.key)
        intact = data is not None and len(data) == self.size_bytes and hashlib.sha256(data).hexdigest() == self.sha256
        return data if intact else None


@dataclass(frozen=True)
class StoredReplay:
    """Size and notability of a recording, for retention."""

    match_id: int
    size_bytes: int
    notable: bool


@dataclass(frozen=True)
class Usage:
    """Number and total size of recordings."""

    count: int
    size_bytes: int


def require_size(config: ReplayConfig, size_bytes: int) -> None:
    """Reject a recording that is too large.

    Raises:
        TooLargeError: The recording exceeds the limit.
    """
    if size_bytes > config.upload_max_bytes:
        rule = f"a recording has at most {config.upload_max_bytes:,} bytes"
        raise TooLargeError(
            f"{size_bytes:,} bytes", rule, "raise LEAGUE_REPLAYS__UPLOAD_MAX_BYTES, or do not record it"
        )


def read_header(config: ReplayConfig, match_id: int, data: bytes) -> Header:
    """Return the header of a recording after validating it against the format of docs/reference/formats.md.

    Raises:
        RefusedReplayError: The recording is invalid.
    """
    try:
        return unpack_recording(data, "what was sent", UNPACKED * config.upload_max_bytes).header
    except RecordingError as error:
        raise RefusedReplayError(
            _of(match_id), str(error), "send a file that a worker of this version has written"
        ) from error


@dataclass(frozen=True)
class ReplayService:
    """Stores and deletes recordings.

    Attributes:
        database: Database of the league.
        store: Bytes of recordings.
        config: Limits of recordings.
    """

    database: Database
    store: RecordingStore
    config: ReplayConfig

    def upload(self, caller: Principal, match_id: int, data: bytes, now: datetime) -> wire.Replay:
        """Store the recording of a match and delete others above the limits; idempotent.

        Args:
            caller: Owner of the worker that played the match, or an admin.
            match_id: The match.
            data: The file of the recording.
            now: The time.

        Raises:
            UnknownMatchError: The match does not exist.
            ForbiddenError: Another token's worker played it.
            RefusedReplayError: The recording is invalid, or shows another match.
            ReplayConflictError: The match has another recording.
        """
        header = read_header(self.config, match_id, data)
        replay = wire.Replay(match_id=match_id, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        with self.database.read() as session:
            match, home, away = _match(session, match_id)
            ownership.require_worker(session, caller, match.worker_id)
            _require_same(match, home, away, header)
            known = _stored_sha256(session, match_id)
        if known is None:
            known = self._store(replay, data, now)
        if known != replay.sha256:
            rule = f"the match already has the recording {known}"
            raise ReplayConflictError(f"{replay.sha256} {_of(match_id)}", rule, "drop it")
        return replay

    def prune(self, now: datetime) -> Iterator[int]:
        """Delete recordings that are too old.

        Yields:
            Number of deleted recordings per transaction, so that the caller can pause or stop in between.
        """
        with self.database.read() as session:
            # Ids first, then small transactions: SQLite's only writer must not be blocked for long.
            too_old = Replay.stored_at < now - timedelta(days=self.config.keep_days)
            old = session.scalars(select(Replay.match_id).where(too_old).order_by(Replay.match_id)).all()
        for first in range(0, len(old), PRUNED_AT_ONCE):
            with self.database.write() as session:
                dropped = _drop(session, old[first : first + PRUNED_AT_ONCE])
            self._delete_bytes(dropped)
            yield len(dropped)

    def _store(self, replay: wire.Replay, data: bytes, now: datetime) -> str:
        """Store bytes and their row; return the hash of the match's recording, which may be that of another upload.

        If the transaction fails, the bytes stay: its commit may have succeeded nevertheless.
        """
        # Bytes before the row: a crash in between leaves bytes without a row, which garbage collection finds.
        key = new_key(replay.match_id)
        self.store.put(key, data)
        with self.database.write() as session:
            match, _, _ = _match(session, replay.match_id)
            row = {**replay.model_dump(), "key": key, "notable": _notable(session, match), "stored_at": now}
            # ON CONFLICT DO NOTHING: of two concurrent uploads one inserts, and the other compares hashes.
            if insert_new(session, Replay, [row], returning=(Replay.match_id,)):
                known, dropped = replay.sha256, _drop(session, _surplus(session, self.config))
            else:
                known, dropped = _stored_sha256(session, replay.match_id) or replay.sha256, [key]
        self._delete_bytes(dropped)
        return known

    def _delete_bytes(self, keys: Sequence[str]) -> None:
        """Delete the bytes of deleted rows."""
        try:
            self.store.delete(*keys)
        except StoreUnavailableError as error:
            log.warning("%d deleted recordings stay in the store until `league admin gc`: %s", len(keys), error)


def find(session: Session, match_id: int) -> ReplayFile:
    """Return the location of a match's recording.

    Raises:
        UnknownMatchError: The match does not exist.
        UnknownReplayError: The match has no recording.
    """
    row = session.execute(_files().where(Replay.match_id == match_id)).one_or_none()
    if row is None:
        _match(session, match_id)
        rule = "workers record only some matches, and the number of stored recordings is limited"
        raise UnknownReplayError(match_id, rule, "play the pairing again with `arena match --record`")
    return ReplayFile(*row)


def read(store: RecordingStore, file: ReplayFile) -> bytes:
    """Return the bytes of a recording.

    Raises:
        UnknownReplayError: They are missing or damaged.
    """
    data = file.read(store)
    if data is None:
        raise UnknownReplayError(
            file.match_id, f"its bytes {file.key} are missing in the store, or damaged", "restore them from a backup"
        )
    return data


def find_damaged(database: Database, store: RecordingStore) -> Iterator[ReplayFile]:
    """Read all recordings and yield those whose bytes are missing or damaged."""
    with database.read() as session:
        files = [ReplayFile(*row) for row in session.execute(_files().order_by(Replay.match_id))]
    for file in files:
        # Read again after a miss: retention may have deleted the recording since the list was read.
        if file.read(store) is None and exists(database, file):
            yield file


def exists(database: Database, file: ReplayFile) -> bool:
    """Return True unless retention has deleted the recording meanwhile."""
    with database.read() as session:
        own = Replay.match_id == file.match_id, Replay.key == file.key
        return session.scalar(select(Replay.match_id).where(*own)) is not None


def usage(session: Session) -> Usage:
    """Return the number and total size of recordings."""
    count, size_bytes = session.execute(select(func.count(), func.sum(Replay.size_bytes)).select_from(Replay)).one()
    return Usage(count, int(size_bytes or 0))


def surplus(stored: Sequence[StoredReplay], config: ReplayConfig) -> list[int]:
    """Return the matches whose recordings exceed the limits.

    The oldest are deleted first. Notable ones are deleted last, as long as they take at most half of the limits.

    Args:
        stored: All recordings, oldest first.
        config: Limits of recordings.

    Returns:
        Ids of their matches.
    """
    most = Usage(ceil(RETAINED_SHARE * config.keep_max), ceil(RETAINED_SHARE * config.keep_max_bytes))
    # Notable recordings take at most half, or old gates would crowd out all recent matches.
    half = Usage(ceil(most.count / 2), ceil(most.size_bytes / 2))
    notable, rest = ([each for each in stored if each.notable is which] for which in (True, False))
    dropped = _oldest_beyond(notable, half)
    notable = notable[len(dropped) :]
    taken = _sum(notable)
    room = Usage(most.count - taken.count, most.size_bytes - taken.size_bytes)
    return [each.match_id for each in (*dropped, *_oldest_beyond(rest, room))]


def _oldest_beyond(stored: Sequence[StoredReplay], room: Usage) -> list[StoredReplay]:
    """Return the oldest recordings whose deletion makes the others fit."""
    taken, deleted = _sum(stored), 0
    count, size_bytes = taken.count, taken.size_bytes
    while count > room.count or (count and size_bytes > room.size_bytes):
        count, size_bytes = count - 1, size_bytes - stored[deleted].size_bytes
        deleted += 1
    return list(stored[:deleted])


def _sum(stored: Iterable[StoredReplay]) -> Usage:
    sizes = [each.size_bytes for each in stored]
    return Usage(len(sizes), sum(sizes))


def _surplus(session: Session, config: ReplayConfig) -> list[int]:
    """Return the matches whose recordings exceed the limits."""
    used = usage(session)
    # The usual end: two sums instead of a row of each recording.
    if used.count <= config.keep_max and used.size_bytes <= config.keep_max_bytes:
        return []
    columns = Replay.match_id, Replay.size_bytes, Replay.notable
    stored = session.execute(select(*columns).order_by(Replay.match_id))
    return surplus([StoredReplay(*row) for row in stored], config)


def _drop(session: Session, match_ids: Sequence[int]) -> list[str]:
    """Delete the rows of recordings; return the keys of their bytes."""
    rows = delete(Replay).where(among(session, Replay.match_id, match_ids)).returning(Replay.key)
    return list(session.scalars(rows)) if match_ids else []


def _files() -> Select[int, str, str, int]:
    return select(Replay.match_id, Replay.key, Replay.sha256, Replay.size_bytes)


def _stored_sha256(session: Session, match_id: int) -> str | None:
    return session.scalar(select(Replay.sha256).where(Replay.match_id == match_id))


def _match(session: Session, match_id: int) -> tuple[Match, Player, Player]:
    query = select(Match, _HOME, _AWAY).join(_HOME, _HOME.id == Match.home_id).join(_AWAY, _AWAY.id == Match.away_id)
    row = session.execute(query.where(Match.id == match_id)).one_or_none()
    if row is None:
        raise UnknownMatchError(match_id, "no match has this id", "see a player's with GET /players/{id}/matches")
    match, home, away = row
    return match, home, away


def _require_same(match: Match, home: Player, away: Player, header: Header) -> None:
    """Reject a recording of another match."""
    outcome = header.outcome
    fields = {
        "environment": (header.environment, match.environment),
        "signature": (header.signature, home.signature),
        "home": (header.players[0], to_name(home.name)),
        "away": (header.players[1], to_name(away.name)),
        "seed": (header.seed, match.seed),
        "score": (outcome.score, match.score),
        "reason": (outcome.reason, match.reason),
        "decisions": (outcome.decisions, match.decisions),
    }
    for name, (recorded, reported) in fields.items():
        if recorded != reported:
            rule = f"its {name} is {recorded!r:.100}, but the match has {reported!r:.100}"
            raise RefusedReplayError(_of(match.id), rule, "send the recording of this match")


def _notable(session: Session, match: Match) -> bool:
    """Return True if a match was played for a gate or by the champion, so its recording is stored longest."""
    if match.kind == "gate":
        return True
    champion = champions.champion_id(session, match.environment)
    return champion is not None and champion in (match.home_id, match.away_id)


def _of(match_id: int) -> str:
    return f"of match {match_id}"
