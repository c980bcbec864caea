import copy

import pytest
import torch

from trainer.auxiliary import NextObservation
from trainer.optimizer import LANES, Optimizer, learned, length, parts
from trainer.settings import OptimizerSettings

SETTINGS = OptimizerSettings(
    epsilon=1e-6, max_gradient_norm=0.3, critic_learning_rate_factor=3.0, critic_weight_decay=0.5
)
RATE = 0.01


@pytest.fixture
def network(play):
    return copy.deepcopy(play().learner.network)


@pytest.fixture
def optimizer(network):
    return Optimizer(learned(network, None), SETTINGS)


def at_random(named, seed):
    """A gradient for each parameter."""
    rng = torch.Generator().manual_seed(seed)
    return {name: torch.randn(each.shape, generator=rng) for name, each in named.items()}


def step(optimizer, named, seed):
    optimizer.set_rate(RATE)
    optimizer.clear()
    for name, gradient in at_random(named, seed).items():
        named[name].grad.add_(gradient)
    norm = optimizer.clip()
    optimizer.step()
    return norm


@pytest.mark.parametrize(("factor", "decay"), [(3.0, 0.5), (1.0, 0.0)])
def test_steps_are_those_of_adamw_over_the_parameters_one_by_one(network, factor, decay):
    settings = OptimizerSettings(
        epsilon=1e-6, max_gradient_norm=0.3, critic_learning_rate_factor=factor, critic_weight_decay=decay
    )
    alone = copy.deepcopy(network)
    named, theirs = learned(network, None), dict(alone.named_parameters())
    optimizer = Optimizer(named, settings)
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
        for name, gradient in at_random(named, seed).items():
            theirs[name].grad = gradient
        torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(theirs.values(), 0.3))
        reference.step()
    assert named.keys() == theirs.keys()
    for name, parameter in named.items():
        torch.testing.assert_close(parameter, theirs[name])


def test_every_parameter_has_a_place_of_its_own_that_a_vector_begins_at(network):
    named = learned(network, NextObservation(network))
    optimizer = Optimizer(named, SETTINGS)
    for row in (optimizer.values, optimizer.gradient):
        row.fill_(1.0)
        for number, place in enumerate(parts(row, named).values(), 2):
            assert bool((place == 1.0).all())  # nobody else has written there
            assert (place.data_ptr() - row.data_ptr()) % (LANES * row.element_size()) == 0
            place.fill_(number)
    assert all(torch.equal(each, torch.full_like(each, number)) for number, each in enumerate(named.values(), 2))
    assert all(torch.equal(each.grad, each.detach()) for each in named.values())
    assert length(named) >= sum(each.numel() for each in named.values())


def test_what_is_saved_goes_on_as_if_nothing_had_happened(network, optimizer):
    named = learned(network, None)
    step(optimizer, named, seed=0)
    resumed = copy.deepcopy(network)
    other = Optimizer(learned(resumed, None), SETTINGS)
    other.restore({name: tensor.clone() for name, tensor in optimizer.tensors().items()})
    assert other.steps == 1
    for one, own in ((optimizer, named), (other, learned(resumed, None))):
        step(one, own, seed=1)
    assert torch.equal(optimizer.values, other.values)
    assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in optimizer.tensors().items())


def test_nothing_is_saved_of_an_optimiser_that_has_not_moved(optimizer):
    assert optimizer.tensors() == {}
    optimizer.restore({})
    assert optimizer.steps == 0
