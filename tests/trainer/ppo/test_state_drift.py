from dataclasses import replace

import pytest
import torch

from arena.policies import RecurrentState
from trainer.ppo.diagnostics import MAX_ROWS, state_drift


@pytest.mark.holds("B10")
def test_state_drift_is_zero_under_the_weights_that_acted(play):
    played = play((2, 2))
    for _ in range(2):  # the second rollout begins inside episodes
        rollout = played.collect()
    assert float(state_drift(played.learner.network, rollout)) < 1e-6


@pytest.mark.holds("B10", "S11")
def test_state_drift_grows_with_the_learning_rate(play, never):
    def drift(rate):
        played = play(optimizer={"learning_rate": rate, "learning_rate_final": rate}, ppo={"target_kl": 1e9})
        return played.learner.learn(played.collect(), never)["losses/state_drift"]

    assert 0.0 < 3.0 * drift(1e-4) < drift(1e-2)


@pytest.mark.parametrize("settings", [{"network": {"core": "feedforward"}}, {"rollout": {"bptt_horizon": 12}}])
def test_no_state_drift_without_recurrence_or_with_a_single_chunk(play, never, settings):
    played = play(**settings)
    assert "losses/state_drift" not in played.learner.learn(played.collect(), never)


def drift_step_by_step(network, rollout):
    """The same by its definition."""
    length = rollout.bptt_horizon
    begin = len(rollout.reward) - 2 * length
    state = RecurrentState(rollout.hidden[-2, :MAX_ROWS], rollout.cell[-2, :MAX_ROWS])
    for t in range(begin, begin + length):
        step = (rollout.observation[t, :MAX_ROWS], rollout.episode_start[t, :MAX_ROWS], rollout.active[t, :MAX_ROWS])
        state = network.step(step[0], state, step[1], step[2]).state
    stored = rollout.hidden[-1, :MAX_ROWS]
    return torch.linalg.vector_norm(state.hidden - stored) / torch.linalg.vector_norm(stored)


@pytest.mark.parametrize("acting", [0.0, 0.5, 1.0])
@torch.no_grad()
def test_state_drift_equals_that_of_a_step_loop(play, acting):
    played = play()
    rollout, rng = played.collect(), torch.Generator().manual_seed(0)
    chance = torch.rand(3, *rollout.active.shape, generator=rng)
    varied = replace(rollout, episode_start=chance[0] < 0.2, active=chance[1] < acting)
    varied.hidden.normal_(generator=rng)
    varied.cell.normal_(generator=rng)
    expected = drift_step_by_step(played.learner.network, varied)
    torch.testing.assert_close(state_drift(played.learner.network, varied), expected)
