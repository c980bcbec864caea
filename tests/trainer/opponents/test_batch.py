"""Opponents in one batch: each acts, with its own recurrent state, as if it were alone."""

import pytest
import torch
from fake_games import FakeGame, tagged
from onnx_models import counter

from arena.environments import declare, make
from arena.policies.onnx.policy import decode_model
from arena.policies.scripted import RandomPolicy
from trainer.opponents.agent_index import AgentIndex
from trainer.opponents.batch import OpponentBatch
from trainer.opponents.pool import Opponent


@pytest.mark.holds("J1")
def test_an_opponent_swap_leaves_every_other_row_bit_equal():
    agents = AgentIndex(FakeGame(4).spec, 4, torch.device("cpu"))
    opponents = OpponentBatch(agents, 0)
    one, other = tagged(1.0), tagged(2.0)
    opponents.assign({0: one, 1: one, 2: other, 3: one})
    for group in opponents._groups.values():
        group.state = (torch.tensor([[float(10 * row)] for row in group.environments]) + 0.1,)
    opponents.assign({1: other})
    states = {
        row: group.state[0][index]
        for group in opponents._groups.values()
        for index, row in enumerate(group.environments.tolist())
    }
    fresh = torch.zeros(1)
    kept = {row: torch.tensor([10.0 * row]) + 0.1 for row in (0, 2, 3)}
    assert all(torch.equal(states[row], state) for row, state in {**kept, 1: fresh}.items())


def test_groups_without_environments_are_removed():
    opponents = OpponentBatch(AgentIndex(FakeGame(2).spec, 2, torch.device("cpu")), 0)
    opponents.assign({0: tagged(1.0), 1: tagged(1.0)})
    opponents.assign({0: tagged(2.0), 1: tagged(2.0)})
    assert list(opponents._groups) == ["tag2.0"]


def test_random_numbers_of_opponents_do_not_depend_on_earlier_opponents():
    """A restart assigns all opponents at once and must continue like a run that swapped them one by one."""
    game = FakeGame(4)
    one, other = (Opponent(key, key, RandomPolicy(game.spec.heads)) for key in ("one", "other"))
    swapped, direct = (OpponentBatch(AgentIndex(game.spec, 4, game.device), 0) for _ in range(2))
    for assigned in ({0: other, 1: one, 2: one, 3: other}, {1: other, 0: one}, {3: one}):
        swapped.assign(assigned)
    direct.assign({0: one, 1: other, 2: one, 3: one})
    observation, starts = game.reset(), torch.ones(4, dtype=torch.bool)
    acts = [
        each.act(observation, starts, torch.Generator().manual_seed(0)).by_head()["move"] for each in (swapped, direct)
    ]
    assert torch.equal(*acts)


@pytest.mark.holds("J3")
def test_grouped_opponents_act_as_they_would_one_by_one():
    game, rng = FakeGame(4), torch.Generator().manual_seed(0)
    observation, starts = game.reset(), torch.ones(4, dtype=torch.bool)
    players = [tagged(1.0), tagged(2.0), tagged(1.0), tagged(3.0)]
    together = OpponentBatch(AgentIndex(game.spec, 4, game.device), 0)
    together.assign(dict(enumerate(players)))
    actions = together.act(observation, starts, rng).by_head()["move"].view(4, 2, 2)
    for row, player in enumerate(players):
        alone = OpponentBatch(AgentIndex(game.spec, 4, game.device), 0)
        alone.assign({row: player})
        assert torch.equal(alone.act(observation, starts, rng).by_head()["move"].view(4, 2, 2)[row], actions[row])


def test_onnx_opponents_act_in_one_group_each_with_its_own_memory():
    spec = declare("recall")
    models = [counter(spec.observation_size, "answer", 5, step) for step in (1.0, 10.0)]
    one, ten = (Opponent(str(number), "", decode_model(spec, model)) for number, model in enumerate(models))
    game = make("recall", num_envs=4)
    opponents = OpponentBatch(AgentIndex(spec, 4, torch.device("cpu")), 0)
    opponents.assign({0: one, 1: ten, 2: one, 3: ten})
    observation, rng = game.reset(), torch.Generator()
    for starts in ([True] * 4, [False, False, False, True]):
        actions = opponents.act(observation, torch.tensor(starts), rng).by_head()
    assert actions["answer"].shape == (8,)
    (group,) = opponents._groups.values()
    assert group.state[0].flatten().tolist() == [2.0, 20.0, 2.0, 10.0]
    opponents.assign({1: one})
    opponents.act(observation, torch.tensor([False, True, False, False]), rng)
    (group,) = opponents._groups.values()
    assert group.state[0].flatten().tolist() == [3.0, 1.0, 3.0, 20.0]
