from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_games import FakeGame, tagged

from arena.policies import ActorCritic, Architecture, NetworkPolicy, RecurrentState
from arena.policies.ensemble.ensemble import NativeBinding, PolicyEnsemble, RowAssignment
from trainer.opponents.actors import INITIAL_SLOTS, StackedActor
from trainer.opponents.agent_index import AgentIndex
from trainer.opponents.batch import OpponentBatch
from trainer.opponents.pool import SELF, Opponent

GAME = FakeGame(4)
SMALL = Architecture.of(GAME.spec, encoder_sizes=(8,), recurrent_size=16)
OTHER = replace(SMALL, encoder_sizes=(24,), initial_log_std=-1.0)
CPU = torch.device("cpu")


def learned(number: int, architecture: Architecture = SMALL, key: str | None = None) -> Opponent:
    """An opponent whose every weight is its own, and its observation statistics."""
    torch.manual_seed(number)
    network = ActorCritic(architecture)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    network.observation_mean.fill_(float(number))
    network.observation_std.fill_(1.0 + number)
    return Opponent(
        key or f"learned{number:04}", f"player {number}", NetworkPolicy(network, "fake", GAME.spec.signature)
    )


def stack_of(slots: float) -> StackedActor:
    """An actor that may keep so many slots for opponents that do not play."""
    size = StackedActor(ActorCritic(SMALL), GAME.spec.num_agents, CPU, 0).size_bytes // INITIAL_SLOTS
    return StackedActor(ActorCritic(SMALL), GAME.spec.num_agents, CPU, int(slots * size))


def agent_index(rows: int = 4) -> AgentIndex:
    return AgentIndex(FakeGame(rows).spec, rows, CPU)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assign_all(stack: StackedActor, players: list[Opponent]) -> None:
    """Let the actor play in as many environments as there are players, each of which is new."""
    stack.move(np.full(len(players), -1), 1)
    stack.assign(np.arange(len(players)), players, 1)


def state_of(opponents: OpponentBatch, row: int) -> list[torch.Tensor]:
    """Recurrent state of the opponent in an environment."""
    for group in opponents._groups.values():
        if row in group.environments:
            return [part[group.environments.tolist().index(row)].clone() for part in group.state]
    raise LookupError(row)


def test_slots_grow_to_the_limit_then_the_least_recently_assigned_opponent_is_evicted():
    stack = stack_of(slots=2 * INITIAL_SLOTS)
    players = [learned(number) for number in range(2 * INITIAL_SLOTS + 2)]
    for player in players[: 2 * INITIAL_SLOTS]:
        assign_all(stack, [player])
    full = stack.size_bytes
    assign_all(stack, [players[0]])
    assign_all(stack, players[-2:])
    assert stack.size_bytes == full
    assert stack.keys == [player.key for player in (*players[3 : 2 * INITIAL_SLOTS], players[0], *players[-2:])]


def test_current_opponents_are_never_evicted():
    stack = stack_of(slots=0)
    players = [learned(number) for number in range(INITIAL_SLOTS + 1)]
    assign_all(stack, players)
    assert stack.keys == [player.key for player in players]
    for number in range(100, 200):
        stack.assign(np.array([0]), [learned(number)], 1)
        assert {player.key for player in players[1:]} < set(stack.keys)
    assert stack.size_bytes == 2 * stack_of(0).size_bytes


@pytest.mark.integration
def test_memory_is_bounded_after_a_thousand_opponents():
    opponents = OpponentBatch(agent_index(8), 0)
    observation, starts = FakeGame(8).reset(), torch.ones(8, dtype=torch.bool)
    sizes = set()
    for number in range(1000):
        player = learned(number)
        opponents.assign({number % 8: player, (number + 3) % 8: player})
        if number % 100 == 99:
            opponents.act(observation, starts, generator())
        (group,) = opponents._groups.values()
        sizes.add((group.actor.size_bytes, sum(part.nbytes for part in group.state) if number > 8 else 0))
        assert len(group.actor.keys) <= INITIAL_SLOTS
    assert len(sizes) == 2


def test_learned_opponents_of_one_architecture_act_in_one_call():
    opponents = OpponentBatch(agent_index(), 0)
    opponents.assign(
        {0: learned(0), 1: learned(1), 2: learned(2, OTHER), 3: learned(3, replace(OTHER, initial_log_std=0.0))}
    )
    assert [group.environments.tolist() for group in opponents._groups.values()] == [[2, 3], [0, 1]]


