"""What belongs to weights lives where they do. The `meta` device has no memory, and refuses to meet any other."""

import pytest
import torch
from torch import Tensor

from arena.environments import declare
from arena.policies import ActorCritic, Architecture, NetworkPolicy
from trainer.config.schema import OptimizerSettings
from trainer.opponents.actors import StackedActor, make_actor
from trainer.opponents.pool import Opponent
from trainer.ppo.optim.optimizer import FlatAdamW, trainable_parameters
from trainer.runtime.benchmark.synthetic_env import IdlePolicy, Synthetic, SyntheticSpec

WITHOUT_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
GPU = pytest.param("cuda", marks=[WITHOUT_GPU, pytest.mark.gpu])
SPEC = declare("mech-duel")
ROWS = 3


@pytest.fixture(params=["meta", GPU])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


def network_of(**options: int) -> ActorCritic:
    return ActorCritic(Architecture.of(SPEC, encoder_sizes=(16,), recurrent_size=16, **options)).eval()


def observed(device: torch.device) -> tuple[Tensor, Tensor]:
    """Observations and a flag of three rows."""
    values = torch.zeros(ROWS, SPEC.observation_size, device=device)
    return values, torch.ones(ROWS, dtype=torch.bool, device=device)


@pytest.mark.holds("T10")
@pytest.mark.parametrize("member_size", [0, 8])
def test_a_players_state_is_on_the_device_of_its_weights(device: torch.device, member_size: int):
    policy = NetworkPolicy(network_of(member_size=member_size).to(device), "mech-duel", SPEC.signature)
    state, (values, all_active) = policy.initial_state(ROWS), observed(device)

    after = policy.network.step(values, state, all_active, all_active)

    for tensor in (*state, *after.state, after.parameters):
        assert tensor.device.type == device.type


@pytest.mark.holds("T10")
@pytest.mark.parametrize("member_size", [0, 8])
def test_an_opponents_state_is_on_the_device_that_it_acts_on(device: torch.device, member_size: int):
    loaded = NetworkPolicy(network_of(member_size=member_size), "mech-duel", SPEC.signature)
    opponent = Opponent("key", "name", loaded)
    actor = make_actor(opponent, SPEC.num_agents, device, 2**20)
    assert isinstance(actor, StackedActor)
    actor.assign([opponent], ROWS)
    state, (values, all_active) = actor.initial_state(ROWS), observed(device)

    after = actor._binding.step(values, state, all_active, all_active)

    for tensor in (*state, *after.state, after.parameters):
        assert tensor.device.type == device.type


def test_the_synthetic_environment_is_on_the_learners_device(device: torch.device):
    item = SyntheticSpec()
    env = Synthetic(num_envs=ROWS, seed=0, item=item, device=str(device))
    observation = env.reset()
    starts = torch.ones(ROWS, dtype=torch.bool, device=device)
    actions, _ = IdlePolicy(item.action_size).act(observation, (), starts, torch.Generator())
    step = env.step({"act": torch.zeros(ROWS, 2, item.action_size, device=device)})
    outcome = step.outcome
    fields = (step.observation.values, step.observation.active, step.reward, step.terminated, step.truncated)
    for tensor in (*fields, outcome.score, outcome.reason, outcome.decisions, env.next_seeds, actions["act"]):
        assert tensor.device.type == device.type


@pytest.mark.holds("H4")
def test_the_optimisers_state_follows_the_weights_and_nothing_is_left_behind(device: torch.device):
    trained, moved = (
        FlatAdamW(trainable_parameters(each), OptimizerSettings()) for each in (network_of(), network_of().to(device))
    )
    trained.flat_gradient.fill_(1.0)
    trained.step()

    moved.restore(trained.tensors())

    assert moved.tensors().keys() == trained.tensors().keys()
    for name, tensor in trained.tensors().items():
        there = moved.tensors()[name]
        assert (there.device.type, there.shape) == (device.type, tensor.shape)
