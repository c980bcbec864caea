"""Predicting the next observation: what counts, what learns, and where it stays."""

import itertools

import pytest
import torch
from fake_games import FakeGame

from arena.policies import ActorCritic, Architecture, RecurrentState, Runs
from arena.policies.checkpoint import encode
from arena.policies.sets import SetLayout
from trainer.auxiliary import NextObservation, successive
from trainer.chunks import cut
from trainer.errors import StateError

WEIGHTED = {"auxiliary_weight": 0.01}


def test_a_decision_is_followed_by_the_next_of_its_run_and_the_last_by_none():
    runs = Runs.of(torch.tensor([3, 2, 1]), 4)
    before, after = successive(runs)
    assert before.tolist() == [0, 1, 3]
    assert after.tolist() == [3, 4, 5]


@pytest.mark.parametrize("agents", [1, 3])
def test_what_follows_is_the_agents_next_decision_in_its_episode_and_chunk(play, agents):
    rollout = play((agents, agents)).collect()
    segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    before, after = (segments.rows[each] for each in successive(segments.runs))
    rows, chunk = rollout.reward.shape[1], 4
    followed = set(zip(before.tolist(), after.tolist(), strict=True))
    expected = set()
    for row in range(rows):
        acted = [t for t in range(len(rollout.reward)) if rollout.active[t, row]]
        for t, following in itertools.pairwise(acted):
            if t // chunk == following // chunk and not rollout.episode_start[t + 1 : following + 1, row].any():
                expected.add((t * rows + row, following * rows + row))
    assert followed == expected
    assert followed


def network_of(**options: object) -> ActorCritic:
    return ActorCritic(Architecture.of(FakeGame(1).spec, encoder_sizes=(8,), recurrent_size=6, **options))


def test_the_error_is_the_mean_square_over_decisions_that_count():
    network = network_of()
    network.observation_mean.fill_(1.0)
    network.observation_std.fill_(2.0)
    auxiliary, runs = NextObservation(network), Runs.of(torch.tensor([3, 2]), 3)
    values, features = torch.randn(5, 4), torch.randn(5, 6)
    with torch.no_grad():
        auxiliary.weight.normal_()
        auxiliary.bias.normal_()
    counts = torch.tensor([True, False, True, True, True])

    error = auxiliary.error(network, features, values, runs, counts)
    places = auxiliary.places(network, values, runs, counts)

    predicted = features[[0, 2]] @ auxiliary.weight.t() + auxiliary.bias
    expected = (predicted - (values[[2, 4]] - 1.0) / 2.0).square().mean()
    assert places.item() == 2 * 4
    assert error.item() == pytest.approx(expected.item() * 8, rel=1e-5)
    nothing = auxiliary.error(network, features, values, runs, torch.zeros_like(counts))
    assert nothing.item() == 0.0


def test_empty_places_of_a_set_are_not_predicted():
    network = network_of()
    layout = SetLayout(members=1, mask=0, blocks=((2, 2),), heads=(), width=4)
    network = ActorCritic(Architecture(**{**vars(network.architecture), "sets": (layout,)}))
    auxiliary, runs = NextObservation(network), Runs.of(torch.tensor([2]), 2)
    values = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 3.0, torch.nan, torch.nan]])

    counts = torch.ones(2, dtype=torch.bool)
    assert auxiliary.places(network, values, runs, counts).item() == 2.0
    assert auxiliary.error(network, torch.randn(2, 6), values, runs, counts).item() == pytest.approx(9.0)


def test_without_weight_nothing_is_built_and_nothing_changes(play, never):
    """An update with it differs only where it should: without weight there is no layer, state or figure."""
    plain, weighted = play(), play(ppo=WEIGHTED)
    assert plain.learner.ppo.auxiliary is None
    for played in (plain, weighted):
        played.metrics = played.learner.learn(played.collect(), never)
    assert not any("auxiliary" in name for name in plain.learner.tensors())
    assert "losses/prediction_error" not in plain.metrics
    assert weighted.metrics["losses/prediction_error"] > 0.0
    shapes = {name: tensor.shape for name, tensor in plain.learner.network.state_dict().items()}
    assert {name: tensor.shape for name, tensor in weighted.learner.network.state_dict().items()} == shapes
    assert plain.learner.tensors().keys() == {n for n in weighted.learner.tensors() if "auxiliary" not in n}


def test_the_second_task_teaches_the_core_and_its_own_layer(play, never):
    played = play(ppo={**WEIGHTED, "target_kl": 1e9}, schedules={"learning_rate": 1e-2})
    learner, rollout = played.learner, played.collect()
    rollout.reward.zero_()
    errors = [learner.learn(rollout, never)["losses/prediction_error"] for _ in range(30)]
    assert errors[-1] < 0.5 * errors[1]
    assert learner.ppo.auxiliary.weight.abs().sum().item() > 0.0

    learner.ppo.optimizer.clear()
    values = torch.randn(4, 4)
    output = learner.network.sequence(values, RecurrentState(*torch.zeros(2, 2, 6)), Runs.of(torch.tensor([2, 2]), 2))
    runs, counts = Runs.of(torch.tensor([2, 2]), 2), torch.ones(4, dtype=torch.bool)
    learner.ppo.auxiliary.error(learner.network, output.features, values, runs, counts).backward()
    for name, parameter in learner.network.named_parameters():
        reached = float(parameter.grad.abs().sum()) > 0.0
        assert reached == name.startswith(("encoder", "core.lstm.weight_ih", "core.lstm.bias", "norm")), name


def test_saved_states_keep_it_and_snapshots_leave_it_out(play, never):
    one, other, plain = play(ppo=WEIGHTED), play(ppo=WEIGHTED, run={"seed": 5}), play()
    one.learner.learn(one.collect(), never)
    saved = one.learner.tensors()

    other.learner.restore(saved, 1, 1)

    assert {"auxiliary.weight", "adam.auxiliary.weight.exp_avg"} <= saved.keys()
    theirs = other.learner.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in saved.items())
    spec = one.game.spec
    assert len(encode(one.learner.network, spec)) == len(encode(plain.learner.network, spec))
    plain.learner.restore(saved, 1, 1)
    with pytest.raises(StateError, match=r"missing weight.*: choose another --run, or its ppo.auxiliary_weight"):
        other.learner.restore(plain.learner.tensors(), 1, 1)