def test_a_change_of_sides_uploads_only_the_rows_that_changed(monkeypatch):
    index, uploaded, upload = agent_index(8), [], AgentIndex._to_device
    opponents = OpponentBatch(index, 0)
    opponents.assign({row: learned(row) for row in range(8)})
    monkeypatch.setattr(
        AgentIndex, "_to_device", lambda index, values: uploaded.append(values.size) or upload(index, values)
    )
    opponents.assign({5: learned(9)}, index.assign_sides({2: False, 5: True}))
    assert uploaded == [2, 2]
    (group,) = opponents._groups.values()
    for rows, away in ((index.learner, {5}), (group.rows, {0, 1, 2, 3, 4, 6, 7})):
        assert rows.agents.tolist() == [2 * row + (row in away) for row in range(8)]


@pytest.mark.parametrize("native", [True, False])
def test_mixed_opponents_act_as_each_would_alone(native, monkeypatch):
    """Gaussian actions are means and scales of the same noise: with the least of scales they tell who acted."""
    if not native:  # networks then hand in raw actions, and scripted opponents their own
        monkeypatch.setattr("arena.policies.ensemble.ensemble.make_native_backend", lambda *_: None)
    quiet = replace(SMALL, initial_log_std=-5.0), replace(OTHER, initial_log_std=-5.0)
    live = learned(9, quiet[0], key=SELF)
    players = [
        learned(1, quiet[0]),
        live,
        tagged(0.5),
        learned(2, quiet[1]),
        learned(1, quiet[0]),
        learned(3, quiet[0]),
    ]
    for player in players:
        if isinstance(player.policy, NetworkPolicy):
            player.policy.network.raw_log_std.data.fill_(-20.0)
    game = FakeGame(6, turn_based=False)
    together = OpponentBatch(agent_index(6), 0)
    together.assign(dict(enumerate(players)))
    alone = [player.policy.initial_state(1) for player in players]
    side = AgentIndex(game.spec, 6, CPU)
    observation, starts = game.reset(), torch.ones(6, dtype=torch.bool)
    for _ in range(6):
        moves = together.act(observation, starts, generator()).by_head()["move"].view(6, 2, 2)[:, 1]
        for row, player in enumerate(players):
            seen = side.opponent_rows([row]).observe(observation)
            action, alone[row] = player.policy.act(seen, alone[row], starts[row : row + 1], generator())
            torch.testing.assert_close(moves[row], action["move"][0], atol=0.1, rtol=0.0)
        step = game.step({name: torch.zeros(6, 2, *each.shape[1:], dtype=each.dtype) for name, each in action.items()})
        observation, starts = step.observation, step.terminated | step.truncated
    for row in range(len(players)):
        for part, expected in zip(state_of(together, row), alone[row], strict=True):
            torch.testing.assert_close(part, expected[0], atol=1e-5, rtol=0.0)


def test_a_swap_within_an_ensemble_resets_only_that_rows_recurrent_state():
    observation, starts = FakeGame(4).reset(), torch.zeros(4, dtype=torch.bool)
    swapping, staying = OpponentBatch(agent_index(), 0), OpponentBatch(agent_index(), 0)
    for opponents in (swapping, staying):
        opponents.assign({row: learned(row % 2) for row in range(4)})
        opponents.act(observation, ~starts, generator())
    swapping.assign({1: learned(5)})
    starts[1] = True
    for opponents in (swapping, staying):
        opponents.act(observation, starts, generator())
    for row in (0, 2, 3):
        for one, other in zip(state_of(swapping, row), state_of(staying, row), strict=True):
            assert torch.equal(one, other)
    seen = agent_index().opponent_rows([1]).observe(observation)
    newcomer = learned(5).policy
    _, fresh = newcomer.act(seen, newcomer.initial_state(1), starts[1:2], generator())
    for part, expected in zip(state_of(swapping, 1), fresh, strict=True):
        torch.testing.assert_close(part, expected[0], atol=1e-5, rtol=0.0)


def test_an_unchanged_opponent_is_not_assigned_again_unless_its_side_changes(monkeypatch):
    index = agent_index()
    opponents, players = OpponentBatch(index, 0), {row: learned(row) for row in range(4)}
    opponents.assign(players)
    assigned, assign = [], StackedActor.assign
    monkeypatch.setattr(StackedActor, "assign", lambda stack, *given: assigned.append(given) or assign(stack, *given))
    opponents.assign({row: players[row] for row in (1, 2)}, index.assign_sides({1: False, 2: False}))
    assert not assigned
    opponents.assign({1: players[1], 2: players[2]}, index.assign_sides({1: False, 2: True}))
    actions = opponents.act(FakeGame(4).reset(), torch.ones(4, dtype=torch.bool), generator()).by_head()
    acted = actions["move"].view(4, 2, 2).abs().sum(dim=-1) > 0.0
    assert acted.tolist() == [[False, True], [False, True], [True, False], [False, True]]
    assert len(assigned) == 1


