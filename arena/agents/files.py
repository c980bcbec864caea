"""What policies in files have in common: they are read from this machine alone, and known by their SHA-256."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena.agents.errors import ExternalPolicyError

MASK = "mask_"
"""What the name of a head's mask begins with among a file's inputs."""

Row = Mapping[str, np.ndarray]
"""One agent's memory: arrays by name, without the axis of agents."""


def identity_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ExternalPolicyError: It cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ExternalPolicyError(f"{path} cannot be read ({error.strerror}): give the path of a file here") from error


def gathered(memory: Sequence[Row | None], start: Row) -> dict[str, np.ndarray]:
    """Return what B agents remember as arrays (B, ...); `start` is what an agent remembers at first."""
    return {name: np.stack([(row or start)[name] for row in memory]) for name in start}


def scattered(arrays: Mapping[str, Any], agents: int) -> list[Row]:
    """Return arrays (B, ...) as what each of the B agents remembers."""
    return [{name: array[place] for name, array in arrays.items()} for place in range(agents)]
