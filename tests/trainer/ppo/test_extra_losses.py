"""Additional losses: the next-observation loss, a user's own term, and errors in their names."""

import itertools

import pytest
import torch
from fake_games import FakeGame
from loss_inputs import inputs
from refused import refused

from arena.policies import ActorCritic, Architecture, PackedRuns, RecurrentState
from arena.policies.checkpoint import encode
from arena.policies.nn.set_encoder import SetLayout
from trainer.ppo.extra_losses import NextObservationLoss, load_extra_losses, successive
from trainer.ppo.sequences import split_into_sequences

NEXT_OBSERVATION = "trainer.ppo.extra_losses:NextObservationLoss"
WEIGHTED = {"extra_losses": {NEXT_OBSERVATION: 0.01}}

OWN_LOSS = """
import torch

class Smooth(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, batch, output):
        return (self.scale * output.value[batch.loss_mask]).square().mean()

class Plain:
    def __init__(self, network):
        pass

    def __call__(self, batch, output):
        return output.parameters[batch.loss_mask].square().mean()

class Uncallable:
    def __init__(self, network):
        pass
"""


@pytest.fixture
def own_losses(tmp_path, monkeypatch):
    (tmp_path / "own_losses.py").write_text(OWN_LOSS)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_decision_is_followed_by_the_next_of_its_run_and_the_last_by_none():
    runs = PackedRuns.of(torch.tensor([3, 2, 1]), 4)
    before, after = successive(runs)
    assert before.tolist() == [0, 1, 3]
    assert after.tolist() == [3, 4, 5]


@pytest.mark.holds("G11")
@pytest.mark.parametrize("agents", [1, 3])
def test_the_successor_is_the_agents_next_decision_in_its_episode_and_chunk(play, agents):
    rollout = play((agents, agents)).collect()
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    before, after = (sequences.flat_index[each] for each in successive(sequences.runs))
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


def loss_of(network, loss, seen, features, lengths, counts):
    return loss(*inputs(network, seen, features, lengths, counts))


@pytest.mark.holds("G11")
def test_the_next_observation_loss_is_the_squared_error_per_number_and_decision_with_loss():
    network = network_of()
    network.observation_mean.fill_(1.0)
    network.observation_std.fill_(2.0)
    loss = NextObservationLoss(network)
    seen, features = torch.randn(5, 4), torch.randn(5, 6)
    with torch.no_grad():
        loss.weight.normal_()
        loss.bias.normal_()
    counts = torch.tensor([True, False, True, True, True])

    error = loss_of(network, loss, seen, features, [3, 2], counts)

    predicted = features[[0, 2]] @ loss.weight.t() + loss.bias
    squares = (predicted - (seen[[2, 4]] - 1.0) / 2.0).square()
    assert error.item() == pytest.approx(squares.sum().item() / (4 * 4), rel=1e-5)


def test_empty_places_of_a_set_are_not_predicted():
    network = network_of()
    layout = SetLayout(members=1, mask=0, blocks=((2, 2),), heads=(), width=4)
    network = ActorCritic(Architecture(**{**vars(network.architecture), "sets": (layout,)}))
    seen = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 3.0, torch.nan, torch.nan]])

    error = loss_of(
        network, NextObservationLoss(network), seen, torch.randn(2, 6), [2], torch.ones(2, dtype=torch.bool)
    )

    assert error.item() == pytest.approx(9.0 / (4 * 2))


@pytest.mark.holds("G11")
def test_without_a_coefficient_nothing_is_built_and_nothing_changes(play, never):
    plain, weighted, off = play(), play(ppo=WEIGHTED), play(ppo={"extra_losses": {NEXT_OBSERVATION: 0.0}})
    assert plain.learner.ppo.extra_losses == off.learner.ppo.extra_losses == []
    for played in (plain, weighted):
        played.metrics = played.learner.learn(played.collect(), never)
    assert "losses/NextObservationLoss" not in plain.metrics
    assert weighted.metrics["losses/NextObservationLoss"] > 0.0
    shapes = {name: tensor.shape for name, tensor in plain.learner.network.state_dict().items()}
    assert {name: tensor.shape for name, tensor in weighted.learner.network.state_dict().items()} == shapes
    own = {name for name in weighted.learner.tensors() if "extra." in name}
    assert own
    assert plain.learner.tensors().keys() == weighted.learner.tensors().keys() - own


@pytest.mark.holds("G11")
def test_the_next_observation_loss_teaches_the_core_and_its_own_layer(play, never):
    played = play(ppo={**WEIGHTED, "target_kl": 1e9}, optimizer={"learning_rate": 1e-2})
    learner, rollout = played.learner, played.collect()
    rollout.reward.zero_()
    errors = [learner.learn(rollout, never)["losses/NextObservationLoss"] for _ in range(30)]
    assert errors[-1] < 0.5 * errors[1]
    loss = learner.ppo.extra_losses[0].module
    assert loss.weight.abs().sum().item() > 0.0

    learner.ppo.optimizer.zero_grad()
    seen, runs = torch.randn(4, 4), PackedRuns.of(torch.tensor([2, 2]), 2)
    output = learner.network.sequence(seen, RecurrentState(*torch.zeros(2, 2, 6)), runs)
    loss_of(learner.network, loss, seen, output.features, [2, 2], torch.ones(4, dtype=torch.bool)).backward()
    for name, parameter in learner.network.named_parameters():
        reached = float(parameter.grad.abs().sum()) > 0.0
        assert reached == name.startswith(("encoder", "core.lstm.weight_ih", "core.lstm.bias", "norm")), name


@pytest.mark.holds("G11")
def test_saved_states_keep_an_extra_loss_and_snapshots_leave_it_out(play, never):
    one, other, plain = play(ppo=WEIGHTED), play(ppo=WEIGHTED, run={"seed": 5}), play()
    one.learner.learn(one.collect(), never)
    saved = one.learner.tensors()

    other.learner.restore(saved, 1, 1)

    assert {"extra.NextObservationLoss.weight", "adam.extra.NextObservationLoss.weight.exp_avg"} <= saved.keys()
    theirs = other.learner.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in saved.items())
    spec = one.game.spec
    assert len(encode(one.learner.network, spec)) == len(encode(plain.learner.network, spec))
    plain.learner.restore(saved, 1, 1)
    with refused("invalid-run-state", "ppo.extra_losses"):
        other.learner.restore(plain.learner.tensors(), 1, 1)


@pytest.mark.usefixtures("own_losses")
def test_a_users_own_losses_change_the_update_and_train_their_own_parameters(play, never):
    plain, own = play(), play(ppo={"extra_losses": {"own_losses:Smooth": 10.0, "own_losses:Plain": 0.5}})
    metrics = [played.learner.learn(played.collect(), never) for played in (plain, own)]
    assert {"losses/Smooth", "losses/Plain"} <= metrics[1].keys() - metrics[0].keys()
    assert float(own.learner.tensors()["extra.Smooth.scale"]) < 1.0
    weights = [played.learner.network.actor.weight for played in (plain, own)]
    assert not torch.equal(*weights)


@pytest.mark.usefixtures("own_losses")
@pytest.mark.parametrize(
    "path",
    [
        "own_losses",
        "own_losses:Missing",
        "absent_module:Loss",
        "own_losses:Uncallable",
    ],
)
def test_an_extra_loss_that_cannot_be_used_is_refused_with_the_reason(path):
    with refused("invalid-setting", path) as raised:
        load_extra_losses({path: 1.0}, network_of())
    assert path in str(raised.value)
