from types import SimpleNamespace

import pytest
import torch

from arena.environments.base import Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.policies import ActorCritic, Architecture, CoreKind, NetworkPolicy, PackedRuns, RecurrentState
from arena.policies.nn import recurrent as cores
from arena.policies.nn.actor_critic import LOG_STD_RANGE, OBSERVATION_CLIP
from arena.policies.nn.mlp import EncoderKind, make_layers
from arena.policies.nn.packed_runs import reset_rows

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 2, masked=True),
    ActionHead("trigger", HeadKind.BERNOULLI, 3, masked=False),
    ActionHead("target", HeadKind.CATEGORICAL, 4, masked=True),
)
SIZES = {
    "observation_size": 7,
    "heads": HEADS,
    "encoder_sizes": (24, 16),
    "recurrent_size": 16,
    "initial_log_std": -0.5,
    "sets": (),
}
CORES = (CoreKind.LSTM, CoreKind.FEEDFORWARD)
L, R = 9, 5


@pytest.fixture(params=[(core, encoder) for core in CORES for encoder in EncoderKind], ids=" ".join)
def network(request: pytest.FixtureRequest) -> ActorCritic:
    torch.manual_seed(0)
    core, encoder = request.param
    return ActorCritic(Architecture(core=core, encoder=encoder, **SIZES))


@pytest.fixture
def recurrent() -> ActorCritic:
    torch.manual_seed(0)
    return ActorCritic(Architecture(core=CoreKind.LSTM, encoder=EncoderKind.TANH, **SIZES))


def random_state(network: ActorCritic, rows: int) -> RecurrentState:
    """A state that some history has left behind."""
    return RecurrentState(*(torch.tanh(torch.randn_like(part)) for part in network.initial_state(rows)))


def whole_runs(steps: int, rows: int) -> PackedRuns:
    """Runs that are all equally long."""
    return PackedRuns.of(torch.full((rows,), steps), steps)


def nobody(rows: int) -> torch.Tensor:
    return torch.zeros(rows, dtype=torch.bool)


def test_whole_sequence_equals_the_loop_of_steps(network: ActorCritic):
    values, state = torch.randn(L, R, 7), random_state(network, R)
    whole = network.sequence(values.flatten(0, 1), state, whole_runs(L, R))

    for t in range(L):
        step = network.step(values[t], state, nobody(R), ~nobody(R))
        torch.testing.assert_close(step.parameters, whole.parameters.view(L, R, -1)[t], atol=1e-5, rtol=0.0)
        torch.testing.assert_close(step.value, whole.value.view(L, R)[t], atol=1e-5, rtol=0.0)
        state = step.state


@pytest.mark.holds("B4")
def test_rows_at_an_episode_start_forget_and_no_others(recurrent: ActorCritic):
    values, state = torch.randn(R, 7), random_state(recurrent, R)
    start = torch.tensor([False, True, False, False, True])

    reset = recurrent.step(values, state, start, ~nobody(R))
    kept = recurrent.step(values, state, nobody(R), ~nobody(R))
    fresh = recurrent.step(values, recurrent.initial_state(R), nobody(R), ~nobody(R))

    for name in ("parameters", "value"):
        assert torch.equal(getattr(reset, name)[~start], getattr(kept, name)[~start])
        assert torch.equal(getattr(reset, name)[start], getattr(fresh, name)[start])
    assert not torch.equal(kept.value[start], fresh.value[start])
    for after, before in zip(reset_rows(state, start), state, strict=True):
        assert torch.equal(after[~start], before[~start])
        assert float(after[start].abs().sum()) == 0.0


def test_inactive_rows_keep_their_state_bit_by_bit(recurrent: ActorCritic):
    state, active = random_state(recurrent, R), torch.tensor([True, False, True, False, True])

    after = recurrent.step(torch.randn(R, 7), state, nobody(R), active).state

    for new, old in zip(after, state, strict=True):
        assert torch.equal(new[~active], old[~active])
        assert not torch.equal(new[active], old[active])


def test_memory_reaches_across_steps_only_with_recurrence():
    first, second = torch.randn(2, 1, 7), torch.randn(1, 7)
    for kind, remembers in ((CoreKind.LSTM, True), (CoreKind.FEEDFORWARD, False)):
        network = ActorCritic(Architecture(core=kind, encoder=EncoderKind.TANH, **SIZES))
        state, runs = network.initial_state(1), whole_runs(2, 1)
        values = [network.sequence(torch.cat([past, second]), state, runs).value[1].item() for past in first]
        assert (values[0] != values[1]) == remembers


