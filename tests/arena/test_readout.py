"""What is read out in native code, held to the LayerNorm and the linear layers of torch."""

import pytest
import torch
import torch.nn.functional as F

from arena.environments import make
from arena.errors import ArenaError
from arena.policies import ActorCritic, Architecture, network

native = pytest.importorskip("arena.policies.readout")

UNITS = 48


def drawn(rows: int, units: int = UNITS, actors: int = 9) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((rows, units), (units,), (units,), (actors, units), (actors,), (1, units), (1,))
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def plain(hidden, scale, offset, actor, actor_bias, critic, critic_bias):
    features = F.layer_norm(hidden, hidden.shape[1:], scale, offset)
    return features, F.linear(features, actor, actor_bias), F.linear(features, critic, critic_bias).squeeze(-1)


@pytest.mark.parametrize(("units", "actors"), [(16, 1), (48, 9), (128, 70)])
@pytest.mark.parametrize("rows", [1, 3, 4, 5, 513])
@pytest.mark.parametrize("count", [1, 2])
def test_outputs_and_every_gradient_are_those_of_torch(units, actors, rows, count, threads):
    threads(count)
    given = drawn(rows, units, actors)
    output, wanted = native.read_out(*given), plain(*given)
    weights = [torch.randn_like(each) for each in wanted]
    gradients, meant = (torch.autograd.grad(each, given, weights) for each in (output, wanted))
    for one, other in zip((*output, *gradients), (*wanted, *meant), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=4e-6 * float(other.detach().abs().max()))


@pytest.mark.parametrize("used", [[0], [1], [2], [0, 2]])
def test_outputs_that_the_loss_does_not_use_give_no_gradient(used):
    given = drawn(7)
    losses = [sum(read(*given)[number].sin().sum() for number in used) for read in (native.read_out, plain)]
    gradients, meant = (torch.autograd.grad(each, given, materialize_grads=True) for each in losses)
    for one, other in zip(gradients, meant, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6 * float(1.0 + other.abs().max()))


def test_rows_that_are_not_finite_stay_so_and_touch_no_other():
    given = drawn(6)
    with torch.no_grad():
        clean = native.read_out(*given)
        given[0][2, 5], given[0][3, 7] = torch.nan, torch.inf
        output = native.read_out(*given)
    rest = torch.tensor([0, 1, 4, 5])
    for one, other in zip(output, clean, strict=True):
        assert torch.equal(one[rest], other[rest])
        assert not one[2].isfinite().any()
        assert not one[3].isfinite().any()


def test_the_operator_keeps_its_promises_to_torch():
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(native.readout, tuple(drawn(5)), test_utils=tests)


@pytest.mark.parametrize("number", range(7))
def test_native_code_refuses_what_it_would_read_beyond(number):
    given = drawn(5)
    given[number] = given[number].detach().double()
    with pytest.raises(ArenaError, match="as its input"):
        native.read_out(*given)


@pytest.mark.parametrize("units", [64, 20])
def test_networks_say_the_same_with_and_without_native_code(units, monkeypatch):
    architecture = Architecture.of(make("mech-pack", num_envs=1).spec, recurrent_size=units, member_size=16)
    learner, values = ActorCritic(architecture), torch.randn(5, architecture.observation_size)
    rows = torch.ones(5, dtype=torch.bool)
    given = (values, learner.initial_state(5), rows, rows)
    output = learner.step(*given)
    monkeypatch.setattr(network, "has_readout", lambda units: False)
    for one, other in zip(output[:2], learner.step(*given)[:2], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
