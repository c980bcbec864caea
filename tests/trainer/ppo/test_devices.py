"""What belongs to weights lives where they do.

The `meta` device has no memory: it refuses to meet any other device, and to tell the host a number.
"""

import numpy as np
import pytest
import torch
from torch import Tensor

from arena.environments import declare
from arena.environments.base import Observation
from arena.policies import ActorCritic, Architecture, NetworkPolicy
from arena.policies.nn.packed_runs import PackedRuns
from trainer.config.schema import OptimizerSettings, PPOSettings
from trainer.opponents.actors import StackedActor, make_actor
from trainer.opponents.agent_index import AgentIndex
from trainer.opponents.pool import Opponent
from trainer.ppo.loss import LossCoefficients, PPOLoss
from trainer.ppo.optim.optimizer import FlatAdamW, trainable_parameters
from trainer.ppo.ppo import PPO
from trainer.ppo.sequences import SequenceBatch
from trainer.rollout.actor import RolloutActor
from trainer.rollout.buffer import RolloutBuffer
from trainer.runtime.benchmark.synthetic_env import IdlePolicy, Synthetic, SyntheticSpec

WITHOUT_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
GPU = pytest.param("cuda", marks=[WITHOUT_GPU, pytest.mark.gpu])
SPEC = declare("mech-duel")
ROWS, STEPS = 3, 4


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
    actor.move(np.array([-1]), ROWS)
    actor.assign(np.array([0]), [opponent], ROWS)
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


@pytest.mark.parametrize("member_size", [0, 8])
def test_acting_for_a_chunk_stays_on_the_device_and_waits_for_no_result(device: torch.device, member_size: int):
    network = network_of(member_size=member_size).to(device)
    buffer = RolloutBuffer.allocate(network, steps=2 * STEPS, rows=ROWS, bptt_horizon=STEPS)
    actor = RolloutActor(network, ROWS, SPEC.num_agents)
    actor.refresh_weights()
    actor.begin_chunk(buffer, 0, torch.Generator())
    actor._noise = actor._noise.to(device)  # a generator of the device draws it there

    rows = AgentIndex(SPEC, ROWS, device).learner
    seen = (ROWS, SPEC.num_agents)
    on = {"dtype": torch.bool, "device": device}
    masks = {head.name: torch.ones(*seen, head.size, **on) for head in SPEC.heads if head.masked}
    observation = Observation(torch.zeros(*seen, SPEC.observation_size, device=device), masks, torch.ones(seen, **on))
    for t in range(STEPS):
        actor.act(buffer, t, rows, observation, torch.zeros(ROWS, **on))
    actor.finish_chunk(buffer, 0)

    assert {each.device.type for each in actor.state} == {device.type}


@pytest.mark.parametrize("member_size", [0, 8])
def test_forward_and_backward_pass_stay_on_the_device_and_wait_for_no_result(device: torch.device, member_size: int):
    network, count = network_of(member_size=member_size).to(device), STEPS * ROWS
    ppo = PPO(
        network,
        PPOSettings(),
        OptimizerSettings(),
        torch.Generator(),
        loss=PPOLoss(PPOSettings(), network.layout, device),
    )
    layout, runs = network.layout, PackedRuns.of(torch.full((ROWS,), STEPS), STEPS)

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, device=device)

    batch = SequenceBatch(
        observation=zeros(count, SPEC.observation_size),
        state=network.initial_state(ROWS),
        runs=PackedRuns(*(each.to(device) for each in runs)),
        loss_mask=zeros(count).bool(),
        loss_index=None,
        index=zeros(count).long(),
        noise=layout.draw_entropy_noise((count,), torch.Generator()).to(device),
        action_mask=zeros(count, layout.mask_size).bool(),
        raw_action=zeros(count, layout.raw_size),
        log_prob=zeros(count, len(layout.heads)),
        old_value=zeros(count),
        advantage=zeros(count),
        returns=zeros(count),
    )
    weights = ppo.loss.weights(LossCoefficients(0.001, 0.1, 0.1, 0.5), ppo.under_floor)

    loss = ppo._compute_loss(batch, weights)[0].loss
    torch.autograd.backward(loss)

    assert loss.device.type == ppo.optimizer.clip_gradient().device.type == device.type
