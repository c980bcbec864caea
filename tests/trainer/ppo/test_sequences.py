from itertools import chain

import numpy as np
import pytest
import torch
from fake_games import fake_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.policies import ActorCritic, Architecture, CoreKind, RecurrentState
from arena.policies.nn import recurrent as cores
from trainer.ppo.loss import probability_ratio
from trainer.ppo.sequences import Sequences, shuffle_minibatches, split_into_sequences

WIDTH, UNITS = 5, 64
"""Recurrent sizes without and with a native LSTM."""


def network(core=CoreKind.LSTM, units=WIDTH):
    return ActorCritic(Architecture.of(fake_spec(), encoder_sizes=(7,), recurrent_size=units, core=core))


def step_loop(net, values, episode_start, active, chunk):
    """Run the actor step by step; return its outputs, and its states at the starts of chunks."""
    steps, rows = active.shape
    state = RecurrentState(*torch.randn(2, rows, net.core.state_size))
    outputs, hidden, cell = [], [], []
    for t in range(steps):
        if t % chunk == 0:
            hidden.append(state.hidden)
            cell.append(state.cell)
        output = net.step(values[t], state, episode_start[t], active[t])
        state = output.state
        outputs.append(torch.cat([output.parameters, output.value.unsqueeze(-1)], dim=-1))
    return torch.stack(outputs), torch.stack(hidden), torch.stack(cell)


def in_sequences(net, values, sequences):
    output = net.sequence(values.flatten(0, 1)[sequences.flat_index], sequences.state, sequences.runs)
    return torch.cat([output.parameters, output.value.unsqueeze(-1)], dim=-1)


@pytest.mark.holds("B7")
@given(
    start_chance=st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    active_chance=st.sampled_from([0.0, 0.4, 1.0]),
    core=st.sampled_from([CoreKind.LSTM, CoreKind.FEEDFORWARD]),
    units=st.sampled_from([WIDTH, UNITS]),
    seed=st.integers(0, 1000),
)
@settings(deadline=None, max_examples=40)
def test_sequences_equal_the_step_loop_for_random_episode_starts(start_chance, active_chance, core, units, seed):
    torch.manual_seed(seed)
    steps, rows, chunk = 12, 5, 4
    net, values = network(core, units), torch.randn(steps, rows, 4)
    episode_start, active = torch.rand(steps, rows) < start_chance, torch.rand(steps, rows) < active_chance
    with torch.no_grad():
        expected, hidden, cell = step_loop(net, values, episode_start, active, chunk)
        sequences = split_into_sequences(episode_start, active, hidden, cell)
        if len(sequences):
            result = in_sequences(net, values, sequences)
            wanted = expected.flatten(0, 1)[sequences.flat_index]
            torch.testing.assert_close(result, wanted, rtol=1e-5, atol=1e-5)
    covered = sequences.flat_index.sort().values
    assert torch.equal(covered, active.flatten().nonzero().squeeze(1))


