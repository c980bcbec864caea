import numpy as np

from benchmarks import ratings


def test_plain_loop_gives_the_same_ratings_as_arrays():
    periods = ratings.play(players=12, games=60, periods=3)

    _, by_arrays = ratings.timed(ratings.rate_by_arrays, 12, periods)
    _, by_loop = ratings.timed(ratings.rate_by_loop, 12, periods)

    assert np.abs(by_arrays.rating - by_loop.rating).max() < ratings.AGREEMENT


def test_pair_model_finds_the_cycle_of_the_simulated_league():
    cold, warm, components = ratings.pair_fit_seconds(150)

    assert components == 1
    assert min(cold, warm) > 0.0
