"""Interface of a checkpoint store.

A store is content-addressed: a checkpoint is named by the SHA-256 of its bytes, becomes visible only when complete and
verified, and never changes. Unfinished uploads and damaged files are leftovers, which are never served.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Protocol

from league.storage.recordings import RecordingStore
from league.storage.safetensors_header import Header


@dataclass(frozen=True)
class Stored:
    """Stored checkpoint; `stored_at` is the time of its last upload or attempted upload."""

    sha256: str
    size_bytes: int
    stored_at: datetime


@dataclass(frozen=True)
class Leftover:
    """Object that is not a checkpoint: an unfinished upload, or a checkpoint set aside as damaged."""

    name: str
    size_bytes: int
    touched_at: datetime


class CheckpointStore(Protocol):
    """Contract of all stores, tested by `tests/league/storage/test_stores.py`.

    Every call raises `StoreUnavailableError` if the store does not respond or cannot be written.
    """

    @property
    def recordings(self) -> RecordingStore:
        """Recordings of matches, in the same folder or bucket."""

    def prepare(self) -> None:
        """Check that the store is usable; called once, before the server accepts requests.

        Raises:
            StoreUnavailableError: The store does not respond, rejects the credentials, or cannot be written.
            ConfigurationError: The store lacks a required feature.
        """

    def check(self) -> None:
        """Raise if the store is currently unavailable; cheap enough for every health check."""

    def find(self, sha256: str) -> Stored:
        """Return a checkpoint's metadata.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def header(self, sha256: str) -> Header:
        """Return a checkpoint's header, completing a pending upload.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def touch(self, sha256: str, now: datetime) -> bool:
        """Return True if an intact checkpoint is stored, and set its `stored_at` to now."""

    def is_intact(self, sha256: str) -> bool:
        """Return True if the bytes match the hash.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def sound(self, sha256: str) -> bool:
        """Return True if the bytes match the hash; set damaged ones aside.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def has_damaged_copy(self, sha256: str) -> bool:
        """Return True if damaged bytes of this name have been set aside."""

    def open(self, sha256: str) -> AbstractContextManager[IO[bytes]]:
        """Open a checkpoint's bytes for reading.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def put(self, sha256: str, stream: IO[bytes]) -> None:
        """Verify and store a checkpoint; idempotent.

        Raises:
            TooLargeError: The checkpoint exceeds the store's limit.
            HashMismatchError: The bytes do not match the hash.
            RefusedCheckpointError: The bytes are neither a safetensors file nor an ONNX model.
        """

    def listing(self) -> Iterator[Stored]:
        """Yield all checkpoints in arbitrary order."""

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is newer than `before`; return True if it no longer exists."""

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Yield leftovers last modified earlier than `before`."""

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover if it still exists."""
