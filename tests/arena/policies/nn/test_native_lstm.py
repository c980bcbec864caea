"""Runs of decisions through an LSTM in native code, held to the fused call over padded runs and to the step loop."""

import itertools
import sys

import pytest
import torch
from refused import refused

from arena.policies import PackedRuns, RecurrentState
from arena.policies.nn import recurrent as cores
from arena.policies.nn.recurrent import LSTMCore

native_lstm = pytest.importorskip("arena.policies.nn.native_lstm")

FEATURES, UNITS, STEPS, RUNS = 48, 64, 9, 70


@pytest.fixture
def core() -> LSTMCore:
    torch.manual_seed(0)
    core = LSTMCore(FEATURES, UNITS)
    for parameter in core.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return core


def random_runs(longest: int = STEPS) -> tuple[torch.Tensor, PackedRuns]:
    lengths = torch.randint(1, longest + 1, (RUNS,)).sort(descending=True).values
    return lengths, PackedRuns.of(lengths, STEPS)


def learned(core, features, state, runs, weights):
    """Outputs, and the gradients of everything that has one."""
    core.zero_grad()
    inputs = features.clone().requires_grad_()
    output = core.sequence(inputs, state, runs)
    (output * weights).sum().backward()
    return [output.detach(), inputs.grad, *(parameter.grad for parameter in core.parameters())]


def drawn(runs: PackedRuns) -> tuple[torch.Tensor, RecurrentState, torch.Tensor]:
    decisions = len(runs.padded_index)
    return torch.randn(decisions, FEATURES), RecurrentState(*torch.randn(2, RUNS, UNITS)), torch.randn(decisions, UNITS)


@pytest.mark.holds("B7")
@pytest.mark.parametrize("longest", [1, 5, STEPS])
def test_native_code_and_the_padded_call_agree_in_outputs_and_every_gradient(core, longest, monkeypatch):
    _, runs = random_runs(longest)
    given = drawn(runs)
    assert cores.has_native_lstm(UNITS)
    native = learned(core, given[0], given[1], runs, given[2])
    monkeypatch.setattr(cores, "has_native_lstm", lambda units: False)
    padded = learned(core, given[0], given[1], runs, given[2])
    for one, other in zip(native, padded, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6 * float(other.abs().max()))


