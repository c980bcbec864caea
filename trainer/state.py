"""A run's saved state: one safetensors file with its counters as JSON metadata, replaced atomically, never unpickled.

It holds all that learning changes and which matches were dealt. Environments are not in it: after a restart every
environment opens its current match anew, from the same seed and against the same opponent. A run that was saved while
all environments were at the start of a match continues bit for bit as if it had not stopped.

Format 2 has a digest of everything that it holds, so that a changed bit is found. Format 1 had none, and is still read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor

from arena.durable import write_atomically
from arena.policies.checkpoint import not_finite
from trainer.errors import StateError

FORMAT = "echelon-league.run"
FORMAT_VERSION = 2
FIRST_WITH_DIGEST = 2


@dataclass(frozen=True)
class SavedState:
    """What a file held."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]


def save(path: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
    """Write a state; a crash or a full disk leaves the old one or the new one.

    Raises:
        OSError: The disk refuses.
    """
    plain = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    written = json.dumps(counters)
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "counters": written,
        "sha256": digest(plain, written),
    }
    write_atomically(path, save_tensors(plain, metadata))


def load(path: Path) -> SavedState | None:
    """Read a state; None where there is none.

    Raises:
        StateError: The file is not a run's state, is damaged, holds what is not finite, or is of a newer version.
    """
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
    except (SafetensorError, OSError) as error:
        raise _damaged(path, f"cannot be read ({error})") from error
    _check_format(path, metadata)
    counters = metadata.get("counters", "")
    if int(metadata["format_version"]) >= FIRST_WITH_DIGEST and metadata.get("sha256") != digest(tensors, counters):
        raise _damaged(path, "does not have the digest that it says: it was changed or damaged on the disk")
    if strange := not_finite(tensors):
        raise _damaged(path, f"holds numbers that are not finite in {strange}")
    try:
        return SavedState(tensors, json.loads(counters))
    except ValueError as error:
        raise _damaged(path, f"has no counters ({error})") from error


def digest(tensors: Mapping[str, Tensor], counters: str) -> str:
    """SHA-256 over the counters and, in order of their names, every tensor's name, type, shape and bytes."""
    whole = hashlib.sha256(counters.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        whole.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        whole.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()


def _check_format(path: Path, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise StateError(f"{path} has format {metadata.get('format')!r}, not {FORMAT!r}: choose another run folder")
    version = metadata.get("format_version", "")
    if not version.isdecimal() or not 1 <= int(version) <= FORMAT_VERSION:
        raise StateError(
            f"{path} has format version {version!r}; this version reads up to {FORMAT_VERSION}: upgrade echelon-league"
        )


def _damaged(path: Path, what: str) -> StateError:
    return StateError(f"{path} {what}: put a copy of it in its place, or remove it to start this run anew")
