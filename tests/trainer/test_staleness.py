import pytest

from trainer.staleness import state_drift


def test_memory_is_not_stale_under_the_weights_that_acted(play):
    played = play((2, 2))
    for _ in range(2):  # the second rollout begins inside episodes
        rollout = played.collect()
    assert float(state_drift(played.learner.network, rollout)) < 1e-6


def test_drift_grows_with_the_distance_that_weights_moved(play, never):
    def drift(rate):
        played = play(schedules={"learning_rate": rate, "learning_rate_final": rate}, ppo={"target_kl": 1e9})
        return played.learner.learn(played.collect(), never)["losses/state_drift"]

    assert 0.0 < 3.0 * drift(1e-4) < drift(1e-2)


@pytest.mark.parametrize("settings", [{"network": {"core": "feedforward"}}, {"rollout": {"chunk": 12}}])
def test_where_no_memory_was_stored_on_the_way_there_is_no_drift(play, never, settings):
    played = play(**settings)
    assert "losses/state_drift" not in played.learner.learn(played.collect(), never)
