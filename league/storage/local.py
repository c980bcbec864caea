"""Checkpoint store in a folder: `FOLDER/ab/abcdef...`; files appear only when complete and verified."""

import hashlib
import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryFile, mkstemp
from typing import IO

from arena.atomic_files import sync_folder
from league.errors import UnknownCheckpointError
from league.storage.base import Leftover, Stored
from league.storage.checkpoint_header import read_header
from league.storage.recordings import FOLDER, RecordingFolder
from league.storage.refusals import folder_access, require_hash, require_size, unknown
from league.storage.safetensors_header import Header

STALE_PART = timedelta(hours=1)
"""Part files of active uploads are written continuously, so older ones are abandoned."""

_TRUST = timedelta(hours=1)
_TRUSTED_MAX = 16_384
"""Cached verifications, about 500 bytes each; more checkpoints than a league serves in an hour."""

_BLOCK_BYTES = 2**20
_DAMAGED, _PART, _REMOVED = ".damaged", ".part", ".removed"
_NAME = re.compile(r"[0-9a-f]{64}")
_LEFTOVER_SUFFIXES = (_DAMAGED, _PART, _REMOVED)

Fingerprint = tuple[int, int, int]
"""Inode, size and modification time, which change if the file is replaced."""

log = logging.getLogger(__name__)