@pytest.mark.holds("G7")
def test_rows_never_look_at_each_other(network: ActorCritic):
    values, state = torch.randn(R, 7), random_state(network, R)
    changed = values.clone()
    changed[2] += 1.0

    before, after = (network.step(each, state, nobody(R), ~nobody(R)) for each in (values, changed))

    others = torch.arange(R) != 2
    assert torch.equal(before.parameters[others], after.parameters[others])
    assert not torch.equal(before.parameters[2], after.parameters[2])


def assert_orthogonal(weight: torch.Tensor, gain: float) -> None:
    narrow = weight if weight.shape[0] <= weight.shape[1] else weight.t()
    torch.testing.assert_close(narrow @ narrow.t(), gain**2 * torch.eye(len(narrow)), atol=1e-5, rtol=0.0)


@pytest.mark.holds("G1", "G2")
def test_weights_start_orthogonal_with_their_gains(recurrent: ActorCritic):
    for layer in (recurrent.encoder[0], recurrent.encoder[2]):
        assert_orthogonal(layer.weight, 2.0**0.5)
    assert_orthogonal(recurrent.actor.weight, 0.01)
    assert_orthogonal(recurrent.critic.weight, 1.0)
    for weight in (recurrent.core.lstm.weight_ih_l0, recurrent.core.lstm.weight_hh_l0):
        for gate in weight.chunk(4):
            assert_orthogonal(gate, 1.0)
    forgetful = ActorCritic(Architecture(core=CoreKind.FEEDFORWARD, encoder=EncoderKind.TANH, **SIZES))
    assert_orthogonal(forgetful.core.layer.weight, 2.0**0.5)


@pytest.mark.holds("G2", "S9")
def test_forget_gate_starts_open_by_one_in_all(recurrent: ActorCritic):
    lstm, size = recurrent.core.lstm, SIZES["recurrent_size"]

    bias = lstm.bias_ih_l0 + lstm.bias_hh_l0

    expected = torch.zeros(4 * size)
    expected[size : 2 * size] = 1.0
    assert torch.equal(bias, expected)


@pytest.mark.holds("G1")
def test_policy_starts_mild(network: ActorCritic):
    output = network.step(torch.randn(500, 7), network.initial_state(500), nobody(500), ~nobody(500))

    assert output.parameters.detach().abs().mean().item() < 0.05


@pytest.mark.holds("A5")
@pytest.mark.parametrize(("raw", "bounded"), [(-100.0, LOG_STD_RANGE[0]), (100.0, LOG_STD_RANGE[1]), (-0.7, -0.7)])
def test_log_std_stays_in_its_range_and_the_loss_finite(recurrent: ActorCritic, raw: float, bounded: float):
    with torch.no_grad():
        recurrent.raw_log_std.fill_(raw)
    policy = recurrent.distribution(torch.zeros(3, 9), torch.ones(3, 6, dtype=torch.bool))

    sample = policy.sample(torch.Generator().manual_seed(0))

    assert recurrent.log_std.tolist() == pytest.approx([bounded] * 2)
    assert bool(policy.log_prob(sample).isfinite().all())


@pytest.mark.holds("A5")
def test_initial_log_std_follows_the_architecture(recurrent: ActorCritic):
    assert recurrent.log_std.tolist() == [-0.5, -0.5]


@pytest.mark.holds("A5", "S1")
def test_every_dimension_has_a_log_std_of_its_own(recurrent: ActorCritic):
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[:, 1] = False
    policy = recurrent.distribution(torch.zeros(3, 9), mask)

    policy.log_prob(policy.sample(torch.Generator().manual_seed(0)).detach())[:, 0].sum().backward()

    first, second = recurrent.raw_log_std.grad.tolist()
    assert first != 0.0
    assert second == 0.0


@pytest.mark.holds("G7")
def test_every_parameter_receives_a_gradient(network: ActorCritic):
    output = network.sequence(torch.randn(L * R, 7), network.initial_state(R), whole_runs(L, R))
    policy = network.distribution(output.parameters, torch.ones(L * R, 6, dtype=torch.bool))
    rng = torch.Generator().manual_seed(0)

    (policy.log_prob(policy.sample(rng).detach()).sum() + output.value.square().sum()).backward()

    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
        assert float(parameter.grad.abs().sum()) > 0.0, name


