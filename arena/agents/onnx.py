"""External agent in an ONNX file, run by onnxruntime on the CPU.

Inputs: `observation` (B, D), optionally `mask_HEAD` (B, K), and memory under any other name. Memory starts at zero, and
its next value is the output with the prefix `next_`. Outputs: each head's name or `HEAD_logits`; others are ignored.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena.agents.base import Batch, Reply
from arena.agents.decode_actions import LOGITS
from arena.agents.errors import ExternalPolicyError, truncate
from arena.environments.spec import EnvironmentSpec

MASK = "mask_"
"""Prefix of the inputs that take a head's action mask."""

Row = Mapping[str, np.ndarray]
"""Memory of one agent: arrays by name, without the agent axis."""


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        ExternalPolicyError: The file cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ExternalPolicyError(f"{path} cannot be read ({error.strerror}): give the path of a file here") from error


def stack_memory(memory: Sequence[Row | None], start: Row) -> dict[str, np.ndarray]:
    """Stack the memory of B agents into arrays (B, ...); `start` replaces missing memory."""
    return {name: np.stack([(row or start)[name] for row in memory]) for name in start}


def split_memory(arrays: Mapping[str, Any], agents: int) -> list[Row]:
    """Split arrays (B, ...) into the memory of each of the B agents."""
    return [{name: array[index] for name, array in arrays.items()} for index in range(agents)]


SUFFIXES = (".onnx",)
NEXT = "next_"
OBSERVATION = "observation"
_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


class OnnxActor:
    """Agent that runs an ONNX model.

    Raises:
        ExternalPolicyError: onnxruntime is not installed, the file is not a model, or its inputs and outputs do not
            match.
    """

    def __init__(self, path: Path, spec: EnvironmentSpec) -> None:
        self.identity = sha256_of(path)
        self._session = _session(path)
        inputs, outputs = self._session.get_inputs(), [each.name for each in self._session.get_outputs()]
        shapes = {OBSERVATION: spec.observation_size} | {
            f"{MASK}{head.name}": head.size for head in spec.heads if head.masked
        }
        self._types = {each.name: _type_of(path, each) for each in inputs}
        if OBSERVATION not in self._types:
            raise ExternalPolicyError(
                f"{path} has the inputs {sorted(self._types)}: one must be {OBSERVATION!r} of {spec.observation_size} "
                "floats for each agent"
            )
        for each in inputs:
            _require_shape(path, each.name, each.shape, shapes.get(each.name))
        self._masks = [name for name in self._types if name in shapes and name != OBSERVATION]
        self._start = {
            each.name: np.zeros(each.shape[1:], self._types[each.name]) for each in inputs if each.name not in shapes
        }
        missing = [f"{NEXT}{name}" for name in self._start if f"{NEXT}{name}" not in outputs]
        if missing:
            raise ExternalPolicyError(
                f"{path} has the inputs {sorted(self._start)} and no output {missing}: every input "
                f"except {sorted(shapes)} is memory and needs an output with its name after {NEXT!r}"
            )
        heads = {name for head in spec.heads for name in (head.name, f"{head.name}{LOGITS}")}
        self._heads = [name for name in outputs if name in heads]

    def act(self, batch: Batch) -> Reply:
        """See `ExternalAgent.act`."""
        seen = {OBSERVATION: batch.observation}
        seen |= {name: batch.masks[name.removeprefix(MASK)] for name in self._masks}
        seen |= stack_memory(batch.memory, self._start)
        feed = {name: value.astype(self._types[name], copy=False) for name, value in seen.items()}
        wanted = [*self._heads, *(f"{NEXT}{name}" for name in self._start)]
        try:
            found = dict(zip(wanted, self._session.run(wanted, feed), strict=True))
        except Exception as error:  # its classes have no base of their own
            raise ExternalPolicyError(f"the model failed: {truncate(error)}") from error
        memory = {name: found[f"{NEXT}{name}"] for name in self._start}
        unlike = [name for name, value in memory.items() if value.shape != (len(batch), *self._start[name].shape)]
        if unlike:
            raise ExternalPolicyError(f"memory {unlike} has another output shape than input shape: make them equal")
        return Reply({name: found[name] for name in self._heads}, split_memory(memory, len(batch)) if memory else ())

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def _session(path: Path) -> Any:  # noqa: ANN401  the library has no types
    try:
        import onnxruntime
    except ImportError as error:
        raise ExternalPolicyError(
            f"{path} takes onnxruntime ({error}): install it with pip install 'echelon-league[onnx]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no base of their own
        raise ExternalPolicyError(f"{path} is not a valid ONNX model: {truncate(error)}") from error


def _type_of(path: Path, one: Any) -> Any:  # noqa: ANN401
    if one.type not in _TYPES:
        raise ExternalPolicyError(f"{path}: input {one.name!r} is a {one.type}: it must be one of {sorted(_TYPES)}")
    return _TYPES[one.type]


def _require_shape(path: Path, name: str, shape: Sequence[Any], size: int | None) -> None:
    """Check that an input has a dynamic agent axis and the game's size; None for memory of any size."""
    if len(shape) == 0 or isinstance(shape[0], int):
        raise ExternalPolicyError(
            f"{path}: input {name!r} has shape {list(shape)}: its first axis counts agents and must be dynamic"
        )
    inner = tuple(shape[1:])
    if size is None and not all(isinstance(each, int) for each in inner):
        raise ExternalPolicyError(
            f"{path}: memory {name!r} has shape {list(shape)}: only its first axis may be dynamic"
        )
    if size is not None and (len(inner) != 1 or (isinstance(inner[0], int) and inner[0] != size)):
        raise ExternalPolicyError(f"{path}: input {name!r} has shape {list(shape)}: the game gives (B, {size})")
