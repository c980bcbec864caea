"""An ONNX model in onnxruntime, on the CPU, with the inputs and outputs that a game needs.

Inputs: `observation` (B, D), optionally `mask_HEAD` (B, K), and memory under any other name. Memory starts at zero, and
its next value is the output with the prefix `next_`. Outputs: each head's name or `HEAD_logits`; others are ignored.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.spec import EnvironmentSpec
from arena.errors import OnnxModelError, truncate
from arena.extras import missing_package
from arena.onnx.model import LOGITS, MASK, NEXT, OBSERVATION

Arrays = Mapping[str, NDArray[Any]]
_TYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}


class OnnxSession:
    """A loaded model.

    Args:
        model: Path of the file, or its bytes.
        spec: The game.

    Attributes:
        memory: Zeros of each part of the memory, without the agent axis.
        masks: Inputs of masks, sorted.
        heads: Outputs with actions or logits, in the order of the game's heads.

    Raises:
        MissingPackageError: onnxruntime is not installed.
        OnnxModelError: It is not a model, or its inputs and outputs do not match.
    """

    def __init__(self, model: Path | bytes, spec: EnvironmentSpec) -> None:
        self._session = _open(model)
        inputs, outputs = self._session.get_inputs(), [each.name for each in self._session.get_outputs()]
        sizes = {OBSERVATION: spec.observation_size} | {
            f"{MASK}{head.name}": head.size for head in spec.heads if head.masked
        }
        self._types = {each.name: _type_of(each) for each in inputs}
        if OBSERVATION not in self._types:
            raise OnnxModelError(
                f"the inputs are {sorted(self._types)}",
                f"one must be {OBSERVATION!r} of {spec.observation_size} floats for each agent",
            )
        for each in inputs:
            _require_shape(each.name, each.shape, sizes.get(each.name))
        self.masks = sorted(name for name in self._types if name in sizes and name != OBSERVATION)
        self.memory = {
            each.name: np.zeros(each.shape[1:], self._types[each.name]) for each in inputs if each.name not in sizes
        }
        if missing := [f"{NEXT}{name}" for name in self.memory if f"{NEXT}{name}" not in outputs]:
            raise OnnxModelError(
                f"the inputs are {sorted(self.memory)} and there is no output {missing}",
                f"every input except {sorted(sizes)} is memory and needs an output with its name after {NEXT!r}",
            )
        answers = [name for head in spec.heads for name in (head.name, f"{head.name}{LOGITS}")]
        self.heads = [name for name in answers if name in outputs]
        self._inputs = [OBSERVATION, *self.masks, *self.memory]
        self._outputs = [*self.heads, *(f"{NEXT}{name}" for name in self.memory)]

    @property
    def input_types(self) -> tuple[str, ...]:
        """Name of each mask, and type of each input, in the order of `prepare`."""
        return (*self.masks, *(np.dtype(self._types[name]).str for name in self._inputs))

    def prepare(self, observation: NDArray[Any], masks: Arrays, memory: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the inputs of B agents in the model's types: observation, masks by name, memory.

        Args:
            observation: (B, D).
            masks: (B, K) of each masked head.
            memory: (B, ...) of each part of the memory.
        """
        seen = [observation, *(masks[name.removeprefix(MASK)] for name in self.masks), *memory]
        return [value.astype(self._types[name], copy=False) for name, value in zip(self._inputs, seen, strict=True)]

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the outputs of the heads, then the next memory.

        Raises:
            OnnxModelError: The model fails, or returns memory of another shape.
        """
        try:
            found: list[NDArray[Any]] = self._session.run(self._outputs, dict(zip(self._inputs, inputs, strict=True)))
        except Exception as error:  # its classes have no base of their own
            raise OnnxModelError(f"the model failed: {truncate(error)}", "run it on such a batch yourself") from error
        count = len(self.memory)
        for name, before, after in zip(
            self.memory, inputs[len(inputs) - count :], found[len(found) - count :], strict=True
        ):
            if before.shape != after.shape:
                raise OnnxModelError(
                    f"memory {name!r} has the shape {before.shape} and then {after.shape}", "make them equal"
                )
        return found


def _open(model: Path | bytes) -> Any:  # noqa: ANN401  the library has no types
    try:
        import onnxruntime
    except ImportError as error:
        raise missing_package("onnxruntime", "an ONNX model") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        source = model if isinstance(model, bytes) else str(model)
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes have no base of their own
        raise OnnxModelError(f"it is not a valid ONNX model: {truncate(error)}", "export it again") from error


def _type_of(one: Any) -> Any:  # noqa: ANN401
    if one.type not in _TYPES:
        raise OnnxModelError(f"input {one.name!r} is a {one.type}", f"it must be one of {sorted(_TYPES)}")
    return _TYPES[one.type]


def _require_shape(name: str, shape: Sequence[Any], size: int | None) -> None:
    """Check that an input has a dynamic agent axis and the game's size; None for memory of any size."""
    if len(shape) == 0 or isinstance(shape[0], int):
        raise OnnxModelError(
            f"input {name!r} has shape {list(shape)}", "its first axis counts agents and must be dynamic"
        )
    inner = tuple(shape[1:])
    if size is None and not all(isinstance(each, int) for each in inner):
        raise OnnxModelError(f"memory {name!r} has shape {list(shape)}", "only its first axis may be dynamic")
    if size is not None and (len(inner) != 1 or (isinstance(inner[0], int) and inner[0] != size)):
        raise OnnxModelError(f"input {name!r} has shape {list(shape)}", f"the game gives (B, {size})")