@pytest.mark.holds("D6")
def test_observations_are_normalised_and_clipped(network: ActorCritic):
    network.observation_mean.fill_(2.0)
    network.observation_std.fill_(4.0)
    inside, remaining_slices = 2.0 + 4.0 * OBSERVATION_CLIP, 1e9
    plain = ActorCritic(network.architecture)
    plain.load_state_dict(network.state_dict())
    plain.observation_mean.fill_(0.0)
    plain.observation_std.fill_(1.0)

    def value(of: ActorCritic, observed: float) -> float:
        seen = (of.observation_mean + of.observation_std).unsqueeze(0)
        seen[0, 0] = observed
        return of.step(seen, of.initial_state(1), nobody(1), ~nobody(1)).value.item()

    assert value(network, 8.0) == pytest.approx(value(plain, 1.5))
    assert value(network, inside) == value(network, remaining_slices)
    assert value(network, inside) != value(network, 8.0)


def share_that_passes_gradient(kind: EncoderKind, scale: float) -> float:
    """Share of features that still move, in proportion, with what goes into them."""
    torch.manual_seed(0)
    linear, *rest = make_layers(kind, (7, 64))
    mapped = linear(scale * torch.randn(200, 7)).detach().requires_grad_()
    features = torch.nn.Sequential(*rest)(mapped.clone())
    (features * torch.randn(64)).sum().backward()
    return float((scale * mapped.grad.abs() > 0.01).float().mean())


@pytest.mark.holds("G4")
def test_rectified_features_pass_gradient_however_large_their_input():
    assert share_that_passes_gradient(EncoderKind.TANH, 1.0) > 0.9
    assert share_that_passes_gradient(EncoderKind.TANH, 100.0) < 0.1
    for scale in (1.0, 10.0, 100.0):
        assert share_that_passes_gradient(EncoderKind.RELU_NORM, scale) > 0.4


@pytest.mark.holds("G4")
def test_rectified_features_are_a_layer_norm_and_a_relu():
    linear, norm, _ = encoder = make_layers(EncoderKind.RELU_NORM, (7, 64))
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    seen = torch.randn(50, 7)

    mapped = linear(seen)
    deviation, mean = torch.std_mean(mapped, dim=-1, correction=0, keepdim=True)
    expected = (norm.weight * (mapped - mean) / (deviation.square() + norm.eps).sqrt() + norm.bias).clamp(min=0.0)

    torch.testing.assert_close(encoder(seen), expected, atol=1e-5, rtol=0.0)


@pytest.mark.holds("G3")
def test_core_output_is_normalised_before_the_heads(network: ActorCritic, monkeypatch: pytest.MonkeyPatch):
    for scale in (0.1, 1.0, 10.0, 1000.0):
        output = scale * torch.randn(50, 16)
        monkeypatch.setattr(network.core, "sequence", lambda *_, output=output: output)
        read = network.sequence(torch.randn(50, 7), network.initial_state(10), whole_runs(5, 10))
        torch.testing.assert_close(read.features.norm(dim=-1), torch.full((50,), 4.0), rtol=0.01, atol=0.0)
        torch.testing.assert_close(read.features.mean(dim=-1), torch.zeros(50), rtol=0.0, atol=1e-5)
        torch.testing.assert_close(read.value, network.critic(read.features).squeeze(-1))
        torch.testing.assert_close(read.parameters, network.actor(read.features))


def observe(rows: int) -> Observation:
    return Observation(
        values=torch.randn(rows, 7),
        masks={
            "move": torch.ones(rows, 2, dtype=torch.bool),
            "target": torch.tensor([[False, True, True, False]] * rows),
        },
        active=~nobody(rows),
    )


@pytest.mark.holds("B2", "D6")
def test_player_acts_without_a_graph_in_evaluation_mode_and_within_its_masks(network: ActorCritic):
    policy = NetworkPolicy(network.train(), "game", "0" * 16)
    assert not policy.network.training

    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}

    actions, state = policy.act(observe(200), policy.initial_state(200), ~nobody(200), torch.Generator().manual_seed(0))

    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert set(actions["target"].tolist()) == {1, 2}
    assert actions["move"].shape == (200, 2)
    assert actions["trigger"].shape == (200, 3)
    for tensor in (*actions.values(), *state):
        assert not tensor.requires_grad
        assert tensor.grad_fn is None


