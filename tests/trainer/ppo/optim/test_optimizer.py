import copy

import pytest
import torch
from refused import refused

from trainer.config.schema import OptimizerSettings
from trainer.ppo.extra_losses import NextObservationLoss, WeightedLoss
from trainer.ppo.optim import optimizer as optimizers
from trainer.ppo.optim.optimizer import ALIGNMENT, FlatAdamW, flat_size, trainable_parameters, unflatten

SETTINGS = OptimizerSettings(adam_eps=1e-6, max_grad_norm=0.3, critic_lr_scale=3.0, critic_weight_decay=0.5)
RATE = 0.01


@pytest.fixture
def network(play):
    return copy.deepcopy(play().learner.network)


@pytest.fixture
def optimizer(network):
    return FlatAdamW(trainable_parameters(network), SETTINGS)


@pytest.fixture(params=[True, False], ids=["flat", "list"])
def _either_layout(request, monkeypatch):
    """Parameters in flat storage, as on a CPU, or in their own, as on a GPU."""
    monkeypatch.setattr(optimizers, "uses_flat_storage", lambda device: request.param)


def random_gradients(named, seed):
    """Return a random gradient for each parameter."""
    rng = torch.Generator().manual_seed(seed)
    return {name: torch.randn(each.shape, generator=rng) for name, each in named.items()}


def step(optimizer, named, seed):
    optimizer.learning_rate = RATE
    optimizer.zero_grad()
    for name, gradient in random_gradients(named, seed).items():
        named[name].grad = gradient if named[name].grad is None else named[name].grad.add_(gradient)
    norm = optimizer.clip_gradient()
    optimizer.step()
    return norm


@pytest.mark.holds("G8")
@pytest.mark.usefixtures("_either_layout")
@pytest.mark.parametrize(("factor", "decay"), [(3.0, 0.5), (1.0, 0.0)])
def test_steps_equal_torch_adamw(network, factor, decay):
    settings = OptimizerSettings(adam_eps=1e-6, max_grad_norm=0.3, critic_lr_scale=factor, critic_weight_decay=decay)
    alone = copy.deepcopy(network)
    named, theirs = trainable_parameters(network), dict(alone.named_parameters())
    optimizer = FlatAdamW(named, settings)
    critics = list(alone.critic.parameters())
    others = [each for each in alone.parameters() if all(each is not critic for critic in critics)]
    reference = torch.optim.AdamW(
        [
            {"params": others, "lr": RATE, "weight_decay": 0.0},
            {"params": critics, "lr": factor * RATE, "weight_decay": decay},
        ],
        eps=1e-6,
    )
    for seed in range(3):
        norm = step(optimizer, named, seed)
        for name, gradient in random_gradients(named, seed).items():
            theirs[name].grad = gradient
        torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(theirs.values(), 0.3))
        reference.step()
    assert named.keys() == theirs.keys()
    for name, parameter in named.items():
        torch.testing.assert_close(parameter, theirs[name])


@pytest.mark.usefixtures("_either_layout")
def test_a_minibatch_without_decisions_has_gradient_0(network):
    optimizer = FlatAdamW(trainable_parameters(network), SETTINGS)
    step(optimizer, optimizer._named, 0)
    optimizer.zero_grad()
    assert not optimizer.collect_gradient().any()


def test_parameters_are_disjoint_aligned_views_of_flat_storage(network):
    named = trainable_parameters(network, [WeightedLoss("Next", 1.0, NextObservationLoss(network))])
    optimizer = FlatAdamW(named, SETTINGS)
    for flat in (optimizer.flat_parameters, optimizer.flat_gradient):
        flat.fill_(1.0)
        for number, view in enumerate(unflatten(flat, named).values(), 2):
            assert bool((view == 1.0).all())  # no other parameter overlaps
            assert (view.data_ptr() - flat.data_ptr()) % (ALIGNMENT * flat.element_size()) == 0
            view.fill_(number)
    assert all(torch.equal(each, torch.full_like(each, number)) for number, each in enumerate(named.values(), 2))
    assert all(torch.equal(each.grad, each.detach()) for each in named.values())
    assert flat_size(named) >= sum(each.numel() for each in named.values())


@pytest.mark.usefixtures("_either_layout")
def test_restored_optimizer_continues_bit_for_bit(network):
    named = trainable_parameters(network)
    optimizer = FlatAdamW(named, SETTINGS)
    step(optimizer, named, seed=0)
    resumed = copy.deepcopy(network)
    other = FlatAdamW(trainable_parameters(resumed), SETTINGS)
    other.restore({name: tensor.clone() for name, tensor in optimizer.tensors().items()})
    assert other.steps == 1
    for one, own in ((optimizer, named), (other, trainable_parameters(resumed))):
        step(one, own, seed=1)
    assert all(torch.equal(each, dict(resumed.named_parameters())[name]) for name, each in named.items())
    assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in optimizer.tensors().items())


def test_state_is_empty_before_the_first_step(optimizer):
    assert optimizer.tensors() == {}
    optimizer.restore({})
    assert optimizer.steps == 0


def test_state_saved_on_a_cpu_restores_in_the_gpu_layout(network, optimizer, monkeypatch):
    step(optimizer, trainable_parameters(network), seed=0)
    saved = optimizer.tensors()
    monkeypatch.setattr(optimizers, "uses_flat_storage", lambda device: False)
    elsewhere = FlatAdamW(trainable_parameters(copy.deepcopy(network)), SETTINGS)
    elsewhere.restore(saved)
    assert elsewhere.tensors().keys() == saved.keys()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in elsewhere.tensors().items())


@pytest.mark.holds("H4")
def test_gpu_layout_keeps_lstm_weights_in_their_cudnn_buffer(network, monkeypatch):
    """cuDNN needs them contiguous from the start of a storage, as `flatten_parameters` allocates them."""
    monkeypatch.setattr(optimizers, "uses_flat_storage", lambda device: False)
    weights = network.core.lstm.all_weights[0]
    buffer = torch.cat([each.detach().flatten() for each in weights])
    for each, view in zip(weights, buffer.split([each.numel() for each in weights]), strict=True):
        each.data = view.view(each.shape)
    pointers, before = [each.data_ptr() for each in weights], buffer.clone()
    named = trainable_parameters(network)
    step(FlatAdamW(named, SETTINGS), named, seed=0)
    assert [each.data_ptr() for each in weights] == pointers
    assert pointers[0] == buffer.data_ptr()
    assert bool((buffer != before).all())


def move(parameter):
    parameter.data = parameter.data.clone()


def lose_the_gradient(parameter):
    parameter.grad = torch.zeros_like(parameter)


@pytest.mark.holds("H4")
@pytest.mark.parametrize(
    ("change", "values"),
    [
        (move, ("core.lstm.weight_ih_l0", "FlatAdamW")),
        (lose_the_gradient, ("core.lstm.weight_ih_l0",)),
    ],
)
def test_step_raises_an_error_if_a_parameter_left_the_flat_storage(network, optimizer, change, values):
    change(network.core.lstm.weight_ih_l0)
    with refused("stale-optimizer", *values):
        optimizer.step()
