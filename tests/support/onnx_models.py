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


def linear(observation: int, head: str, options: int, seed: int = 0, **metadata: str) -> bytes:
    """Make a policy without memory that masks its logits itself."""
    weights = np.random.default_rng(seed).normal(size=(observation, options)).astype(np.float32)
    made = model(
        [
            helper.make_node("MatMul", ["observation", "weights"], ["scores"]),
            helper.make_node("Where", [f"mask_{head}", "scores", "never"], [f"{head}_logits"]),
        ],
        [("observation", FLOAT, ["B", observation]), (f"mask_{head}", BOOL, ["B", options])],
        [(f"{head}_logits", FLOAT, ["B", options])],
        {"weights": weights, "never": np.float32(-np.inf)},
        **metadata,
    )
    return made.SerializeToString()
