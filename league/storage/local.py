"""A folder of checkpoints: `FOLDER/ab/abcdef...`, each file complete and verified or not there at all."""

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
from typing import IO, Literal

from arena.durable import sync_folder
from league.errors import StoreUnavailableError, UnknownCheckpointError
from league.storage.base import Leftover, Stored
from league.storage.refusals import require_hash, require_size, unknown
from league.storage.safetensors_header import Header, read_header

STALE_PART = timedelta(hours=1)
"""An upload writes to its part all the time: one untouched for so long has no upload any more."""

_TRUST = timedelta(hours=1)
_TRUSTED_MAX = 16_384
"""Checkpoints that are served unread, about 500 bytes each; more than a league plays within an hour."""

_BLOCK_BYTES = 2**20
_DAMAGED, _PART, _REMOVED = ".damaged", ".part", ".removed"
_NAME = re.compile(r"[0-9a-f]{64}")
_LEFTOVER_SUFFIXES = (_DAMAGED, _PART, _REMOVED)

Fingerprint = tuple[int, int, int]
"""Inode, size and time of change: another file under the name has another one."""

log = logging.getLogger(__name__)


class Upload:
    """Bytes on their way in; nothing of them stays unless `finish` returns."""

    def __init__(self, sha256: str, path: Path, file: IO[bytes], max_bytes: int) -> None:
        self._sha256 = sha256
        self._path = path
        self._file = file
        self._max_bytes = max_bytes
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, chunk: bytes) -> None:
        """Take the next bytes.

        Raises:
            TooLargeError: More than the store takes.
        """
        self._size += len(chunk)
        require_size(self._size, self._max_bytes)
        self._hash.update(chunk)
        self._file.write(chunk)

    def finish(self) -> None:
        """Check hash and format, and make the bytes durable.

        Raises:
            HashMismatchError: The bytes are not those that the name says.
            RefusedCheckpointError: The bytes are not a safetensors file.
        """
        require_hash(self._sha256, self._hash.hexdigest(), self._size)
        self._file.flush()
        with self._path.open("rb") as stream:
            read_header(stream, self._size, self._sha256)
        os.fsync(self._file.fileno())


