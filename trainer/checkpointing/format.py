"""A run's saved state: one safetensors file with its counters as JSON metadata, replaced atomically, never unpickled.

It holds the learner and the assigned matches, but not the environments: after a restart each environment replays its
current match from the start, with the same seed and the same opponent. A run that was saved while all environments were
at the start of a match continues bit for bit as if it had not stopped.

The metadata includes a digest of tensors and counters, so that corruption is detected.
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

from arena.atomic_files import write_atomically
from arena.policies.checkpoint import not_finite
from trainer.errors import StateError

FORMAT = "echelon-league.run"
FORMAT_VERSION = 2


@dataclass(frozen=True)
class SavedState:
    """Tensors by name, and the JSON counters."""

    tensors: dict[str, Tensor]
    counters: dict[str, Any]


def save(path: Path, tensors: Mapping[str, Tensor], counters: Mapping[str, Any]) -> None:
    """Replace the file atomically: after a crash it is the old one or the new one.

    Raises:
        OSError: The file cannot be written.
    """
    # A copy on the CPU, because the digest and the file need the same bytes while training goes on.
    plain = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    encoded = json.dumps(counters)
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "counters": encoded,
        "sha256": digest(plain, encoded),
    }
    write_atomically(path, save_tensors(plain, metadata))


def load(path: Path) -> SavedState | None:
    """Read a state; None if there is no file.

    Raises:
        StateError: The file is not a saved state, is damaged, has NaN or infinity, or is of another version.
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
    if metadata.get("sha256") != digest(tensors, counters):
        raise _damaged(path, "does not match its digest: it was changed or damaged on the disk")
    if nonfinite := not_finite(tensors):
        raise _damaged(path, f"has NaN or infinity in {nonfinite}")
    try:
        return SavedState(tensors, json.loads(counters))
    except ValueError as error:
        raise _damaged(path, f"has no counters ({error})") from error


def read_counters(path: Path) -> dict[str, Any]:
    """Read the counters without the tensors; empty if there is no readable state. `load` reports the reason."""
    try:
        with safe_open(path, framework="pt") as file:
            found = json.loads((file.metadata() or {}).get("counters", ""))
    except (SafetensorError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def digest(tensors: Mapping[str, Tensor], counters: str) -> str:
    """SHA-256 over the counters and then, sorted by name, the name, type, shape and bytes of each tensor."""
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
    if version != str(FORMAT_VERSION):
        raise StateError(
            f"{path} has format version {version!r}; this version reads {FORMAT_VERSION}: use the version of "
            "echelon-league that wrote it, or choose another run folder"
        )


def _damaged(path: Path, problem: str) -> StateError:
    return StateError(f"{path} {problem}: restore it from a copy, or remove it to restart this run from step 0")
