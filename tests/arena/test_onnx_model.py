"""The structure of ONNX files, and the rules for those that others run."""

import io

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import BOOL, FLOAT, graph, linear, model
from refused import refused

from arena.environments import declare
from arena.onnx.model import OnnxModel, TensorInfo, is_onnx, read_model
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode

SEEN, LOGITS = ("observation", FLOAT, ["B", 6]), ("answer_logits", FLOAT, ["B", 6])
SAME = helper.make_node("Identity", ["observation"], ["answer_logits"])


def read(data: bytes) -> OnnxModel:
    start = data[:8]
    assert is_onnx(start)
    return read_model(io.BytesIO(data[8:]), len(data), start)


def made(nodes=(SAME,), inputs=(SEEN,), outputs=(LOGITS,), weights=None):
    return model(nodes, inputs, outputs, weights)


def test_inputs_outputs_and_metadata_are_read():
    found = read(linear(6, "answer", 5, environment="recall", signature="1"))
    assert found.inputs == {
        "observation": TensorInfo("observation", "float32", (None, 6)),
        "mask_answer": TensorInfo("mask_answer", "bool", (None, 5)),
    }
    assert found.outputs == ["answer_logits"]
    assert found.metadata == {"environment": "recall", "signature": "1"}
    assert found.memory == []


def test_large_weights_are_skipped_and_those_listed_as_inputs_are_no_memory():
    weights = {"weights": np.zeros((6, 500_000), np.float32)}
    listed = made(inputs=[SEEN, ("weights", FLOAT, [6, 500_000])], weights=weights)
    assert list(read(listed.SerializeToString()).inputs) == ["observation"]


def test_memory_is_every_other_input():
    inputs = [SEEN, ("mask_answer", BOOL, ["B", 6]), ("held", FLOAT, ["B", 2, 3])]
    outputs = [LOGITS, ("next_held", FLOAT, ["B", 2, 3])]
    found = read(
        made([SAME, helper.make_node("Identity", ["held"], ["next_held"])], inputs, outputs).SerializeToString()
    )
    assert found.memory == [TensorInfo("held", "float32", (None, 2, 3))]


def test_safetensors_and_onnx_are_told_apart_by_their_first_bytes():
    spec = declare("rps")
    assert not is_onnx(encode(ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=6)), spec)[:8])
    for length in (*range(2, 2000), 8 * 2**20):
        assert not is_onnx(length.to_bytes(8, "little"))
    assert not is_onnx(b"")
    assert is_onnx(linear(6, "answer", 5)[:8])


def external() -> bytes:
    broken = made(weights={"far": np.zeros(3, np.float32)})
    tensor = broken.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return broken.SerializeToString()


def external_constant() -> bytes:
    value = helper.make_tensor("far", FLOAT, [1], [1.0])
    value.ClearField("float_data")
    value.external_data.add(key="location", value="/etc/passwd")
    return made([SAME, helper.make_node("Constant", [], ["far"], value=value)]).SerializeToString()


def branching() -> bytes:
    body = graph([helper.make_node("Identity", ["observation"], ["kept"])], [], [("kept", FLOAT, ["B", 6])])
    branch = helper.make_node("If", ["always"], ["answer_logits"], then_branch=body, else_branch=body)
    return made([branch], weights={"always": np.array(True)}).SerializeToString()


def with_function() -> bytes:
    broken = made()
    broken.functions.append(helper.make_function("own", "Own", ["x"], ["y"], [SAME], [helper.make_opsetid("", 17)]))
    return broken.SerializeToString()


def with_sparse() -> bytes:
    broken = made()
    broken.graph.sparse_initializer.add()
    return broken.SerializeToString()


REFUSED = {
    "custom operator": (
        made([helper.make_node("Attend", ["observation"], ["answer_logits"], domain="com.lab")]).SerializeToString(),
        ("'Attend'", "'com.lab'"),
    ),
    "random": (
        made([helper.make_node("RandomNormalLike", ["observation"], ["answer_logits"])]).SerializeToString(),
        ("'RandomNormalLike'",),
    ),
    "weights elsewhere": (external(), ("'far'", "external_data=False")),
    "constant elsewhere": (external_constant(), ("'far'",)),
    "control flow": (branching(), ("control flow",)),
    "function": (with_function(), ("functions",)),
    "sparse": (with_sparse(), ("sparse",)),
    "no observation": (made(inputs=[("seen", FLOAT, ["B", 6])]).SerializeToString(), ("'seen'", "'observation'")),
    "text": (made(inputs=[("observation", TensorProto.STRING, ["B", 6])]).SerializeToString(), ("string", "float32")),
    "fixed batch": (made(inputs=[("observation", FLOAT, [2, 6])]).SerializeToString(), ("'observation'", "[2, 6]")),
    "no shape": (made(inputs=[("observation", FLOAT, None)]).SerializeToString(), ("'observation'",)),
    "memory without next": (made(inputs=[SEEN, ("held", FLOAT, ["B", 2])]).SerializeToString(), ("'next_held'",)),
    "memory of any size": (
        made(inputs=[SEEN, ("held", FLOAT, ["B", "H"])], outputs=[LOGITS, ("next_held", FLOAT, ["B", "H"])])
        .SerializeToString(),
        ("'held'", "['?', '?']"),
    ),
    "much memory": (
        made(inputs=[SEEN, ("held", FLOAT, ["B", 70_000])], outputs=[LOGITS, ("next_held", FLOAT, ["B", 70_000])])
        .SerializeToString(),
        (70_000, 65_536 - 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "values"), REFUSED.values(), ids=REFUSED.keys())
def test_models_that_break_a_rule_are_refused_by_value(data, values):
    with refused("invalid-onnx-model", *values):
        read(data)


def test_every_truncated_or_changed_file_is_refused_or_read():
    whole = linear(6, "answer", 5, environment="recall")
    for size in range(8, len(whole)):
        with refused("invalid-onnx-model"):
            read_model(io.BytesIO(whole[8:size]), len(whole), whole[:8])
    rng = np.random.default_rng(0)
    for _ in range(3000):
        changed = bytearray(whole)
        changed[rng.integers(8, len(whole))] = rng.integers(256)
        try:
            read(bytes(changed))
        except ValueError as error:
            assert error.code == "invalid-onnx-model"  # noqa: PT017


def test_a_file_of_countless_fields_ends_early():
    with refused("invalid-onnx-model", 500_000):
        read(b"\x08\x08\x12\x01x" + b"\x28\x01" * 600_000)
