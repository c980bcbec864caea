"""Structure of an ONNX model and the rules for one that others will run.

A model may hold only standard operators without control flow or randomness, and must hold all its weights. Torch-free
and without a library, because the league server checks the same rules as the loader.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, whose field numbers are in this module.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from arena.errors import OnnxModelError
from arena.onnx.protobuf import Message, Readable, Source

OBSERVATION, MASK, NEXT, LOGITS = "observation", "mask_", "next_", "_logits"
"""Name of the input of observations, prefixes of inputs of masks and outputs of memory, suffix of outputs of logits."""

START_BYTES = 8
"""Bytes of a file that `is_onnx` needs."""

MEMORY_MAX = 2**16
"""Most numbers of memory of one agent."""

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip
"""Types of tensors by their number."""

USABLE_DTYPES = ("float32", "float64", "float16", "int32", "int64", "bool")
"""Types of the inputs that a model may have."""

_STANDARD_DOMAINS = ("", "ai.onnx")
_RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
_EXTERNAL = 1


@dataclass(frozen=True)
class TensorInfo:
    """Name, type and shape of an input; None for a side that depends on the call."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.name!r} of {self.dtype} {['?' if side is None else side for side in self.shape]}"


@dataclass
class OnnxModel:
    """Inputs and outputs of a model, and its metadata."""

    metadata: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, TensorInfo] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    @property
    def memory(self) -> list[TensorInfo]:
        """The inputs that are neither observation nor masks."""
        return [each for name, each in self.inputs.items() if name != OBSERVATION and not name.startswith(MASK)]


def is_onnx(start: bytes) -> bool:
    """Return whether a file is an ONNX model and no safetensors file, by its first bytes.

    A model begins with its version, field 1. A safetensors file begins with the length of its header, which stays far
    below 16 MiB, so that its fourth to eighth byte are 0.
    """
    return start[:1] == b"\x08" and any(start[3:START_BYTES])


def read_model(stream: Readable, size: int, start: bytes = b"") -> OnnxModel:
    """Read a model's structure once from front to back; weights are skipped.

    Args:
        stream: The file after `start`.
        size: Size of the whole file in bytes.
        start: Bytes that were read before.

    Raises:
        OnnxModelError: The bytes are no ONNX model, or it breaks a rule.
    """
    try:
        model = _read(Message(Source(stream, start), size))
    except (ValueError, TypeError) as error:
        if isinstance(error, OnnxModelError):
            raise
        raise OnnxModelError(
            f"not a well-formed ONNX model ({error})", "export it again, for example with torch.onnx.export"
        ) from error
    _require_signature(model)
    return model


def _read(message: Message) -> OnnxModel:
    model, graphs, versions = OnnxModel(), 0, 0
    for number, value in message.fields():
        match number:
            case 1:
                versions += 1
            case 7:
                graphs += 1
                _read_graph(_message(value), model)
            case 14:
                entry = {key: _message(text).text() for key, text in _message(value).fields()}
                model.metadata[entry.get(1, "")] = entry.get(2, "")
            case 20:
                raise OnnxModelError("the model holds a training graph", "export it for inference")
            case 25:
                raise OnnxModelError(
                    "the model defines functions of its own", "inline them, for example with onnx.inliner"
                )
    if (versions, graphs) != (1, 1):
        raise ValueError(f"it has {versions} versions and {graphs} graphs, not one of each")
    return model


def _read_graph(message: Message, model: OnnxModel) -> None:
    weights = set()
    for number, value in message.fields():
        match number:
            case 1:
                _check_node(_message(value))
            case 5:
                weights.add(_check_tensor(_message(value)))
            case 11:
                info = _read_tensor_info(_message(value))
                if info.name in model.inputs:
                    raise ValueError(f"input {info.name!r} appears twice")
                model.inputs[info.name] = info
            case 12:
                model.outputs += [_message(text).text() for key, text in _message(value).fields() if key == 1]
            case 15:
                raise OnnxModelError("the model holds sparse weights", "export them as dense tensors")
    for name in weights & model.inputs.keys():  # versions before 4 list weights as inputs
        del model.inputs[name]


