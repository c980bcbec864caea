"""Errors that all stores raise."""

from league.errors import HashMismatchError, TooLargeError, UnknownCheckpointError


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
