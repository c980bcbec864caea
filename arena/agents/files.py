"""Common parts of agents in files, which are identified by their SHA-256."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena.agents.errors import ExternalPolicyError

MASK = "mask_"
"""Prefix of the inputs that take a head's action mask."""

Row = Mapping[str, np.ndarray]
"""Memory of one agent: arrays by name, without the agent axis."""


def identity_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ExternalPolicyError: The file cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ExternalPolicyError(f"{path} cannot be read ({error.strerror}): give the path of a file here") from error


def gathered(memory: Sequence[Row | None], start: Row) -> dict[str, np.ndarray]:
    """Stack the memory of B agents into arrays (B, ...); `start` replaces missing memory."""
    return {name: np.stack([(row or start)[name] for row in memory]) for name in start}


def scattered(arrays: Mapping[str, Any], agents: int) -> list[Row]:
    """Split arrays (B, ...) into the memory of each of the B agents."""
    return [{name: array[place] for name, array in arrays.items()} for place in range(agents)]
