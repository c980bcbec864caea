"""What the header of a policy's checkpoint must say, as far as that is known without building its network."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from arena.checkpoint_rules import POLICY_FORMAT, is_safe_cast
from league.storage.safetensors_header import Header, StoredTensor

_WEIGHTS = "float32"
_PLACES, _PLACES_TYPE = re.compile(r"embeddings\.\d+\.(first|last)"), "int64"
_TYPES = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "BOOL": "bool",
}
_OF_MODULE = ".module."  # a user's own code, which may keep numbers of any type
_GATES = 4  # of an LSTM
_NAME_MAX_CHARS = 120


def is_policy(header: Header) -> bool:
    """Return whether a file says that it is a policy of this project; of any other, no more is known."""
    return header.metadata.get("format") == POLICY_FORMAT


def shown(name: str) -> str:
    """Return a tensor's name fit for errors and the audit log: of bounded length, without control characters."""
    cut = name if len(name) <= _NAME_MAX_CHARS else f"{name[:_NAME_MAX_CHARS]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


def find_header_fault(header: Header) -> str | None:
    """Return why no network can be loaded from a policy's tensors; None if nothing speaks against it."""
    if not is_policy(header):
        return None
    own = {name: tensor for name, tensor in header.tensors.items() if _OF_MODULE not in name}
    for name, tensor in sorted(own.items()):
        stored = _TYPES.get(tensor.dtype, tensor.dtype)
        needed_type = _PLACES_TYPE if _PLACES.fullmatch(name) else _WEIGHTS
        if not is_safe_cast(stored, needed_type):
            return f"{shown(name)} holds {stored}, and the network has {needed_type}"
    try:
        needed = dict(_needed(json.loads(header.metadata["architecture"])))
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"its architecture cannot be read ({type(error).__name__})"
    return _find_misfit(own, needed)


def _find_misfit(own: Mapping[str, StoredTensor], needed: Mapping[str, tuple[int, ...]]) -> str | None:
    for name, shape in needed.items():
        if name not in own:
            return f"it lacks {name}, which its architecture has"
        if own[name].shape != shape:
            return f"{name} has the shape {own[name].shape}, and its architecture says {shape}"
    return None


def _needed(architecture: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of tensors that every network of an architecture has."""
    observation, recurrent = int(architecture["observation_size"]), int(architecture["recurrent_size"])
    yield from ((name, (observation,)) for name in ("observation_mean", "observation_std"))
    yield from ((name, (recurrent,)) for name in ("norm.weight", "norm.bias"))
    yield from (("critic.weight", (1, recurrent)), ("critic.bias", (1,)))
    if architecture["core"] == "lstm":
        yield "core.lstm.weight_hh_l0", (_GATES * recurrent, recurrent)
        yield from ((name, (_GATES * recurrent,)) for name in ("core.lstm.bias_ih_l0", "core.lstm.bias_hh_l0"))
