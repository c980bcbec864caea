"""The interface of a checkpoint store, and what every implementation keeps.

A store is content-addressed: a checkpoint is named by the SHA-256 of its bytes, appears complete and verified or not at
all, and never changes. What is still on its way in, or was found damaged, is a leftover, which nobody is served.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Protocol

from league.storage.safetensors_header import Header


@dataclass(frozen=True)
class Stored:
    """A checkpoint of the store; `stored_at` is when it was last sent, or found there by somebody about to send it."""

    sha256: str
    size_bytes: int
    stored_at: datetime


@dataclass(frozen=True)
class Leftover:
    """Bytes that are no checkpoint: an upload that nobody finished, or a checkpoint that was set aside as damaged."""

    name: str
    size_bytes: int
    touched_at: datetime


class CheckpointStore(Protocol):
    """The contract that `tests/league/storage/test_stores.py` holds every store to.

    Every call raises `StoreUnavailableError` where the store does not answer or cannot be written.
    """

    def prepare(self) -> None:
        """Refuse a store that cannot be worked with; called once, before the server takes calls.

        Raises:
            StoreUnavailableError: It does not answer, does not accept the credentials, or cannot be written.
            ConfigurationError: It lacks what the league needs.
        """

    def check(self) -> None:
        """Refuse a store that does not work at this moment; cheap enough for every look at the server's health."""

    def find(self, sha256: str) -> Stored:
        """Look a checkpoint up.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def header(self, sha256: str) -> Header:
        """Return a checkpoint's safetensors header, taking in an upload that nobody completed.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def freshen(self, sha256: str, now: datetime) -> bool:
        """Say whether a checkpoint is there, sound, and from now on as young as one that was just sent."""

    def intact(self, sha256: str) -> bool:
        """Say whether the bytes are those that the name says.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def sound(self, sha256: str) -> bool:
        """Say whether the bytes are those that the name says; damaged ones are set aside.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def set_aside(self, sha256: str) -> bool:
        """Return whether bytes of this name were found damaged and have been set aside."""

    def open(self, sha256: str) -> AbstractContextManager[IO[bytes]]:
        """Read a checkpoint's bytes as they are stored, from the first on.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """

    def take_in(self, sha256: str, stream: IO[bytes]) -> None:
        """Store a checkpoint whose bytes are at hand, verified; again is fine.

        Raises:
            TooLargeError: It is more than the store takes.
            HashMismatchError: The bytes are not those that the name says.
            RefusedCheckpointError: The bytes are not a safetensors file.
        """

    def listing(self) -> Iterator[Stored]:
        """Go through all checkpoints, in no order."""

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is younger than `before`; say whether it is gone."""

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Go through what is no checkpoint and was last touched earlier than `before`."""

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover; it may be gone already."""
