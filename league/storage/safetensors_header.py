"""Parser of safetensors headers that loads no tensors.

A file consists of 8 bytes of little-endian header length N, N bytes of JSON, and the tensors' bytes, which the header's
offsets cover without gap or overlap. It cannot contain code.

Source: the safetensors format, https://huggingface.co/docs/safetensors.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from arena.onnx.protobuf import Readable
from league.errors import RefusedCheckpointError

_LENGTH_BYTES = 8
_HEADER_MAX_BYTES = 8 * 2**20  # about 50,000 tensors; bounds the memory for parsing
_DIMENSIONS_MAX = 64  # NumPy supports no more, and neither do reductions of PyTorch
_SIDE_LIMIT = 2**63
_BITS_MAX = 2**63  # readers multiply in 64 bits, even with sides of 0
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
_FOREIGN = (
    (b"PK\x03\x04", "a zip archive such as torch.save writes, which holds a pickle"),
    *((b"\x80" + bytes([protocol]), "a pickle, which can run code when it is loaded") for protocol in range(2, 6)),
)


@dataclass(frozen=True)
class StoredTensor:
    """Type, shape and size of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True)
class Header:
    """Header of a well-formed file; tensors are in the order of their bytes, without gaps. An ONNX model has none."""

    metadata: Mapping[str, str]
    tensors: Mapping[str, StoredTensor]


def read_header(start: bytes, stream: Readable, size: int, name: str) -> Header:
    """Return the header of a safetensors file after checking that the file is well-formed.

    Args:
        start: First 8 bytes of the file.
        stream: The file after these; only the header is read.
        size: Size of the whole file in bytes.
        name: Name of the file in errors.

    Raises:
        RefusedCheckpointError: The file is not a well-formed safetensors file.
    """
    try:
        return _checked_header(start, stream, size)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        rule = _foreign_kind(start) or f"not a well-formed safetensors file ({_line(error)})"
        raise RefusedCheckpointError(name, rule, "save it with safetensors or as ONNX") from error


def _checked_header(start: bytes, stream: Readable, size: int) -> Header:
    length = int.from_bytes(start, "little")
    if not 2 <= length <= min(_HEADER_MAX_BYTES, size - _LENGTH_BYTES):
        raise ValueError(f"a header of {length} bytes does not fit a file of {size}")
    text = stream.read(length).decode("utf-8")
    header = json.loads(text, object_pairs_hook=_unique, parse_constant=_reject_constant)
    if not isinstance(header, dict):
        raise TypeError("the header is not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise TypeError("the metadata is not an object of strings")
    return Header(metadata, _check_cover(header, size - _LENGTH_BYTES - length))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError("a key appears twice")
    for each in (*keys, *keys.values()):
        if isinstance(each, str):
            each.encode()  # fails on lone surrogates, which JSON can encode
    return keys


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def _check_cover(tensors: dict[str, Any], size: int) -> dict[str, StoredTensor]:
    """Check that the tensors' offsets cover `size` bytes without gap or overlap; return the tensors in that order."""
    reached, found = 0, {}
    for name, tensor in sorted(tensors.items(), key=lambda entry: entry[1]["data_offsets"]):
        begin, end = tensor["data_offsets"]
        if type(begin) is not int or type(end) is not int:
            raise TypeError(f"tensor {name!r} is at {begin!r} to {end!r}")
        # The format forbids gaps, so that a file cannot be valid in another format (polyglot) at the same time.
        if begin != reached or end - begin != _tensor_bytes(name, tensor):
            raise ValueError(f"tensor {name!r} at bytes {begin} to {end} leaves a gap, overlaps or has another size")
        reached = end
        found[name] = StoredTensor(tensor["dtype"], tuple(tensor["shape"]), end - begin)
    if reached != size:
        raise ValueError(f"the tensors end at byte {reached} of {size}")
    return found


def _tensor_bytes(name: str, tensor: dict[str, Any]) -> int:
    shape: list[int] = tensor["shape"]
    if tensor["dtype"] not in _BITS:
        raise ValueError(f"tensor {name!r} has the unknown type {tensor['dtype']!r}")
    if len(shape) > _DIMENSIONS_MAX or not all(type(side) is int and 0 <= side < _SIDE_LIMIT for side in shape):
        raise ValueError(f"tensor {name!r} has the shape {shape!r}")
    bits: int = _BITS[tensor["dtype"]]
    if math.prod(max(side, 1) for side in shape) * bits > _BITS_MAX:
        raise ValueError(f"tensor {name!r} has the shape {shape!r}, whose size overflows 64 bits")
    return math.prod(shape) * bits // 8


def _foreign_kind(start: bytes) -> str | None:
    return next((kind for magic, kind in _FOREIGN if start.startswith(magic)), None)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