def test_player_repeats_itself_from_the_same_generator(recurrent: ActorCritic):
    policy, observation = NetworkPolicy(recurrent, "game", "0" * 16), observe(20)

    first, second = (
        policy.act(observation, policy.initial_state(20), ~nobody(20), torch.Generator().manual_seed(4))[0]
        for _ in range(2)
    )

    for name, action in first.items():
        assert torch.equal(action, second[name])


# --- half precision on a GPU -----------------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[SimpleNamespace]:
    """Calls of `torch.lstm`, made as on a GPU, where autocast would run `nn.LSTM` in float16."""
    lstm, made = torch.lstm, []

    def record(padded, state, weights, biases, layers, dropout, train, *rest):
        mixed = torch.is_autocast_enabled("cpu")
        made.append(SimpleNamespace(tensors=[padded, *state, *weights], weights=weights, train=train, mixed=mixed))
        return lstm(padded, state, weights, biases, layers, dropout, train, *rest)

    monkeypatch.setattr(torch, "lstm", record)
    monkeypatch.setattr(cores, "casts_lstm_to_float16", torch.is_autocast_enabled)
    return made


def test_torch_casts_an_lstm_to_float16_under_autocast_on_a_gpu_alone():
    assert not cores.casts_lstm_to_float16("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        assert cores.casts_lstm_to_float16("cuda")
    finally:
        torch.set_autocast_enabled("cuda", False)
    with torch.autocast("cpu", torch.bfloat16):
        assert not cores.casts_lstm_to_float16("cpu")


@pytest.mark.holds("I2")
@pytest.mark.parametrize("training", [True, False])
def test_on_a_gpu_an_lstm_in_half_precision_runs_in_bfloat16(recurrent, calls, training):
    values, state = torch.randn(L * R, 7), random_state(recurrent, R)
    recurrent.train(training).sequence(values, state, whole_runs(L, R), half=True)
    (call,) = calls
    assert {each.dtype for each in call.tensors} == {torch.bfloat16}
    assert not call.mixed, "autocast would cast to float16 what is bfloat16"
    assert call.train is training, "cuDNN has no backward pass otherwise"


def test_on_a_gpu_weights_in_half_precision_lie_as_cudnn_reads_them(recurrent, calls):
    values, state = torch.randn(L * R, 7), random_state(recurrent, R)
    recurrent.sequence(values, state, whole_runs(L, R), half=True)
    (call,) = calls
    offset = 0
    for own, cast in zip(recurrent.core.lstm.all_weights[0], call.weights, strict=True):
        assert torch.equal(cast, own.bfloat16())
        assert (cast.storage_offset(), cast.is_contiguous()) == (offset, True)
        offset += own.numel()
    storage = call.weights[0].untyped_storage()
    assert storage.nbytes() == 2 * offset
    assert {each.untyped_storage().data_ptr() for each in call.weights} == {storage.data_ptr()}


def test_on_a_gpu_gradients_in_half_precision_are_those_in_single_precision_within_its_rounding(recurrent, calls):
    values, state = torch.randn(L * R, 7), random_state(recurrent, R)
    gradients = []
    for half in (False, True):
        recurrent.zero_grad()
        recurrent.sequence(values, state, whole_runs(L, R), half=half).value.square().mean().backward()
        gradients.append(torch.cat([each.grad.flatten() for each in recurrent.core.parameters()]))
    single, half = gradients
    assert len(calls) == 1
    assert half.dtype is torch.float32
    assert 0.0 < float((half - single).norm()) < 0.05 * float(single.norm())


def test_on_a_gpu_gradients_too_small_for_float16_reach_the_weights(recurrent, calls):
    values, state = torch.randn(L * R, 7), random_state(recurrent, R)
    loss = 1e-12 * recurrent.sequence(values, state, whole_runs(L, R), half=True).value.sum()
    loss.backward()
    weight = recurrent.core.lstm.weight_hh_l0.grad
    assert 0.0 < float(weight.abs().max()) < torch.finfo(torch.float16).tiny / 1000
