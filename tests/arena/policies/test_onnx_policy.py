"""ONNX models play like the torch modules that they were exported from, alone and together."""

import io
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from onnx import helper
from onnx_models import BOOL, FLOAT, linear, model
from refused import refused

from arena.environments import HeadKind, declare
from arena.environments.base import Observation
from arena.environments.spec import ActionHead
from arena.play.side_policy import SidePolicies
from arena.policies import ActorCritic, Architecture, NetworkPolicy
from arena.policies.nn.actor_critic import OBSERVATION_CLIP
from arena.policies.nn.packed_runs import RecurrentState
from arena.policies.onnx.policy import OnnxBatch, OnnxPolicy, decode_model

HEADS = (
    ActionHead("choice", HeadKind.CATEGORICAL, 5, masked=True),
    ActionHead("move", HeadKind.GAUSSIAN, 2, masked=False),
    ActionHead("switch", HeadKind.BERNOULLI, 3, masked=True),
)
SPEC = replace(declare("recall"), heads=HEADS)
RECALL = declare("recall")
ROWS = 12


class Exported(torch.nn.Module):
    """What a user writes around a network to export it."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation, mask_choice, mask_switch, hidden, cell):
        network = self.network
        seen = (observation - network.observation_mean) / network.observation_std
        features = network.encoder(seen.clamp(-OBSERVATION_CLIP, OBSERVATION_CLIP))
        output, state = network.core.step(features, RecurrentState(hidden, cell))
        choice, move, switch = network.actor(network.norm(output)).split([5, 2, 3], dim=1)
        return choice.masked_fill(~mask_choice, -torch.inf), torch.tanh(move), switch, state.hidden, state.cell


def network_of(seed: int) -> ActorCritic:
    torch.manual_seed(seed)
    network = ActorCritic(Architecture.of(SPEC, encoder_sizes=(16,), recurrent_size=16)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        network.raw_log_std.fill_(-20.0)  # as good as no noise, which the model has none of
    return network


def export(network: ActorCritic) -> bytes:
    inputs = {"observation": (2, 6), "mask_choice": (2, 5), "mask_switch": (2, 3), "hidden": (2, 16), "cell": (2, 16)}
    outputs = ["choice_logits", "move", "switch_logits", "next_hidden", "next_cell"]
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter is a hundred times as fast
        torch.onnx.export(
            Exported(network),
            tuple(torch.ones(size, dtype=torch.bool if "mask" in name else None) for name, size in inputs.items()),
            file,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_axes={name: {0: "agents"} for name in (*inputs, *outputs)},
            dynamo=False,
        )
    return file.getvalue()


def seen(rows: int, decision: int) -> Observation:
    rng = torch.Generator().manual_seed(decision)
    masks = {head.name: torch.rand(rows, head.size, generator=rng) < 0.6 for head in HEADS if head.masked}
    masks["choice"][:, 0] = True
    active = torch.rand(rows, generator=rng) < 0.8
    return Observation(torch.rand(rows, 6, generator=rng), masks, active)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[NetworkPolicy, OnnxPolicy]]:
    networks = [network_of(seed) for seed in range(3)]
    return [(NetworkPolicy(each, "recall", "1"), decode_model(SPEC, export(each))) for each in networks]


def test_recurrent_masked_model_plays_like_its_torch_original(pairs):
    states, rngs = [each.initial_state(ROWS) for each in pairs[0]], (generator(), generator())
    for decision in range(8):
        observation, starts = seen(ROWS, decision), torch.arange(ROWS) % 4 == decision % 4
        (one, states[0]), (other, states[1]) = (
            policy.act(observation, state, starts, rng)
            for policy, state, rng in zip(pairs[0], states, rngs, strict=True)
        )
        acting = observation.active
        assert torch.equal(one["choice"][acting], other["choice"][acting])
        assert torch.equal(one["switch"][acting], other["switch"][acting])
        torch.testing.assert_close(one["move"][acting], other["move"][acting], atol=0.05, rtol=0.0)
        for part, expected in zip(states[1], states[0], strict=True):
            torch.testing.assert_close(part, expected, atol=1e-5, rtol=0.0)


def test_models_in_one_batch_play_as_they_do_alone(pairs):
    models = [exported for _, exported in pairs]
    order = [0, 1, 0, 2, 1, 0]
    batch, rng = OnnxBatch([models[each] for each in order], 2), generator()
    together, alone = batch.initial_state(ROWS), [models[each].initial_state(2) for each in order]
    for decision in range(6):
        observation, starts = seen(ROWS, decision), torch.arange(ROWS) % 3 == decision % 3
        _, together = batch.act(observation, together, starts, rng)
        for group, each in enumerate(order):
            rows = torch.arange(2 * group, 2 * group + 2)
            _, alone[group] = models[each].act(observation.rows(rows), alone[group], starts[rows], rng)
            for part, expected in zip(together, alone[group], strict=True):
                torch.testing.assert_close(part[rows], expected, atol=1e-6, rtol=0.0)


def test_a_side_of_models_and_networks_acts_in_two_calls(pairs):
    side = SidePolicies([policy for pair in pairs for policy in pair], 2)
    assert len(side._parts) == 2
    actions = side.act(seen(ROWS, 0), torch.ones(6, dtype=torch.bool), generator())
    assert actions["choice"].shape == (6, 2)


SEEN, MASK = ("observation", FLOAT, ["B", 6]), ("mask_answer", BOOL, ["B", 5])


def constant(**outputs: list) -> bytes:
    """Make a model for `recall` whose outputs are constant rows."""
    nodes = [helper.make_node("ReduceSum", ["observation", "axis"], ["sum"], keepdims=1)]
    nodes += [helper.make_node("Mul", ["sum", "zero"], ["nothing"])]
    weights = {"axis": np.array([1]), "zero": np.float32(0.0)}
    for name, row in outputs.items():
        weights[f"{name}_row"] = np.array(row, np.float32)
        nodes.append(helper.make_node("Add", ["nothing", f"{name}_row"], [name]))
    return model(nodes, [SEEN], [(name, FLOAT, ["B", None]) for name in outputs], weights).SerializeToString()


def played(policy: OnnxPolicy, legal: list[bool]) -> set[int]:
    observation = Observation(
        torch.zeros(64, 6), {"answer": torch.tensor([legal] * 64)}, torch.ones(64, dtype=torch.bool)
    )
    actions, _ = policy.act(observation, policy.initial_state(64), observation.active, generator())
    return set(actions["answer"].tolist())


@pytest.mark.parametrize("logits", [[0, 0, 9e9, 0, 0], [-np.inf, -np.inf, 0, -np.inf, -np.inf]])
def test_an_illegal_option_is_never_played(logits):
    policy = decode_model(RECALL, constant(answer_logits=logits))
    assert played(policy, [True] * 5) == {2}
    assert played(policy, [False, True, False, True, True]) <= {1, 3, 4}


def test_an_option_as_action_is_played_if_it_is_legal():
    made = model(
        [
            helper.make_node("ArgMax", ["observation"], ["answer"], axis=1, keepdims=0),
        ],
        [SEEN],
        [("answer", 7, ["B"])],
    )
    policy = decode_model(RECALL, made.SerializeToString())
    assert played(policy, [True] * 5) == {0}
    assert played(policy, [False, True, True, False, False]) == {1, 2}


def test_a_model_that_fails_during_a_match_plays_any_legal_action_and_is_logged_once(caplog):
    """This one passes for observations at their bounds, and looks beyond its table for others."""
    nodes = [
        helper.make_node("Mul", ["observation", "observation"], ["square"]),
        helper.make_node("Sub", ["observation", "square"], ["inside"]),
        helper.make_node("ReduceSum", ["inside", "axis"], ["sum"], keepdims=0),
        helper.make_node("Ceil", ["sum"], ["entry"]),
        helper.make_node("Cast", ["entry"], ["index"], to=7),
        helper.make_node("Gather", ["table", "index"], ["answer_logits"]),
    ]
    weights = {"axis": np.array([1]), "table": np.zeros((1, 5), np.float32)}
    made = model(nodes, [SEEN], [("answer_logits", FLOAT, ["B", 5])], weights)
    policy = decode_model(RECALL, made.SerializeToString())
    observation = Observation(
        torch.full((64, 6), 0.5),
        {"answer": torch.tensor([[False, True, True, False, False]] * 64)},
        torch.ones(64, dtype=torch.bool),
    )
    for _ in range(2):
        actions, _ = policy.act(observation, (), observation.active, generator())
        assert set(actions["answer"].tolist()) == {1, 2}
    assert len(caplog.records) == 1


WRONG = {
    "no head": (constant(other=[0] * 5), ("'answer'", 0)),
    "both": (constant(answer=[0], answer_logits=[0] * 5), ("'answer'", 2)),
    "shape": (constant(answer_logits=[0] * 4), ("'answer_logits'", "(3, 4)", "(B, 5)")),
    "NaN": (constant(answer_logits=[0, 0, 0, 0, np.nan]), ("NaN",)),
    "other game": (linear(7, "answer", 5), ("'observation'", "(B, 6)")),
    "other signature": (linear(6, "answer", 5, signature="recall-0"), ("recall-0", RECALL.signature)),
    "custom operator": (
        model([helper.make_node("Own", ["observation"], ["out"], domain="lab")], [SEEN], []).SerializeToString(),
        ("'Own'", "'lab'"),
    ),
    "no valid graph": (
        model([helper.make_node("MatMul", ["absent"], ["answer_logits"])], [SEEN], []).SerializeToString(),
        ("ONNX",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "values"), WRONG.values(), ids=WRONG.keys())
def test_a_model_that_cannot_play_is_refused_by_value(data, values):
    with refused("invalid-checkpoint", "player-7", *values):
        decode_model(RECALL, data, source="player-7")


def test_missing_onnxruntime_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with refused("missing-package", "onnxruntime", "echelon-league[onnx]"):
        decode_model(RECALL, linear(6, "answer", 5))
