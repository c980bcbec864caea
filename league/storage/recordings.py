"""Bytes of recorded matches, beside the checkpoints: `FOLDER/replays/KEY` or `PREFIX/replays/KEY`.

A key is written once: each upload gets a new one. So bytes without a row can be deleted without a lock, because no
later upload refers to them.
"""

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from arena.atomic_files import sync_folder, write_atomically
from league.storage.refusals import folder_access
from league.storage.s3_client import Bucket, NoSuchObjectError

FOLDER = "replays"

_TOKEN_BYTES = 8
_KEY = re.compile(r"\.?[0-9A-Za-z][0-9A-Za-z._-]*")
"""Keys, and the names of files that are being written; none leaves the folder."""


@dataclass(frozen=True)
class StoredRecording:
    """Stored bytes, or a file that a killed server left half written."""

    key: str
    size_bytes: int
    stored_at: datetime


class RecordingStore(Protocol):
    """Contract of the stores of recordings, tested by `tests/league/storage/test_recordings.py`.

    Every call raises `StoreUnavailableError` if the store does not respond or cannot be written.
    """

    def put(self, key: str, content: bytes) -> None:
        """Write bytes durably, replacing those of the same key."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes, or None if the store does not have them."""

    def delete(self, *keys: str) -> None:
        """Delete bytes; missing ones are ignored."""

    def remove(self, key: str, before: datetime) -> bool:
        """Delete bytes unless they are newer than `before`; return True if they no longer exist."""

    def listing(self) -> Iterator[StoredRecording]:
        """Yield all stored bytes in arbitrary order."""


def new_key(match_id: int) -> str:
    """Return a key for an upload of a match's recording."""
    return f"{match_id}-{secrets.token_hex(_TOKEN_BYTES)}.json.gz"


class RecordingFolder:
    """Recordings in a folder.

    Args:
        folder: The folder; created by the first recording.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, content: bytes) -> None:
        """Write bytes durably, replacing those of the same key."""
        with folder_access(self._folder, "written"):
            if not self._folder.is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                # The entry of a new folder is durable only after its parent was synced.
                sync_folder(self._folder.parent)
            write_atomically(self._path(key), content)

    def get(self, key: str) -> bytes | None:
        """Return the bytes, or None if the store does not have them."""
        with folder_access(self._folder, "read"):
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                return None

    def delete(self, *keys: str) -> None:
        """Delete bytes; missing ones are ignored."""
        with folder_access(self._folder, "written"):
            for key in keys:
                self._path(key).unlink(missing_ok=True)

    def remove(self, key: str, before: datetime) -> bool:
        """Delete bytes unless they are newer."""
        with folder_access(self._folder, "written"):
            try:
                if _modified(self._path(key).stat()) >= before:
                    return False
            except FileNotFoundError:
                return True
        self.delete(key)
        return True

    def listing(self) -> Iterator[StoredRecording]:
        """Yield all stored bytes and half-written files."""
        with folder_access(self._folder, "read"):
            paths = list(self._folder.iterdir()) if self._folder.is_dir() else []
        for path in paths:
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue  # written or deleted concurrently
            if is_key(path.name):
                yield StoredRecording(path.name, stat.st_size, _modified(stat))

    def _path(self, key: str) -> Path:
        return self._folder / _valid(key)


class RecordingBucket:
    """Recordings in a bucket.

    Args:
        bucket: The bucket.
    """

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._prefix = f"{bucket.address.prefix}{FOLDER}/"

    def put(self, key: str, content: bytes) -> None:
        """Write bytes durably, replacing those of the same key."""
        self._bucket.put(self._prefix + _valid(key), content)

    def get(self, key: str) -> bytes | None:
        """Return the bytes, or None if the store does not have them."""
        try:
            with self._bucket.open(self._prefix + _valid(key)) as stream:
                return stream.read()
        except NoSuchObjectError:
            return None

    def delete(self, *keys: str) -> None:
        """Delete bytes; missing ones are ignored."""
        self._bucket.delete(*(self._prefix + _valid(key) for key in keys))

    def remove(self, key: str, before: datetime) -> bool:
        """Delete bytes unless they are newer."""
        try:
            if self._bucket.find(self._prefix + _valid(key)).touched_at >= before:
                return False
        except NoSuchObjectError:
            return True
        self.delete(key)
        return True

    def listing(self) -> Iterator[StoredRecording]:
        """Yield all stored bytes."""
        for entry in self._bucket.entries(self._prefix):
            key = entry.key.removeprefix(self._prefix)
            if is_key(key):
                yield StoredRecording(key, entry.size_bytes, entry.touched_at)


def is_key(name: str) -> bool:
    """Return True for a valid key: one that does not leave the folder, as one of a forged archive could."""
    return _KEY.fullmatch(name) is not None


def _modified(stat: os.stat_result) -> datetime:
    return datetime.fromtimestamp(stat.st_mtime, UTC)


def _valid(key: str) -> str:
    if not is_key(key):
        raise ValueError(f"{key!r:.100} is not the key of a recording")
    return key
