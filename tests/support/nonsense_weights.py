"""Checkpoints whose files are well-formed and whose weights make no sense."""

import hashlib
import json
from collections.abc import Callable

import torch
from safetensors.torch import load, save
from torch import Tensor


def rewritten(data: bytes, change: Callable[[str, Tensor], Tensor], **metadata: str) -> bytes:
    """The same checkpoint with every tensor changed, and some of its metadata replaced."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    tensors = {name: change(name, tensor).contiguous() for name, tensor in load(data).items()}
    return save(tensors, header["__metadata__"] | metadata)


def as_integers(data: bytes) -> bytes:
    """Every weight as int64."""
    return rewritten(data, lambda _, tensor: (1000.0 * tensor).long())


def huge(data: bytes) -> bytes:
    """Every weight at 3e38: finite, and any two of them multiply to infinity."""
    return rewritten(data, lambda _, tensor: torch.full_like(tensor, 3e38))


def not_numbers(data: bytes) -> bytes:
    """Every weight NaN."""
    return rewritten(data, lambda _, tensor: torch.full_like(tensor, torch.nan))


def named(data: bytes) -> tuple[str, bytes]:
    """A checkpoint with its name in a store."""
    return hashlib.sha256(data).hexdigest(), data
