"""Inspection of a checkpoint: are the stored bytes a policy that can be loaded?

It reads a file once, in blocks, without torch. It finds damaged bytes, wrong types and shapes, and numbers that are
not finite or too large. It does not run the network.
"""

import hashlib
import math
import threading
from typing import IO

import numpy as np
from cachetools import FIFOCache
from numpy.typing import NDArray

from arena.checkpoint_rules import LARGEST_WEIGHT
from league.errors import RefusedCheckpointError, UnknownCheckpointError
from league.storage.base import CheckpointStore
from league.storage.checkpoint_header import read_header
from league.storage.policy_header import find_header_fault, is_policy, shown
from league.storage.safetensors_header import Header

WAIT_S = 1.0
"""Maximum wait for another inspection, because reports share their threads with results."""

_CACHED_MAX = 65_536
_BLOCK_BYTES = 2**20
_FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
_STD = "observation_std"


class Inspector:
    """Inspects checkpoints of a store, one at a time, and caches the outcome."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._faults: FIFOCache[str, str | None] = FIFOCache(_CACHED_MAX)
        self._lock = threading.Lock()

    def find_fault(self, sha256: str) -> str | None:
        """Return the fault in a checkpoint's bytes, or None.

        Raises:
            UnknownCheckpointError: The store does not have it.
            StoreUnavailableError: The store does not respond.
            TimeoutError: Another inspection takes too long.
        """
        if sha256 in self._faults:
            return self._faults[sha256]
        if not self._lock.acquire(timeout=WAIT_S):
            raise TimeoutError(
                f"checkpoint {sha256} is not inspected: another inspection takes longer than {WAIT_S:g} s"
            )
        try:
            return self._faults[sha256] if sha256 in self._faults else self._check(sha256)
        finally:
            self._lock.release()

    def _check(self, sha256: str) -> str | None:
        try:
            size = self._store.find(sha256).size_bytes
            with self._store.open(sha256) as stream:
                found, fault = find_fault(stream, size, sha256)
        except UnknownCheckpointError:
            if self._store.has_damaged_copy(sha256):
                return "its stored bytes were damaged and have been moved aside"
            raise
        if found != sha256:  # not cached, because a new upload repairs it
            return f"its stored bytes hash to {found}"
        self._faults[sha256] = fault
        return fault


def find_fault(stream: IO[bytes], size: int, name: str) -> tuple[str, str | None]:
    """Read a whole file once; return the SHA-256 of its bytes and their fault, or None."""
    hashing = _Hashing(stream)
    try:
        header = read_header(hashing, size, name)
        fault = find_header_fault(header) or _find_invalid_numbers(hashing, header)
    except RefusedCheckpointError as error:
        fault = str(error)
    # The hash covers the whole file, also after a fault.
    while hashing.read(_BLOCK_BYTES):
        pass
    return hashing.digest(), fault


def _find_invalid_numbers(stream: "_Hashing", header: Header) -> str | None:
    policy = is_policy(header)
    for name, tensor in header.tensors.items():
        left = tensor.size_bytes
        while left:
            size = min(left, _BLOCK_BYTES)
            block = stream.read(size)
            if len(block) < size:
                return f"it ends within {shown(name)}"
            left -= len(block)
            numbers = _as_floats(block, tensor.dtype)
            fault = None if numbers is None else _range_fault(name, numbers, policy=policy)
            if fault is not None:
                return fault
    return None


def _as_floats(block: bytes, dtype: str) -> NDArray[np.floating] | None:
    """Return the numbers of a block; None for types whose numbers are always finite."""
    if dtype == "BF16":  # the upper half of a float32
        upper: NDArray[np.uint32] = np.frombuffer(block, np.dtype("<u2")).astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32)
    if dtype not in _FLOATS:
        return None
    numbers: NDArray[np.floating] = np.frombuffer(block, np.dtype(_FLOATS[dtype]))
    return numbers


def _range_fault(name: str, numbers: NDArray[np.floating], *, policy: bool) -> str | None:
    with np.errstate(invalid="ignore"):
        low, high = float(numbers.min()), float(numbers.max())  # NaN if any number is NaN
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{shown(name)} holds numbers that are not finite"
    largest = max(-low, high)
    if policy and largest > LARGEST_WEIGHT:
        return f"{shown(name)} holds {largest:g}, but products of numbers above {LARGEST_WEIGHT:g} overflow"
    if policy and name == _STD and low <= 0.0:
        return f"{shown(name)} holds {low:g}, but a standard deviation must be above 0"
    return None


class _Hashing:
    """Stream that hashes its bytes while reading; short reads happen only at the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._hash = stream, hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        parts, left = [], size
        while left and (part := self._stream.read(left)):
            parts.append(part)
            left -= len(part)
        content = b"".join(parts)
        self._hash.update(content)
        return content

    def digest(self) -> str:
        return self._hash.hexdigest()