class DirectoryStore:
    """Content-addressed checkpoints in a folder.

    A file's bytes are hashed before they are first served, when the file changed, and once an hour: a disk that rots is
    noticed before anybody plays with what it made of a policy, at the price of one read an hour.

    Args:
        folder: Where they live; made if missing.
        max_bytes: Largest checkpoint taken.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._trusted: dict[str, tuple[Fingerprint, datetime]] = {}
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return str(self.folder)

    def path(self, sha256: str, now: datetime) -> Path:
        """Return the file of a checkpoint, fit to be served.

        Raises:
            UnknownCheckpointError: The store does not have it, or has it damaged.
        """
        fingerprint = self._fingerprint(sha256)
        known, until = self._trusted.get(sha256, (None, now))
        if known != fingerprint or not now < until <= now + _TRUST:  # the clock may have been set back
            if not self.sound(sha256):
                raise unknown(sha256, "its stored bytes were damaged and are set aside")
            self._trust(sha256, fingerprint, now + _TRUST)
        return self._place(sha256)

    def require_size(self, size_bytes: int) -> None:
        """Refuse an upload of more bytes than the store takes before any is sent.

        Raises:
            TooLargeError: They are more.
        """
        require_size(size_bytes, self._max_bytes)

    @contextmanager
    def receive(self, sha256: str) -> Iterator[Upload]:
        """Take in a checkpoint; it appears when the block ends without an error.

        Raises:
            StoreUnavailableError: The folder cannot be written.
        """
        place = self._place(sha256)
        with self._being("written"):
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = mkstemp(dir=place.parent, prefix=".", suffix=_PART)
            part = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    upload = Upload(sha256, part, file, self._max_bytes)
                    yield upload
                    upload.finish()
                part.replace(place)
            finally:
                part.unlink(missing_ok=True)
            sync_folder(place.parent)
            sync_folder(self.folder)

    def prepare(self) -> None:
        """Refuse a folder that cannot be written, and clear it of what killed servers left of uploads."""
        self.check()
        for leftover in self.leftovers(datetime.now(UTC) - STALE_PART):
            if leftover.name.endswith(_PART):
                self.discard(leftover)

    def check(self) -> None:
        """Refuse a folder that cannot be written."""
        with self._being("written"):
            self.folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self.folder).close()

    def find(self, sha256: str) -> Stored:
        """Look a checkpoint up."""
        return _stored(self._place(sha256), self._stat(sha256))

    def header(self, sha256: str) -> Header:
        """Return a checkpoint's safetensors header."""
        with self.open(sha256) as stream:
            return read_header(stream, os.fstat(stream.fileno()).st_size, sha256)

    def freshen(self, sha256: str, now: datetime) -> bool:
        """Say whether a checkpoint is there and sound, and make it young."""
        try:
            os.utime(self.path(sha256, now))
            _, until = self._trusted.get(sha256, (None, now))
            self._trust(sha256, self._fingerprint(sha256), until)
        except (UnknownCheckpointError, FileNotFoundError):
            return False
        return True

    def intact(self, sha256: str) -> bool:
        """Read a checkpoint's bytes and say whether they are still its own."""
        return self._hash(sha256) == sha256

    def sound(self, sha256: str) -> bool:
        """Read a checkpoint's bytes and say whether they are still its own; damaged ones are set aside."""
        found = self._hash(sha256)
        if found == sha256:
            return True
        log.error("checkpoint %s is damaged: its bytes hash to %s; set aside as %s", sha256, found, _DAMAGED)
        with self._being("written"):
            self._place(sha256).replace(self._place(sha256 + _DAMAGED))
        return False

    def set_aside(self, sha256: str) -> bool:
        """Return whether damaged bytes of this name have been set aside."""
        with self._being("read"):
            return self._place(sha256 + _DAMAGED).exists()

    @contextmanager
    def open(self, sha256: str) -> Iterator[BufferedReader]:
        """Read a checkpoint's bytes."""
        with self._reading(sha256):
            stream = self._place(sha256).open("rb")
        with stream:
            yield stream

    def take_in(self, sha256: str, stream: IO[bytes]) -> None:
        """Store a checkpoint whose bytes are at hand."""
        with self.receive(sha256) as upload:
            while block := stream.read(_BLOCK_BYTES):
                upload.write(block)

    def listing(self) -> Iterator[Stored]:
        """Go through all checkpoints."""
        for path, stat in self._files():
            if _NAME.fullmatch(path.name):
                yield _stored(path, stat)

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is younger.

        It is moved aside first and judged there: whoever sends it or makes it young meanwhile either does so before,
        and it moves back, or finds it missing and sends it anew.
        """
        place = self._place(sha256)
        aside = place.with_name(sha256 + _REMOVED)
        with self._being("written"):
            try:
                place.replace(aside)
            except FileNotFoundError:
                return True
            if _touched(aside.stat()) >= before:
                aside.replace(place)
                return False
            aside.unlink()
            sync_folder(place.parent)
        return True

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Go through parts of uploads that were cut off, and damaged files that were set aside."""
        for path, stat in self._files():
            if path.suffix in _LEFTOVER_SUFFIXES and _touched(stat) < before:
                yield Leftover(str(path.relative_to(self.folder)), stat.st_size, _touched(stat))

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover."""
        with self._being("written"):
            (self.folder / leftover.name).unlink(missing_ok=True)

    def _trust(self, sha256: str, fingerprint: Fingerprint, until: datetime) -> None:
        """Serve these bytes unread for a while; of too many, those that were trusted first are read again."""
        with self._lock:
            self._trusted.pop(sha256, None)
            self._trusted[sha256] = fingerprint, until
            while len(self._trusted) > _TRUSTED_MAX:
                del self._trusted[next(iter(self._trusted))]

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with self._being("read"):
            paths = [path for path in self.folder.glob("[0-9a-f][0-9a-f]/*") if path.is_file()]
        for path in paths:
            try:
                yield path, path.stat()
            except FileNotFoundError:
                continue  # finished or removed meanwhile

    def _hash(self, sha256: str) -> str:
        with self.open(sha256) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    def _fingerprint(self, sha256: str) -> Fingerprint:
        stat = self._stat(sha256)
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    def _stat(self, sha256: str) -> os.stat_result:
        with self._reading(sha256):
            return self._place(sha256).stat()

    @contextmanager
    def _reading(self, sha256: str) -> Iterator[None]:
        with self._being("read"):
            try:
                yield
            except (FileNotFoundError, NotADirectoryError) as error:
                raise unknown(sha256) from error

    def _place(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    @contextmanager
    def _being(self, deed: Literal["read", "written"]) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            rule = f"it cannot be {deed} ({error.strerror or error})"
            way_out = "make room and give the server's user the right to read and write"
            raise StoreUnavailableError(self.folder, rule, way_out) from error


def _stored(path: Path, stat: os.stat_result) -> Stored:
    return Stored(path.name, stat.st_size, _touched(stat))


def _touched(stat: os.stat_result) -> datetime:
    return datetime.fromtimestamp(stat.st_mtime, UTC)