def test_an_opponent_of_another_key_or_kind_replaces_the_last_one():
    game = FakeGame(4)
    observation, starts = game.reset(), torch.ones(4, dtype=torch.bool)
    opponents = OpponentBatch(agent_index(), 0)
    opponents.assign({row: tagged(0.25) for row in range(4)})
    opponents.assign({0: tagged(0.25), 1: tagged(0.75), 2: learned(2)})
    moves = opponents.act(observation, starts, generator()).by_head()["move"].view(4, 2, 2)[:, 1]
    assert moves[[0, 1, 3], 0].tolist() == [0.25, 0.75, 0.25]
    assert moves[2, 0].item() not in (0.25, 0.75)


def test_actions_of_learned_opponents_do_not_depend_on_earlier_opponents():
    swapped, direct = OpponentBatch(agent_index(), 0), OpponentBatch(agent_index(), 0)
    for assigned in ({row: learned(row) for row in range(4)}, {1: learned(7), 2: tagged(1.0)}, {2: learned(0)}):
        swapped.assign(assigned)
    direct.assign({0: learned(0), 1: learned(7), 2: learned(0), 3: learned(3)})
    observation, starts = FakeGame(4).reset(), torch.ones(4, dtype=torch.bool)
    for one, other in zip(
        *(each.act(observation, starts, generator()).by_head().values() for each in (swapped, direct)), strict=True
    ):
        assert torch.equal(one, other)


def test_live_weights_are_copied_only_by_refresh_weights():
    opponents, live = OpponentBatch(agent_index(), 0), learned(0, key=SELF)
    opponents.assign(dict.fromkeys(range(4), live))
    observation, starts = FakeGame(4).reset(), torch.ones(4, dtype=torch.bool)

    def moves() -> torch.Tensor:
        return opponents.act(observation, starts, generator()).by_head()["move"]

    before = moves()
    with torch.no_grad():
        live.policy.network.actor.bias += 1.0
    assert torch.equal(moves(), before)
    opponents.refresh_weights()
    assert not torch.equal(moves(), before)


def test_every_rollout_begins_with_the_live_weights(play):
    live = learned(0, key=SELF)
    played = play(opponents=[live], sides=1)
    with torch.no_grad():
        live.policy.network.actor.bias[:2] += 50.0
    played.collect()
    assert all((actions["move"][:, 1] == 1.0).all() for actions in played.game.played)


@pytest.mark.parametrize("rows", [1, 3])
def test_each_agent_of_a_team_has_its_own_row(rows):
    game = FakeGame(rows, (2, 2))
    opponents = OpponentBatch(AgentIndex(game.spec, rows, CPU), 0)
    opponents.assign({row: learned(row) for row in range(rows)})
    observation, starts = game.reset(), torch.ones(rows, dtype=torch.bool)
    actions = opponents.act(observation, starts, generator()).by_head()
    assert actions["move"].shape == (rows * 4, 2)
    (group,) = opponents._groups.values()
    assert isinstance(group.state, RecurrentState)
    for row in range(rows):
        policy, seen = learned(row).policy, AgentIndex(game.spec, rows, CPU).opponent_rows([row]).observe(observation)
        _, state = policy.act(seen, policy.initial_state(2), torch.ones(2, dtype=torch.bool), generator())
        torch.testing.assert_close(group.state.hidden[2 * row : 2 * row + 2], state.hidden, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("sides", [(1, 1), (2, 2), (1, 2), (3, 1)])
def test_opponents_act_in_native_code_as_in_torch(sides, monkeypatch):
    """On either side; if sides differ in size, spare rows never act."""
    game, away = FakeGame(6, sides), {row: row % 3 == 0 for row in range(6)}
    natively, plainly = (
        OpponentBatch(table, 0) for table in (AgentIndex(game.spec, 6, CPU), AgentIndex(game.spec, 6, CPU))
    )
    for opponents in (natively, plainly):
        opponents._agents.assign_sides(away)
        opponents.assign({row: learned(row % 4) for row in range(6)})
        monkeypatch.setattr(PolicyEnsemble, "bind", lambda stack, rows, agents: None)
    observation, starts = game.reset(), torch.ones(6, dtype=torch.bool)
    for _ in range(4):
        one, other = (each.act(observation, starts, generator()).by_head() for each in (natively, plainly))
        for name, actions in other.items():
            torch.testing.assert_close(one[name], actions, atol=1e-5, rtol=0.0)
        for mine, theirs in zip(natively._groups.values(), plainly._groups.values(), strict=True):
            assert (type(mine.actor._binding), type(theirs.actor._binding)) == (NativeBinding, RowAssignment)
            torch.testing.assert_close(mine.state, theirs.state, atol=1e-5, rtol=0.0)
        step = game.step({name: each.view(6, sum(sides), *each.shape[1:]) for name, each in one.items()})
        observation, starts = step.observation, step.terminated | step.truncated