@pytest.mark.parametrize("features", [1, 47, 65])
@pytest.mark.parametrize("lengths", [[1], [9], [3, 1], [2] * 32, [2] * 33, [2] + [0] * 69])
def test_any_number_of_features_and_decisions_fits(features, lengths, monkeypatch):
    torch.manual_seed(0)
    core, runs = LSTMCore(features, UNITS), PackedRuns.of(torch.tensor(lengths), STEPS)
    decisions, state = sum(lengths), RecurrentState(*torch.randn(2, len(lengths), UNITS))
    given = torch.randn(decisions, features), state, runs, torch.randn(decisions, UNITS)
    native = learned(core, *given)
    monkeypatch.setattr(cores, "has_native_lstm", lambda units: False)
    for one, other in zip(native, learned(core, *given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6 * float(other.abs().max()))


def test_features_that_need_no_gradient_get_none_and_change_that_of_no_weight(core):
    _, runs = random_runs()
    features, state, weights = drawn(runs)
    wanted = learned(core, features, state, runs, weights)[2:]
    core.zero_grad()
    (core.sequence(features, state, runs) * weights).sum().backward()
    assert all(torch.equal(parameter.grad, one) for parameter, one in zip(core.parameters(), wanted, strict=True))


def test_half_precision_leaves_an_odd_number_of_features_in_single_precision():
    core, (_, runs) = LSTMCore(47, UNITS), random_runs()
    features, state = torch.randn(len(runs.padded_index), 47), RecurrentState(*torch.randn(2, RUNS, UNITS))
    with torch.autocast("cpu", torch.bfloat16):
        half = core.sequence(features, state, runs)
    assert torch.equal(half, core.sequence(features, state, runs))


def test_without_openmp_one_thread_takes_all_runs(core, threads, monkeypatch):
    _, runs = random_runs()
    features, state, _ = drawn(runs)
    threads(3)
    shared = core.sequence(features, state, runs)
    monkeypatch.setattr(native_lstm, "openmp", lambda: None)
    assert torch.equal(core.sequence(features, state, runs), shared)


def test_outputs_are_those_of_the_step_loop(core):
    lengths, runs = random_runs()
    features, state, _ = drawn(runs)
    output = core.sequence(features, state, runs).detach()
    for t in range(STEPS):
        rows = slice(int(runs.first[t]), int(runs.first[t + 1]))
        alive = int((lengths > t).sum())
        stepped, state = core.step(features[rows], RecurrentState(*(part[:alive] for part in state)))
        torch.testing.assert_close(output[rows], stepped, rtol=0.0, atol=1e-6)


def test_threads_share_the_runs_and_change_no_bit(core, threads):
    """What a run gives does not hang on who shares its thread; sums over all decisions are torch's own."""
    _, runs = random_runs()
    features, state, weights = drawn(runs)
    results = []
    for count in (1, 2, 3):
        threads(count)
        results.append(learned(core, features, state, runs, weights)[:2])
    for result in results[1:]:
        assert torch.equal(result[0], results[0][0])
        torch.testing.assert_close(result[1], results[0][1], rtol=1e-6, atol=1e-6)


@pytest.mark.holds("I2")
@pytest.mark.skipif(not native_lstm.supports_bfloat16(), reason="this processor does not multiply bfloat16")
def test_half_precision_rounds_factors_and_not_sums(core):
    """Outputs and gradients are off by a few roundings to eight bits, however many terms their sums have."""
    _, runs = random_runs()
    features, state, weights = drawn(runs)
    full = learned(core, features, state, runs, weights)
    with torch.autocast("cpu", torch.bfloat16):
        half = learned(core, features, state, runs, weights)
    for one, other in zip(half, full, strict=True):
        assert one.dtype is torch.float32
        assert 0.0 < float((one - other).norm()) < 2.0**-7 * float(other.norm())


@pytest.mark.skipif(not native_lstm.supports_tiles(), reason="this processor has no AMX")
@pytest.mark.parametrize("lengths", [[1], [9], [2] * 32, [2] * 33, [3] * 15 + [1] * 40])
def test_tiles_and_dot_products_of_bfloat16_agree(lengths, monkeypatch):
    core, runs = LSTMCore(64, UNITS), PackedRuns.of(torch.tensor(lengths), STEPS)
    decisions, state = sum(lengths), RecurrentState(*torch.randn(2, len(lengths), UNITS))
    given = torch.randn(decisions, 64), state, runs, torch.randn(decisions, UNITS)
    with torch.autocast("cpu", torch.bfloat16):
        by_tiles = learned(core, *given)
        monkeypatch.setattr(native_lstm, "supports_tiles", lambda: False)
        by_dot_products = learned(core, *given)
    for one, other in zip(by_tiles, by_dot_products, strict=True):
        assert float((one - other).norm()) < 2.0**-8 * float(other.norm())


def test_parts_of_the_runs_are_equally_long_and_leave_none_out():
    lengths, runs = random_runs()
    balance_runs = native_lstm.balance_runs(runs.first.tolist(), 3)
    assert balance_runs[0] == 0
    assert balance_runs[-1] == RUNS
    decisions = [int(lengths[begin:end].sum()) for begin, end in itertools.pairwise(balance_runs)]
    assert max(decisions) - min(decisions) <= 2 * STEPS


def test_the_operator_keeps_its_promises_to_torch(core):
    _, runs = random_runs()
    features, state, _ = drawn(runs)
    weight_ih, weight_hh, bias_ih, bias_hh = core.lstm.all_weights[0]
    given = (features.requires_grad_(), *state, weight_ih, weight_hh, (bias_ih + bias_hh).detach(), runs.first, False)
    torch.library.opcheck(
        native_lstm.lstm_forward, given, test_utils=("test_schema", "test_autograd_registration", "test_faketensor")
    )


@pytest.mark.parametrize("units", [16, 65])
def test_other_widths_go_through_torch(units):
    assert not cores.has_native_lstm(units)


def test_without_warp_torch_is_used(monkeypatch):
    cores._load_native.cache_clear()
    monkeypatch.delitem(sys.modules, "arena.policies.nn.native_lstm")
    monkeypatch.delitem(sys.modules, "arena.native.warp")
    monkeypatch.delattr("arena.policies.nn.native_lstm", raising=False)
    monkeypatch.setitem(sys.modules, "warp", None)
    assert not cores.has_native_lstm(UNITS)
    cores._load_native.cache_clear()


@pytest.mark.parametrize(
    "change",
    [
        lambda features, state, runs: (features[:-1], state, runs),
        lambda features, state, runs: (features, RecurrentState(state.hidden[:3], state.cell[:3]), runs),
        lambda features, state, runs: (features, RecurrentState(state.hidden, state.cell.double()), runs),
        lambda features, state, runs: (features, RecurrentState(state.hidden, state.cell[:, :16]), runs),
        lambda features, state, runs: (features, state, runs._replace(first=runs.first.long())),
    ],
)
def test_native_code_rejects_tensors_of_wrong_shape(core, change):
    """Unchecked, the first of these has ended the process."""
    _, runs = random_runs()
    features, state, _ = drawn(runs)
    with refused("invalid-input"):
        core.sequence(*change(features, state, runs))


@pytest.mark.skipif(not native_lstm.supports_bfloat16(), reason="this processor does not multiply bfloat16")
def test_inputs_in_half_precision_may_lie_in_any_order(core):
    _, runs = random_runs()
    features, state, _ = drawn(runs)
    with torch.autocast("cpu", torch.bfloat16):
        straight, other = (core.sequence(each, state, runs) for each in (features, features.t().contiguous().t()))
    assert torch.equal(straight, other)


def test_a_second_backward_pass_raises_since_the_first_reuses_the_memory_of_the_gates(core):
    _, runs = random_runs()
    features, state, _ = drawn(runs)
    loss = core.sequence(features, state, runs).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
