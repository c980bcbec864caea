"""Environments in which both sides are the learner's."""

import pytest
import torch
from fake_games import FakeGame, tagged

from trainer.config.schema import EnvironmentSettings
from trainer.opponents.agent_index import AgentIndex

ROW, DECISION, SEED, AGENT = range(4)
HALF = {"num_envs": 4, "self_play": 0.5}
ITSELF = {1, 3}
SECOND = slice(4, 6)
"""Rows of the away sides of environments 1 and 3, where a side is one agent."""


@pytest.mark.parametrize(
    ("share", "rows"), [(0.0, set()), (0.35, {2, 5, 7}), (0.5, {1, 3, 5, 7}), (1.0, set(range(8)))]
)
def test_the_share_of_self_play_is_always_the_same_environments_evenly_spread(share, rows):
    assert EnvironmentSettings(num_envs=8, self_play=share).self_play_rows == rows


def test_both_sides_act_are_stored_and_play_their_sampled_actions(play):
    played = play(environment=HALF, opponents=[tagged(7.0)])
    rollout = played.collect()
    assert played.learner.rows == played.collector.rows == 6
    assert rollout.observation[0][:, ROW].tolist() == [0, 1, 2, 3, 1, 3]
    assert rollout.observation[0][[1, 3], AGENT].tolist() == [0, 0]
    assert (rollout.observation[:, SECOND, AGENT] == 1.0).all()
    for t, actions in enumerate(played.game.played):
        mine = played.learner.network.layout.to_actions(rollout.raw_action[t])["move"]
        for place, row in enumerate(sorted(ITSELF)):
            assert torch.equal(actions["move"][row], torch.stack([mine[row], mine[4 + place]]))
    others = torch.stack([actions["move"] for actions in played.game.played])[:, [0, 2]]
    assert (others == 7.0).all(dim=-1).sum(dim=-1).eq(1).all()


def test_each_side_earns_its_own_reward_and_both_end_together(play):
    rollout = play(environment=HALF).collect()
    home, away = rollout.reward[:, [1, 3]], rollout.reward[:, SECOND]
    assert torch.equal(away, home + 1.0)
    for flag in (rollout.terminated, rollout.truncated, rollout.episode_start):
        assert flag.any()
        assert torch.equal(flag[:, [1, 3]], flag[:, SECOND])


class AwayMayDiffer(FakeGame):
    """Shows the away side of every match something else."""

    shown = 0.0

    def _observe(self):
        observation = super()._observe()
        observation.values[:, 1:, SEED] += self.shown
        return observation


class Differing(AwayMayDiffer):
    shown = 5.0


def test_the_two_sides_never_see_each_others_memory(play):
    """Whatever the away sides see and remember, the rows at home are bit-equal."""
    fields = ("hidden", "cell", "value", "raw_action", "log_prob", "final_value", "last_value")
    runs = [
        play(environment=HALF, game=game(4), opponents=[tagged(1.0)], sides=1) for game in (AwayMayDiffer, Differing)
    ]
    for _ in range(2):
        one, other = (vars(run.collect()) for run in runs)
        for field in fields:
            homes = [each[field][..., :4] if each[field].ndim == 1 else each[field][:, :4] for each in (one, other)]
            assert torch.equal(*homes), field
    assert not torch.equal(one["hidden"][:, SECOND], other["hidden"][:, SECOND])


@pytest.mark.parametrize("learning", [[1, 3], [4, 5]], ids=["home", "away"])
def test_both_sides_are_learned_from(play, never, learning):
    """With every other row out of the game the weights still move, by what this side's rows did."""
    played = play(environment=HALF)
    rollout = played.collect()
    others = [row for row in range(6) if row not in learning]
    rollout.active[:, others] = rollout.last_active[others] = False
    before = [parameter.clone() for parameter in played.learner.network.parameters()]
    metrics = played.learner.learn(rollout, never)
    assert metrics["losses/policy_loss"] is not None
    after = played.learner.network.parameters()
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("agents_per_side", [(2, 2), (1, 3), (3, 1)])
def test_sides_of_uneven_size_both_act_with_spare_rows_out_of_the_game(play, agents_per_side):
    played = play(agents_per_side, environment={"num_envs": 3, "self_play": 1.0})
    rollout = played.collect()
    agents, total = max(agents_per_side), sum(agents_per_side)
    assert rollout.reward.shape == (12, 2 * 3 * agents)
    sides = rollout.active[0].view(2, 3, agents)
    for away, size in enumerate(agents_per_side):
        assert sides[away].tolist() == [[place < size for place in range(agents)]] * 3
    drawn = played.learner.network.layout.to_actions(rollout.raw_action[0])["move"].view(2, 3, agents, 2)
    for row in range(3):
        expected = torch.cat([drawn[0, row, : agents_per_side[0]], drawn[1, row, : agents_per_side[1]]])
        assert torch.equal(played.game.played[0]["move"][row], expected)
        assert len(expected) == total


def test_where_sides_take_turns_each_has_the_other_half_of_the_decisions(play, never):
    played = play(turn_based=True, environment={"num_envs": 2, "self_play": 1.0})
    rollout = played.collect()
    assert torch.equal(rollout.active[:, 2:], ~rollout.active[:, :2])
    targets, _ = played.learner.targets(rollout)
    assert targets.valid[:, :2].any()
    assert targets.valid[:, 2:].any()
    assert not (targets.valid & ~rollout.active).any()


def test_a_match_of_self_play_ends_once_for_both_sides(play):
    played = play(environment=HALF, opponents=[tagged(1.0), tagged(2.0)])
    for _ in range(3):
        played.collect()
    assert len({episode.assignment.sequence for episode in played.episodes}) == len(played.episodes)
    rows = {assignment.seed: row for row, assignment in played.dealer.dealt}
    for episode in played.episodes:
        row = rows[episode.assignment.seed]
        agent = 0 if row in ITSELF else int(episode.assignment.away)
        assert episode.mean_return == sum(
            1000.0 * row + 10.0 * decision + agent for decision in range(episode.decisions)
        )
    assert {rows[episode.assignment.seed] for episode in played.episodes} == {0, 1, 2, 3}


def test_rows_of_an_environment_are_those_of_both_its_sides():
    agents = AgentIndex(FakeGame(3, (2, 2)).spec, 3, torch.device("cpu"), [1])
    assert agents.learner_rows([0]).tolist() == [0, 1]
    assert agents.learner_rows([1]).tolist() == [2, 3, 6, 7]
    assert agents.expand_to_rows(torch.tensor([False, True, False])).nonzero().squeeze(1).tolist() == [2, 3, 6, 7]


@pytest.mark.parametrize("turn_based", [False, True])
def test_cut_matches_of_self_play_value_both_sides_final_observations(play, turn_based):
    """Also that of the side whose turn it is not, in native code, where rows that do not act are not computed."""
    game = FakeGame(2, turn_based=turn_based, length=lambda seed: 5, limited=lambda seed: True)
    native = {"encoder_sizes": [16], "recurrent_size": 16}
    rollout = play(game=game, network=native, environment={"num_envs": 2, "self_play": 1.0}).collect()
    assert rollout.truncated[4].all()
    assert (rollout.final_value[4] != 0.0).all()
    assert rollout.final_value[~rollout.truncated].abs().max() == 0.0
