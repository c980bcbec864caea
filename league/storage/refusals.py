"""Errors that all stores raise."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from league.errors import HashMismatchError, StoreUnavailableError, TooLargeError, UnknownCheckpointError


def require_size(size: int, max_bytes: int) -> None:
    """Reject a size above the store's limit.

    Raises:
        TooLargeError: The size exceeds the limit.
    """
    if size > max_bytes:
        rule = f"a checkpoint has at most {max_bytes} bytes"
        raise TooLargeError(f"{size} bytes", rule, "publish a smaller policy or raise LEAGUE_CHECKPOINT_MAX_BYTES")


def require_hash(sha256: str, received: str, size: int) -> None:
    """Reject bytes that do not match their hash.

    Raises:
        HashMismatchError: The hashes differ.
    """
    if received != sha256:
        rule = f"the {size} bytes received hash to {received}"
        raise HashMismatchError(sha256, rule, "send the whole file under its own SHA-256")


def unknown(sha256: str, rule: str = "the store has no such bytes") -> UnknownCheckpointError:
    """Return the error for a missing checkpoint."""
    return UnknownCheckpointError(sha256, rule, f"PUT them to /checkpoints/{sha256}")


@contextmanager
def folder_access(folder: Path, verb: Literal["read", "written"]) -> Iterator[None]:
    """Convert errors of the file system to `StoreUnavailableError`."""
    try:
        yield
    except OSError as error:
        rule = f"it cannot be {verb} ({error.strerror or error})"
        remedy = "free disk space and give the server's user read and write permissions"
        raise StoreUnavailableError(folder, rule, remedy) from error
