"""A run's saved state: one safetensors file with its counters as JSON metadata, replaced atomically, never unpickled.

It holds all that learning changes and which matches were dealt. Environments are not in it: after a restart every
environment opens its current match anew, from the same seed and against the same opponent. A run that was saved while
all environments were at the start of a match continues bit for bit as if it had not stopped.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor

from arena.durable import write_atomically
from trainer.errors import StateError

FORMAT = "echelon-league.run"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class SavedState:
    """What a file held."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]


def save(path: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
    """Write a state; a crash leaves the old one or the new one."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "format_version": str(FORMAT_VERSION), "counters": json.dumps(counters)}
    write_atomically(path, save_tensors(plain, metadata))


def load(path: Path) -> SavedState | None:
    """Read a state; None where there is none.

    Raises:
        StateError: The file is not a run's state, or of a newer version.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
    except (SafetensorError, OSError) as error:
        raise StateError(f"{path} cannot be read ({error}): remove it to start this run anew") from error
    if metadata.get("format") != FORMAT:
        raise StateError(f"{path} has format {metadata.get('format')!r}, not {FORMAT!r}: choose another run folder")
    version = metadata.get("format_version", "")
    if not version.isdecimal() or int(version) > FORMAT_VERSION:
        raise StateError(
            f"{path} has format version {version!r}; this version reads up to {FORMAT_VERSION}: upgrade echelon-league"
        )
    return SavedState(tensors, json.loads(metadata["counters"]))