def _check_node(message: Message) -> None:
    """Check an operator: NodeProto."""
    operator, domain = "", ""
    for number, value in message.fields():
        match number:
            case 4:
                operator = _message(value).text()
            case 5:
                _check_attribute(_message(value))
            case 7:
                domain = _message(value).text()
    if domain not in _STANDARD_DOMAINS:
        raise OnnxModelError(
            f"operator {operator!r} is of the domain {domain!r}, and a model may use standard operators only",
            "export it without custom operators",
        )
    if operator in _RANDOM:
        raise OnnxModelError(
            f"operator {operator!r} is random, and the same observations must always give the same outputs",
            "export it in evaluation mode, and return logits, from which the worker samples",
        )


def _check_attribute(message: Message) -> None:
    """Check an operator's attribute: AttributeProto."""
    for number, value in message.fields():
        match number:
            case 5 | 10:
                _check_tensor(_message(value))
            case 6 | 11:
                raise OnnxModelError(
                    "an operator holds a graph, such as a loop or a branch, and the cost of a call must be fixed",
                    "export it without control flow",
                )
            case 22 | 23:
                raise OnnxModelError("an operator holds a sparse tensor", "export it as a dense tensor")


def _check_tensor(message: Message) -> str:
    """Return the name of a tensor whose numbers are in the file: TensorProto."""
    name = ""
    for number, value in message.fields():
        if number == 8:
            name = _message(value).text()
        elif number == 13 or (number == 14 and value == _EXTERNAL):
            raise OnnxModelError(
                f"weights {name!r} are in another file", "export with external_data=False, so that one file holds all"
            )
    return name


def _read_tensor_info(message: Message) -> TensorInfo:
    """Return name, type and shape of an input: ValueInfoProto."""
    name, dtype, shape = "", "", None
    for number, value in message.fields():
        if number == 1:
            name = _message(value).text()
        elif number == 2:
            for kind, inner in _message(value).fields():
                if kind != 1:
                    raise OnnxModelError(f"input {name!r} is no tensor", "give it a tensor")
                for part, content in _message(inner).fields():
                    if part == 1:
                        dtype = DTYPES.get(_integer(content), f"type {content}")
                    elif part == 2:
                        shape = [_read_side(_message(side)) for key, side in _message(content).fields() if key == 1]
    if shape is None:
        raise OnnxModelError(f"input {name!r} declares no shape", "declare the shapes of all inputs")
    return TensorInfo(name, dtype, tuple(shape))


def _read_side(message: Message) -> int | None:
    sides = [_integer(value) for number, value in message.fields() if number == 1]
    return sides[-1] if sides else None


def _message(value: int | Message) -> Message:
    if isinstance(value, int):
        raise TypeError("a number is in the place of a message")
    return value


def _integer(value: int | Message) -> int:
    if isinstance(value, Message):
        raise TypeError("a message is in the place of a number")
    return value


def _require_signature(model: OnnxModel) -> None:
    """Check the inputs and outputs that do not depend on the game."""
    if OBSERVATION not in model.inputs:
        raise OnnxModelError(
            f"the inputs are {sorted(model.inputs)}", f"name the input of observations {OBSERVATION!r}"
        )
    for each in model.inputs.values():
        if each.dtype not in USABLE_DTYPES:
            raise OnnxModelError(
                f"input {each} has another type than {', '.join(USABLE_DTYPES)}", "cast it in the model"
            )
        if each.shape[:1] != (None,):
            raise OnnxModelError(
                f"input {each} has no dynamic first axis, which counts the agents of a batch",
                "export it with a dynamic first axis",
            )
    _require_memory(model.memory, model.outputs)


def _require_memory(memory: Sequence[TensorInfo], outputs: Sequence[str]) -> None:
    size = 0
    for each in memory:
        if f"{NEXT}{each.name}" not in outputs:
            raise OnnxModelError(
                f"input {each} is memory and has no output '{NEXT}{each.name}'",
                f"return its next value, or name it {OBSERVATION!r} or {MASK!r} and a head",
            )
        sides = [side for side in each.shape[1:] if side is not None]
        if len(sides) < len(each.shape) - 1:
            raise OnnxModelError(f"memory {each} has a dynamic side", "make only its first axis dynamic")
        size += math.prod(sides)
    if size > MEMORY_MAX:
        raise OnnxModelError(
            f"memory has {size} numbers for each agent, more than {MEMORY_MAX}", "export a smaller one"
        )
