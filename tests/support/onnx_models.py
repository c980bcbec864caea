"""Small ONNX models, as the bytes of their files."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
Tensor = tuple[str, int, Sequence[int | str | None] | None]


def info(tensor: Tensor) -> ValueInfoProto:
    return helper.make_tensor_value_info(*tensor)


def graph(
    nodes: Iterable[NodeProto],
    inputs: Iterable[Tensor],
    outputs: Iterable[Tensor],
    weights: Mapping[str, np.ndarray] | None = None,
) -> GraphProto:
    tensors = [numpy_helper.from_array(each, name) for name, each in (weights or {}).items()]
    return helper.make_graph(list(nodes), "policy", [*map(info, inputs)], [*map(info, outputs)], tensors)


def model(*parts: Any, **metadata: str) -> ModelProto:
    """Make a model of the arguments of `graph`."""
    made = helper.make_model(graph(*parts), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, metadata)
    return made


def linear(observation: int, head: str, options: int, seed: int = 0, *, masked: bool = True, **metadata: str) -> bytes:
    """Make a policy without memory; a masked one masks its logits itself."""
    logits, mask = f"{head}_logits", f"mask_{head}"
    weights = {"weights": np.random.default_rng(seed).normal(size=(observation, options)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["observation", "weights"], ["scores" if masked else logits])]
    inputs: list[Tensor] = [("observation", FLOAT, ["B", observation])]
    if masked:
        nodes.append(helper.make_node("Where", [mask, "scores", "never"], [logits]))
        inputs.append((mask, BOOL, ["B", options]))
        weights["never"] = np.array(-np.inf, np.float32)
    return model(nodes, inputs, [(logits, FLOAT, ["B", options])], weights, **metadata).SerializeToString()


def counter(observation: int, head: str, options: int, step: float = 1.0) -> bytes:
    """Make a policy whose memory counts its decisions in steps, and that prefers no option."""
    nodes = [
        helper.make_node("Add", ["count", "step"], ["next_count"]),
        helper.make_node("MatMul", ["observation", "weights"], [f"{head}_logits"]),
    ]
    inputs = [("observation", FLOAT, ["B", observation]), ("count", FLOAT, ["B", 1])]
    outputs = [(f"{head}_logits", FLOAT, ["B", options]), ("next_count", FLOAT, ["B", 1])]
    weights = {"step": np.array([step], np.float32), "weights": np.zeros((observation, options), np.float32)}
    return model(nodes, inputs, outputs, weights).SerializeToString()