def test_no_sequence_crosses_a_chunk_or_an_episode():
    """Each chunk starts from a stored state, so gradients and states go back no further."""
    steps, rows, chunk = 12, 2, 4
    episode_start = torch.zeros(steps, rows, dtype=torch.bool)
    episode_start[6, 1] = True
    stored = torch.arange(1.0, 1.0 + steps // chunk * rows).view(-1, rows, 1)

    sequences = split_into_sequences(episode_start, torch.ones(steps, rows, dtype=torch.bool), stored, stored)

    opened = [(int(first) // rows, int(first) % rows) for first in sequences.index[0]]
    state = sequences.state.hidden.flatten().tolist()
    assert dict(zip(opened, zip(sequences.lengths.tolist(), state, strict=True), strict=True)) == {
        (0, 0): (4, 1.0), (4, 0): (4, 3.0), (8, 0): (4, 5.0),
        (0, 1): (4, 2.0), (4, 1): (2, 4.0), (6, 1): (2, 0.0), (8, 1): (4, 6.0),
    }  # fmt: skip
    assert len(sequences.index) == chunk


@pytest.mark.parametrize("count", [1, 3, 7])
def test_split_puts_each_sequence_into_one_part(count):
    lengths = np.array([4, 1, 3, 2, 4, 2, 1])
    index, state = torch.arange(28).view(4, 7), RecurrentState(torch.zeros(7, 1), torch.zeros(7, 1))
    sequences = Sequences(index, state, torch.ones(7, dtype=torch.bool), lengths, lengths)

    parts = [part.index[0].tolist() for part in sequences.split(count)]

    assert sorted(chain.from_iterable(parts)) == list(range(7))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.holds("B7")
@pytest.mark.parametrize("units", [WIDTH, UNITS])
def test_gradients_equal_those_of_the_step_loop(units):
    torch.manual_seed(3)
    steps, rows = 8, 3
    net, values = network(units=units), torch.randn(steps, rows, 4)
    episode_start, active = torch.rand(steps, rows) < 0.3, torch.rand(steps, rows) < 0.8
    expected, hidden, cell = step_loop(net, values, episode_start, active, steps)
    weights = torch.randn_like(expected)
    (expected * weights)[active].sum().backward()
    looped = [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]
    net.zero_grad()
    sequences = split_into_sequences(episode_start, active, hidden.detach(), cell.detach())
    result = in_sequences(net, values, sequences)
    (result * weights.flatten(0, 1)[sequences.flat_index]).sum().backward()
    fused = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    for one, other in zip(looped, fused, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.holds("G7")
@pytest.mark.parametrize("native", [False, True])
def test_no_gradient_flows_between_sequences_or_from_padding(native, monkeypatch):
    monkeypatch.setattr(cores, "has_native_lstm", lambda units: native)
    episode_start = torch.tensor([[True], [True], [False], [False]])
    active = torch.ones(4, 1, dtype=torch.bool)
    sequences = split_into_sequences(episode_start, active, torch.zeros(1, 1, UNITS), torch.zeros(1, 1, UNITS))
    assert sequences.lengths.tolist() == [3, 1]
    assert sequences.flat_index.tolist() == [1, 0, 2, 3]
    net = network(units=UNITS)
    values = torch.randn(4, 1, 4, requires_grad=True)
    in_sequences(net, values, sequences)[1].sum().backward()
    assert values.grad[0].abs().sum() > 0
    assert values.grad[1:].abs().sum() == 0


@pytest.mark.holds("B8")
def test_minibatches_contain_each_sequence_once_and_repeat_with_the_seed():
    active = torch.ones(8, 6, dtype=torch.bool)
    state = torch.zeros(4, 6, WIDTH)
    sequences = split_into_sequences(torch.rand(8, 6) < 0.3, active, state, state)

    def minibatches(seed):
        order = shuffle_minibatches(sequences.lengths, 5, torch.Generator().manual_seed(seed))
        return [sequences.take(part).flat_index.tolist() for part in order]

    assert minibatches(1) == minibatches(1)
    assert minibatches(1) != minibatches(2)
    assert sorted(index for part in minibatches(1) for index in part) == list(range(48))


@pytest.mark.holds("B8")
@given(weights=st.lists(st.integers(0, 16), max_size=60), count=st.integers(1, 9), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_minibatches_differ_by_at_most_one_sequence(weights, count, seed):
    """By decisions that carry loss, and by sequences, whatever the number of such decisions in each."""
    weights = np.array(weights, dtype=np.int64)
    order = shuffle_minibatches(weights, count, torch.Generator().manual_seed(seed))
    totals = [weights[part].sum().item() for part in order]
    assert max(totals) - min(totals) <= (weights.max() if len(weights) else 0.0)
    assert sorted(np.concatenate(order).tolist()) == list(range(len(weights)))
    assert [len(part) for part in order] == [len(part) for part in torch.arange(len(weights)).tensor_split(count)]


def test_minibatches_of_equal_sequences_are_random():
    parts = {
        tuple(sorted(shuffle_minibatches(np.full(6, 3), 2, torch.Generator().manual_seed(seed))[0].tolist()))
        for seed in range(200)
    }
    assert len(parts) == 20, "every choice of three of six"


def test_minibatches_of_an_update_have_balanced_numbers_of_loss_decisions(play, never):
    """Agents die early, and the first decision of a chunk is burn-in, so sequences have unequal numbers.

    Minibatches of equally many sequences differed by up to nine decisions.
    """
    played = play((4, 4), ppo={"burn_in": 1, "num_minibatches": 4, "update_epochs": 3, "target_kl": 1e9})
    learner, loss_decisions = played.learner, []
    ppo, step = learner.ppo, learner.ppo._update_minibatch

    def watched(rollout, targets, minibatch, *rest, **named):
        loss_decisions.append(minibatch.loss_lengths.sum())
        return step(rollout, targets, minibatch, *rest, **named)

    ppo._update_minibatch = watched
    for _ in range(3):
        loss_decisions.clear()
        learner.learn(played.collect(), never)
        assert len(loss_decisions) == 12
        assert max(loss_decisions) - min(loss_decisions) <= 4.0, "decisions of one sequence"


@pytest.mark.holds("B6", "T7")
@pytest.mark.parametrize(
    ("agents_per_side", "turn_based"), [((1, 1), False), ((2, 2), False), ((1, 3), False), ((1, 1), True)]
)
def test_ratio_is_one_in_every_chunk_under_the_weights_that_acted(play, either_way, agents_per_side, turn_based):
    played = play(agents_per_side, turn_based=turn_based, network=either_way)
    for _ in range(2):  # the second rollout begins inside episodes
        rollout = played.collect()
    targets, _ = played.learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    with torch.no_grad():
        batch = played.learner.ppo.evaluate(rollout, targets, sequences)
    chunk = batch.index // rollout.reward.shape[1] // 4
    errors = (probability_ratio(batch.joint_log_ratio) - 1.0).abs()
    assert set(chunk.tolist()) == {0, 1, 2}
    assert errors.max() < 1e-5
    assert len(batch.index) == int(targets.valid.sum())


@pytest.mark.holds("A1", "S4")
def test_ratio_is_one_for_saturated_actions(play, never, either_way):
    """Squashed, these actions are 1 in single precision: what was drawn is to be known from nothing but the rollout."""
    played = play(network=either_way)
    network = played.learner.network
    with torch.no_grad():
        network.actor.bias[network.layout.parts[0].parameters] = torch.tensor([10.0, -10.0])
    rollout = played.collect()
    drawn = rollout.raw_action[..., network.layout.parts[0].raw]
    assert drawn.abs().min() > 7.0
    assert len(drawn.unique()) == drawn.numel()
    targets, _ = played.learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    with torch.no_grad():
        batch = played.learner.ppo.evaluate(rollout, targets, sequences)
    assert (probability_ratio(batch.joint_log_ratio) - 1.0).abs().max() < 1e-5
    assert played.learner.learn(rollout, never)["losses/first_ratio_error"] < 1e-5


@pytest.mark.holds("B9")
def test_burn_in_updates_the_state_and_carries_no_loss(play):
    """Sequences that start from a stored state lose their first two decisions, those at an episode start none."""
    played = play(ppo={"burn_in": 2})
    for _ in range(2):  # the second rollout begins inside episodes
        rollout = played.collect()
    ppo, (targets, _) = played.learner.ppo, played.learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    stored = ~sequences.starts_episode
    assert bool(stored.any())
    assert bool(sequences.starts_episode.any())
    step, run = sequences.step_mask.nonzero().t()
    burnt = stored[run] & (step < 2)
    batch = ppo.evaluate(rollout, targets, sequences)
    assert batch.index.tolist() == sequences.flat_index[~burnt].tolist()
    outputs = []
    sequence = played.learner.network.sequence
    played.learner.network.sequence = lambda *given, **how: outputs.append(sequence(*given, **how)) or outputs[-1]
    batch = ppo.evaluate(rollout, targets, sequences)
    outputs[0].value.retain_grad()
    outputs[0].parameters.retain_grad()
    (batch.value.sum() + batch.log_ratio.sum()).backward()
    for output in (outputs[0].value, outputs[0].parameters):
        assert output.grad[burnt].abs().sum() == 0.0
        assert output.grad[stored[run] & ~burnt].abs().sum() > 0.0
        assert output.grad[~stored[run] & (step < 2)].abs().sum() > 0.0
    errors = (probability_ratio(batch.joint_log_ratio) - 1.0).abs()
    assert errors.max() < 1e-5