class Upload:
    """Upload in progress; it leaves nothing behind unless `finish` returns."""

    def __init__(self, sha256: str, path: Path, file: IO[bytes], max_bytes: int) -> None:
        self._sha256 = sha256
        self._path = path
        self._file = file
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, chunk: bytes) -> None:
        """Append bytes.

        Raises:
            TooLargeError: The checkpoint exceeds the store's limit.
        """
        self._size += len(chunk)
        require_size(self._size, self._max_bytes)
        self._hash.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Check hash and format, and make the bytes durable.

        Raises:
            HashMismatchError: The bytes do not match the hash.
            RefusedCheckpointError: The bytes are neither a safetensors file nor an ONNX model.
        """
        require_hash(self._sha256, self._hash.hexdigest(), self._size)
        self._file.flush()
        with self._path.open("rb") as stream:
            read_header(stream, self._size, self._sha256)
        os.fsync(self._file.fileno())


class DirectoryStore:
    """Content-addressed checkpoints in a folder.

    A file's bytes are hashed before they are first served, when the file changed, and once an hour. This detects disk
    corruption before a damaged policy is played, at the cost of one read per hour.

    Args:
        folder: Folder of the checkpoints; created if missing.
        max_bytes: Maximum size of a checkpoint.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.recordings = RecordingFolder(folder / FOLDER)
        self._max_bytes = max_bytes
        self._trusted: dict[str, tuple[Fingerprint, datetime]] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return str(self.folder)

    def path(self, sha256: str, now: datetime) -> Path:
        """Return the verified file of a checkpoint.

        Raises:
            UnknownCheckpointError: The store does not have it, or its bytes are damaged.
        """
        fingerprint = self._fingerprint(sha256)
        known, until = self._trusted.get(sha256, (None, now))
        if known != fingerprint or not now < until <= now + _TRUST:  # the clock may have been set back
            if not self.sound(sha256):
                raise unknown(sha256, "its stored bytes were damaged and have been moved aside")
            self._trust(sha256, fingerprint, now + _TRUST)
        return self._path(sha256)

    def require_size(self, size_bytes: int) -> None:
        """Reject an upload that is too large before any byte is sent.

        Raises:
            TooLargeError: The size exceeds the store's limit.
        """
        require_size(size_bytes, self._max_bytes)

    @contextmanager
    def receive(self, sha256: str) -> Iterator[Upload]:
        """Receive a checkpoint; it becomes visible if the block ends without an error.

        Raises:
            StoreUnavailableError: The folder cannot be written.
        """
        path = self._path(sha256)
        with folder_access(self.folder, "written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = mkstemp(dir=path.parent, prefix=".", suffix=_PART)
            part = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    upload = Upload(sha256, part, file, self._max_bytes)
                    yield upload
                    upload.finish()
                # Atomic: a reader sees no file or the complete one, and a crash leaves only the part file.
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
            sync_folder(path.parent)
            sync_folder(self.folder)

    def prepare(self) -> None:
        """Check that the folder is writable and delete abandoned uploads of killed servers."""
        self.check()
        for leftover in self.leftovers(datetime.now(UTC) - STALE_PART):
            if leftover.name.endswith(_PART):
                self.discard(leftover)

    def check(self) -> None:
        """Raise if the folder is not writable."""
        with folder_access(self.folder, "written"):
            self.folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self.folder).close()

    def find(self, sha256: str) -> Stored:
        """Return a checkpoint's metadata."""
        return _stored(self._path(sha256), self._stat(sha256))

    def header(self, sha256: str) -> Header:
        """Return a checkpoint's header."""
        with self.open(sha256) as stream:
            return read_header(stream, os.fstat(stream.fileno()).st_size, sha256)

    def touch(self, sha256: str, now: datetime) -> bool:
        """Return True if an intact checkpoint is stored, and update its modification time."""
        try:
            os.utime(self.path(sha256, now))
            _, until = self._trusted.get(sha256, (None, now))
            # utime changed the fingerprint, but not the verified bytes.
            self._trust(sha256, self._fingerprint(sha256), until)
        except (UnknownCheckpointError, FileNotFoundError):
            return False
        return True

    def is_intact(self, sha256: str) -> bool:
        """Return True if the bytes match the hash."""
        return self._hash(sha256) == sha256

    def sound(self, sha256: str) -> bool:
        """Return True if the bytes match the hash; set damaged ones aside."""
        found = self._hash(sha256)
        if found == sha256:
            return True
        log.error("checkpoint %s is damaged: its bytes hash to %s; moved to %s", sha256, found, _DAMAGED)
        with folder_access(self.folder, "written"):
            self._path(sha256).replace(self._path(sha256 + _DAMAGED))
        return False

    def has_damaged_copy(self, sha256: str) -> bool:
        """Return True if damaged bytes of this name have been set aside."""
        with folder_access(self.folder, "read"):
            return self._path(sha256 + _DAMAGED).exists()

    @contextmanager
    def open(self, sha256: str) -> Iterator[BufferedReader]:
        """Open a checkpoint's bytes for reading."""
        with self._reading(sha256):
            stream = self._path(sha256).open("rb")
        with stream:
            yield stream

    def put(self, sha256: str, stream: IO[bytes]) -> None:
        """Verify and store a checkpoint; idempotent."""
        with self.receive(sha256) as upload:
            while block := stream.read(_BLOCK_BYTES):
                upload.write(block)

    def listing(self) -> Iterator[Stored]:
        """Yield all checkpoints."""
        for path, stat in self._files():
            if _NAME.fullmatch(path.name):
                yield _stored(path, stat)

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is newer.

        The file is renamed before its age is checked. A concurrent upload either refreshes it before the rename, so it
        is moved back, or finds it missing and uploads it again.
        """
        path = self._path(sha256)
        aside = path.with_name(sha256 + _REMOVED)
        with folder_access(self.folder, "written"):
            try:
                path.replace(aside)
            except FileNotFoundError:
                return True
            # Checked after the rename: an upload between a check and the deletion would be lost.
            if _touched(aside.stat()) >= before:
                aside.replace(path)
                return False
            aside.unlink()
            sync_folder(path.parent)
        return True

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Yield part files of abandoned uploads and damaged files."""
        for path, stat in self._files():
            if path.suffix in _LEFTOVER_SUFFIXES and _touched(stat) < before:
                yield Leftover(str(path.relative_to(self.folder)), stat.st_size, _touched(stat))

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover."""
        with folder_access(self.folder, "written"):
            (self.folder / leftover.name).unlink(missing_ok=True)

    def _trust(self, sha256: str, fingerprint: Fingerprint, until: datetime) -> None:
        """Skip verification of these bytes until a time; evicts the oldest entries."""
        with self._lock:
            self._trusted.pop(sha256, None)
            self._trusted[sha256] = fingerprint, until
            while len(self._trusted) > _TRUSTED_MAX:
                del self._trusted[next(iter(self._trusted))]

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with folder_access(self.folder, "read"):
            paths = [path for path in self.folder.glob("[0-9a-f][0-9a-f]/*") if path.is_file()]
        for path in paths:
            try:
                yield path, path.stat()
            except FileNotFoundError:
                continue  # finished or removed concurrently

    def _hash(self, sha256: str) -> str:
        with self.open(sha256) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def _fingerprint(self, sha256: str) -> Fingerprint:
        stat = self._stat(sha256)
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _stat(self, sha256: str) -> os.stat_result:
        with self._reading(sha256):
            return self._path(sha256).stat()

    @contextmanager
    def _reading(self, sha256: str) -> Iterator[None]:
        with folder_access(self.folder, "read"):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError) as error:
                raise unknown(sha256) from error

    def _path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256


def _stored(path: Path, stat: os.stat_result) -> Stored:
    return Stored(path.name, stat.st_size, _touched(stat))


def _touched(stat: os.stat_result) -> datetime:
    return datetime.fromtimestamp(stat.st_mtime, UTC)
