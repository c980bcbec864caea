"""Bootstrap values at the end of a rollout and of truncated episodes."""

from dataclasses import replace

import pytest
import torch
from fake_games import FakeGame, tagged

from trainer.ppo.targets.gae import masked_gae


@pytest.mark.holds("B1")
def test_the_bootstrap_does_not_advance_the_acting_state(play, either_way):
    played = play(network=either_way)
    rollout = played.collect()
    (worker,) = played.collector.workers
    before = [part.clone() for part in worker.state]
    worker.bootstrap(rollout)
    assert all(torch.equal(one, other) for one, other in zip(before, worker.state, strict=True))


def test_the_bootstrap_values_the_observation_after_the_rollout(play):
    played = play(game=FakeGame(3, length=lambda seed: 100))
    last = played.collect().last_value.clone()
    torch.testing.assert_close(played.collect().value[0], last)


@pytest.mark.holds("C3")
def test_truncation_values_the_final_observation_with_the_state_before_the_reset(play):
    """A match cut after 5 decisions: its final value is what a longer match would have predicted there."""
    cut = play(sides=1, game=FakeGame(3, length=lambda seed: 5, limited=lambda seed: True), opponents=[tagged(1.0)])
    longer = play(sides=1, game=FakeGame(3, length=lambda seed: 100), opponents=[tagged(1.0)])
    one, other = cut.collect(), longer.collect()
    assert one.truncated[4].all()
    torch.testing.assert_close(one.final_value[4], other.value[5])
    assert one.final_value[~one.truncated].abs().max() == 0.0


@pytest.mark.holds("C3")
def test_matches_that_the_game_ends_have_no_final_value(play):
    rollout = play().collect()
    ended = rollout.terminated | rollout.truncated
    assert torch.equal(ended[:-1], rollout.episode_start[1:])
    for kind in (rollout.terminated, rollout.truncated):
        assert kind.any()
    assert not (rollout.terminated & rollout.truncated).any()
    assert rollout.final_value[~rollout.truncated].abs().max() == 0.0
    assert rollout.final_value[rollout.truncated].abs().min() > 0.0


def test_truncation_terminates_dead_agents(play):
    """Agent 0 of a team is dead from decision 2 on, agent 1 from decision 3 on; the limit comes at decision 2."""
    game = FakeGame(3, (2, 2), length=lambda seed: 2, limited=lambda seed: True)
    rollout = play(sides=1, game=game, opponents=[tagged(1.0)]).collect()
    assert rollout.truncated[1].all()
    assert rollout.terminated[1].view(3, 2).tolist() == [[True, False]] * 3
    waiting = FakeGame(3, turn_based=True, length=lambda seed: 2, limited=lambda seed: True)
    assert not play(sides=2, game=waiting, opponents=[tagged(1.0)]).collect().terminated.any()


class HomeIsOut(FakeGame):
    """A game in turns that a limit ends when it is over for home already."""

    def step(self, actions):
        step = super().step(actions)
        there = torch.tensor([[False, True]]).expand(self.num_envs, 2)
        return replace(step, final_observation=replace(step.final_observation, active=there))


def test_truncation_terminates_a_side_that_is_out_of_a_turn_based_game(play):
    game = HomeIsOut(2, turn_based=True, length=lambda seed: 5, limited=lambda seed: True)
    rollout = play(game=game, environment={"num_envs": 2, "self_play": 1.0}).collect()
    assert rollout.truncated[4].all()
    assert rollout.terminated[4].tolist() == [True, True, False, False]


def returns_of(played):
    """Whether the returns of decisions that a limit cut off hang on what the final observation is worth."""
    played.learner.target_builder.values.update(torch.tensor([-1.0, 1.0]))  # the critic speaks in units of rewards
    rollout = played.collect()
    kept = rollout.truncated.clone(), rollout.terminated.clone()
    cut = rollout.truncated & rollout.active
    assert cut.any()
    advantages = []
    for value in (0.0, 50.0):
        rollout.final_value[rollout.truncated] = value
        learner = played.learner
        transitions = learner.target_builder.transitions(rollout)
        advantage = masked_gae(transitions, gamma=0.995, lam=0.95)
        advantages.append(transitions.restore(advantage)[cut])
    assert torch.equal(rollout.truncated, kept[0])
    assert torch.equal(rollout.terminated, kept[1])
    return advantages


@pytest.mark.holds("C3")
def test_truncation_bootstraps_the_final_value_unless_the_limit_decides(play):
    """In the data `terminated` and `truncated` are those of the game, either way."""
    cutting, deciding = (FakeGame(3, limited=lambda seed: True, limit_decides=decides) for decides in (False, True))
    nothing, much = returns_of(play(game=cutting))
    torch.testing.assert_close(much - nothing, torch.full_like(much, 0.995 * 50.0))
    nothing, much = returns_of(play(game=deciding))
    assert torch.equal(nothing, much)
    assert not play(game=deciding).collect().terminated.any()
