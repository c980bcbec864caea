"""A folder of checkpoints: `FOLDER/ab/abcdef...`, each file complete and verified or not there at all."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, mkstemp
from typing import IO

from arena.durable import sync_folder
from league.errors import HashMismatchError, StoreUnavailableError, TooLargeError, UnknownCheckpointError
from league.storage.safetensors_header import read_metadata


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
        if self._size > self._max_bytes:
            rule = f"a checkpoint has at most {self._max_bytes} bytes"
            raise TooLargeError(f"{self._size} bytes", rule, "publish a smaller policy or raise the server's limit")
        self._hash.update(chunk)
        self._file.write(chunk)

    def verify(self) -> None:
        """Check hash and format, and make the bytes durable.

        Raises:
            HashMismatchError: The bytes are not those that the name says.
            RefusedCheckpointError: The bytes are not a safetensors file.
        """
        received = self._hash.hexdigest()
        if received != self._sha256:
            rule = f"the {self._size} bytes received hash to {received}"
            raise HashMismatchError(self._sha256, rule, "send the whole file under its own SHA-256")
        self._file.flush()
        read_metadata(self._path, self._sha256)
        os.fsync(self._file.fileno())


class DirectoryStore:
    """Content-addressed checkpoints in a folder.

    Args:
        folder: Where they live; made if missing.
        max_bytes: Largest checkpoint taken.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self._max_bytes = max_bytes

    def path(self, sha256: str) -> Path:
        """Return the file of a checkpoint.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """
        path = self._place(sha256)
        if not path.is_file():
            raise UnknownCheckpointError(sha256, "the store has no such bytes", f"PUT them to /checkpoints/{sha256}")
        return path

    def metadata(self, sha256: str) -> dict[str, str]:
        """Return the metadata of a checkpoint's safetensors header.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """
        return read_metadata(self.path(sha256), sha256)

    @contextmanager
    def receive(self, sha256: str) -> Iterator[Upload]:
        """Take in a checkpoint; it appears when the block ends without an error.

        Raises:
            StoreUnavailableError: The folder cannot be written.
        """
        place = self._place(sha256)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = mkstemp(dir=place.parent, prefix=".", suffix=".part")
            part = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    upload = Upload(sha256, part, file, self._max_bytes)
                    yield upload
                    upload.verify()
                part.replace(place)
            finally:
                part.unlink(missing_ok=True)
            sync_folder(place.parent)
            sync_folder(self.folder)
        except OSError as error:
            raise self._unavailable(error) from error

    def check(self) -> None:
        """Refuse a folder that cannot be written.

        Raises:
            StoreUnavailableError: It cannot.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=self.folder).close()
        except OSError as error:
            raise self._unavailable(error) from error

    def _place(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    def _unavailable(self, error: OSError) -> StoreUnavailableError:
        rule = f"it cannot be written ({error.strerror or error})"
        return StoreUnavailableError(self.folder, rule, "make room or give the server's user the right to write")
