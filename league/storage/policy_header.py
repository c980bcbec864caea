"""Checks of a policy checkpoint's header that need no network."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from arena.checkpoint_rules import POLICY_FORMAT, is_safe_cast
from league.storage.safetensors_header import Header, StoredTensor

_WEIGHTS = "float32"
_INDICES, _INDEX_TYPE = re.compile(r"embeddings\.\d+\.(first|last)"), "int64"
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
_OF_MODULE = ".module."  # user code, which may store any type
_GATES = 4  # of an LSTM
_NAME_MAX_CHARS = 120


def is_policy(header: Header) -> bool:
    """Return True if the metadata declares a policy of this project; other files are not checked further."""
    return header.metadata.get("format") == POLICY_FORMAT


def shown(name: str) -> str:
    """Return a tensor's name for errors and the audit log, truncated and without control characters."""
    cut = name if len(name) <= _NAME_MAX_CHARS else f"{name[:_NAME_MAX_CHARS]}..."
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut)


def find_header_fault(header: Header) -> str | None:
    """Return why a network cannot be loaded from a policy's tensors, or None."""
    if not is_policy(header):
        return None
    own = {name: tensor for name, tensor in header.tensors.items() if _OF_MODULE not in name}
    for name, tensor in sorted(own.items()):
        stored = _TYPES.get(tensor.dtype, tensor.dtype)
        expected_type = _INDEX_TYPE if _INDICES.fullmatch(name) else _WEIGHTS
        if not is_safe_cast(stored, expected_type):
            return f"{shown(name)} holds {stored}, but the network has {expected_type}"
    try:
        expected = dict(_expected_shapes(json.loads(header.metadata["architecture"])))
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return f"its architecture cannot be read ({type(error).__name__})"
    return _find_mismatch(own, expected)


def _find_mismatch(own: Mapping[str, StoredTensor], expected: Mapping[str, tuple[int, ...]]) -> str | None:
    for name, shape in expected.items():
        if name not in own:
            return f"it has no {name}, which its architecture requires"
        if own[name].shape != shape:
            return f"{name} has shape {own[name].shape}, but its architecture requires {shape}"
    return None


def _expected_shapes(architecture: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of the tensors that every network of an architecture has."""
    observation, recurrent = int(architecture["observation_size"]), int(architecture["recurrent_size"])
    yield from ((name, (observation,)) for name in ("observation_mean", "observation_std"))
    yield from ((name, (recurrent,)) for name in ("norm.weight", "norm.bias"))
    yield from (("critic.weight", (1, recurrent)), ("critic.bias", (1,)))
    if architecture["core"] == "lstm":
        yield "core.lstm.weight_hh_l0", (_GATES * recurrent, recurrent)
        yield from ((name, (_GATES * recurrent,)) for name in ("core.lstm.bias_ih_l0", "core.lstm.bias_hh_l0"))
