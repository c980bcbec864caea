"""Moving average of the weights, which is published instead of them."""

import numpy as np
import pytest
import torch
from small_runs import rps

from arena.policies.checkpoint import decode
from trainer.ppo.learner import Learner
from trainer.ppo.optim.weight_ema import WeightEMA

AVERAGED = {"league": {"ema_horizon_steps": 144}}
"""Four updates of `play`'s learner: 12 decisions of 3 environments."""

AVERAGE_DISTANCE = "charts/average_distance"


def row(network):
    """Return all weights of a network as one vector, in float64."""
    return torch.cat([each.detach().flatten() for each in network.parameters()]).double().numpy()


def expected(rows, horizon):
    """Compute the average by the formula in the docstring of `WeightEMA`."""
    mean = rows[0]
    for update, weights in enumerate(rows[1:], 1):
        rate = max(1.0 / (1.0 + horizon), 9.0 / (9.0 + update))
        mean = (1.0 - rate) * mean + rate * weights
    return mean


def moved(network, updates):
    """Move a network's weights at random; yield after each update."""
    for _ in range(updates):
        with torch.no_grad():
            for each in network.parameters():
                each.add_(torch.randn_like(each))
        yield


@pytest.mark.parametrize("horizon", [0.5, 4.0, 1e9])
def test_average_follows_its_documented_formula(play, horizon):
    network = play().learner.network
    average, rows = WeightEMA(network, horizon), [row(network)]
    for _ in moved(network, 60):
        average.update(network)
        rows.append(row(network))
    np.testing.assert_allclose(row(average.network), expected(rows, horizon), atol=1e-4)


def test_initial_weights_are_forgotten_quickly(play):
    """After a hundred updates their weight is below 1e-6 for any horizon."""
    network = play().learner.network
    average = WeightEMA(network, 1e9)
    first = row(network)
    with torch.no_grad():
        for each in network.parameters():
            each.zero_()
    for _ in range(100):
        average.update(network)
    assert 0.0 < np.abs(row(average.network)).max() < 1e-6 * np.abs(first).max()


def test_average_with_a_short_horizon_is_close_to_the_weights(play, never):
    played = play(league={"ema_horizon_steps": 1})
    for _ in range(2):
        played.learner.learn(played.collect(), never)
    np.testing.assert_allclose(row(played.learner.published), row(played.learner.network), rtol=0.2, atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [{}, {"ppo": {"precision": "bfloat16", "extra_losses": {"trainer.ppo.extra_losses:NextObservationLoss": 0.1}}}],
)
def test_averaging_does_not_change_training(play, never, settings):
    """Weights, optimiser, statistics and random numbers are those of a learner without averaging."""
    plain, averaged = play(**settings), play(**settings, **AVERAGED)
    rows = [row(plain.learner.network)]
    for _ in range(6):
        assert AVERAGE_DISTANCE not in plain.learner.learn(plain.collect(), never)
        metrics = averaged.learner.learn(averaged.collect(), never)
        rows.append(row(plain.learner.network))
    found = averaged.learner.tensors()
    for name, tensor in plain.learner.tensors().items():
        assert torch.equal(found[name], tensor), name
    assert all(name.startswith("average.") for name in found.keys() - plain.learner.tensors().keys())
    mean = expected(rows, horizon=4.0)
    np.testing.assert_allclose(row(averaged.learner.published), mean, atol=1e-6)
    assert metrics[AVERAGE_DISTANCE] == pytest.approx(
        np.linalg.norm(rows[-1] - mean) / np.linalg.norm(rows[-1]), rel=1e-3
    )
    assert plain.learner.published is plain.learner.network


def test_published_network_has_the_current_observation_statistics(play, never):
    played = play(**AVERAGED)
    for _ in range(3):
        played.learner.learn(played.collect(), never)
        for name, own in played.learner.network.named_buffers():
            assert torch.equal(own, dict(played.learner.published.named_buffers())[name])
    assert played.learner.network.observation_mean.abs().max() > 0.0


def test_saved_average_is_restored_and_a_missing_one_starts_at_the_weights(play, never):
    played, resumed, late = play(**AVERAGED), play(**AVERAGED), play(**AVERAGED)
    for _ in range(3):
        played.learner.learn(played.collect(), never)
    tensors = {name: tensor.clone() for name, tensor in played.learner.tensors().items()}
    resumed.learner.restore(tensors, steps=108, updates=3)
    late.learner.restore(
        {name: tensor for name, tensor in tensors.items() if not name.startswith("average.")}, steps=108, updates=3
    )
    assert np.array_equal(row(resumed.learner.published), row(played.learner.published))
    assert np.array_equal(row(late.learner.published), row(played.learner.network))
    assert not np.array_equal(row(played.learner.published), row(played.learner.network))
    counts = [int(each.learner.tensors()["average.n_averaged"]) for each in (played, resumed, late)]
    assert counts == [4, 4, 1]


def test_reset_weights_resets_the_average(play, never):
    played, other = play(**AVERAGED), play(run={"seed": 5}).learner.network
    first = row(played.learner.network)
    for start, weights in ((None, first), (other, row(other))):
        played.learner.learn(played.collect(), never)
        played.learner.reset_weights(start)
        assert np.array_equal(row(played.learner.published), weights)
        assert torch.equal(played.learner.published.observation_mean, played.learner.network.observation_mean)
    played.learner.learn(played.collect(), never)
    np.testing.assert_allclose(
        row(played.learner.published), expected([weights, row(played.learner.network)], 4.0), atol=1e-6
    )


@pytest.mark.parametrize("role", ["main_exploiter", "league_exploiter"])
def test_exploiters_publish_their_weights_without_averaging(play, role):
    learner = play(league={"ema_horizon_steps": 144, "role": role}).learner
    assert learner.published is learner.network


def test_snapshots_and_the_run_folder_contain_the_average(worker_of, client, tmp_path):
    config = rps("run.total_timesteps=192", "league.snapshot_every_steps=128", "league.ema_horizon_steps=256")
    worker = worker_of(client, config)
    worker.run()
    learner: Learner = worker.learner
    newest = max(client.players("rps", kind="snapshot").items, key=lambda each: each.step)
    snapshot = decode(client.download(newest.checkpoint), device="cpu", source="the league").network
    saved = decode((tmp_path / "run" / "policy.safetensors").read_bytes(), device="cpu", source="the folder").network
    for network in (snapshot, saved):
        assert np.array_equal(row(network), row(learner.published))
    assert not np.array_equal(row(learner.published), row(learner.network))
    assert worker_of(client, config).learner.published is not learner.published
