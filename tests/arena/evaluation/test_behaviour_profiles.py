import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from arena.evaluation.behaviour_profiles import Samples, fingerprint_distances, fingerprints, root_mean_squares


def samples(values) -> Samples:
    """Values (P, F, M) of M matches; NaN is one in which there was nothing to measure."""
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    return Samples(known.sum(-1).astype(float), values.sum(-1), np.square(values).sum(-1))


def league(rng, style, matches, noise=1.0):
    return samples(style[:, :, None] + noise * rng.normal(0.0, 1.0, (*style.shape, matches)))


def test_means_and_their_noise_are_those_of_the_matches():
    values = np.array([[[1.0, 2.0, 3.0, np.nan]], [[5.0, 7.0, np.nan, np.nan]], [[np.nan] * 4]])
    prints = fingerprints(samples(values))
    within = (2.0 + 2.0) / (2 + 1)  # squares about the own mean over degrees of freedom, the same for everybody
    assert prints.mean[:2, 0].tolist() == [2.0, 6.0]
    assert prints.noise[:2, 0] == pytest.approx([within / 3, within / 2])
    assert np.isnan(prints.mean[2]).all()
    assert np.isnan(prints.noise[2]).all()
    assert prints.centre.tolist() == [4.0]


def test_the_spread_is_that_of_the_players_and_not_of_chance():
    rng = np.random.default_rng(0)
    style = rng.normal(0.0, 2.0, (400, 3)) * [1.0, 0.5, 0.0]
    prints = fingerprints(league(rng, style, 10, noise=3.0))
    assert prints.spread == pytest.approx([2.0, 1.0, 0.0], rel=0.15)
    assert prints.discriminative.tolist() == [True, True, False]


def test_uninformative_measure_is_rarely_selected():
    rng = np.random.default_rng(1)
    prints = fingerprints(league(rng, np.zeros((20, 2000)), 15))
    # 1 % of 2,000 measures, give or take 4.4
    assert 5 <= prints.discriminative.sum() <= 40


def test_distances_are_root_mean_squares_in_standard_deviations():
    style = np.stack([np.arange(12.0), np.tile([0.0, 1.0], 6), np.zeros(12)], axis=1)
    found = fingerprint_distances(fingerprints(samples(style[:, :, None])), 0, [1, 2])
    assert np.isnan(found.distance).all(), "a single match each says nothing of chance"
    found = fingerprint_distances(fingerprints(samples(np.repeat(style[:, :, None], 2, axis=2))), 0, [1, 2])
    first, second = np.var(style[:, 0], ddof=1), np.var(style[:, 1], ddof=1)
    assert found.distance == pytest.approx([np.sqrt((1 / first + 1 / second) / 2), np.sqrt(4 / first / 2)])
    assert found.bound.tolist() == found.distance.tolist()
    assert found.values.tolist() == [2, 2]


def test_the_bound_is_crossed_one_time_in_twenty():
    """Two players differ by half a standard deviation in every measure, sometimes up and sometimes down."""
    rng = np.random.default_rng(2)
    crossed = 0
    for _ in range(300):
        style = rng.normal(0.0, 1.0, (40, 15))
        style[1] = style[0] + rng.choice([-0.5, 0.5], 15)
        found = fingerprint_distances(fingerprints(league(rng, style, 50)), 0, [1])
        crossed += int(found.bound[0] < 0.5)
    # 300 times at 5 %: 15, give or take 3.8; the spread is an estimate, too
    assert 4 <= crossed <= 28


def test_distance_uses_measures_known_for_both_players():
    style = np.random.default_rng(3).normal(0.0, 1.0, (10, 2))
    values = np.repeat(style[:, :, None], 3, axis=2)
    values[1, 0] = np.nan
    values[2] = np.nan
    found = fingerprint_distances(fingerprints(samples(values)), 0, [1, 2, 3])
    assert found.values.tolist() == [1, 0, 2]
    assert np.isnan(found.distance).tolist() == [False, True, False]


def test_standing_is_in_standard_deviations_from_the_centre():
    style = np.array([[-1.0, 5.0], [0.0, 5.0], [1.0, 5.0]])
    prints = fingerprints(samples(np.repeat(style[:, :, None], 4, axis=2)))
    assert prints.z_scores(2)[0] == pytest.approx(1.0)
    assert np.isnan(prints.z_scores(2)[1])


def test_empty_samples_give_empty_fingerprints():
    none = fingerprints(Samples(*(np.zeros((3, 2)) for _ in range(3))))
    assert none.spread.tolist() == [0.0, 0.0]
    assert np.isnan(none.centre).all()
    assert np.isnan(fingerprint_distances(none, 0, [1, 2]).distance).all()
    assert fingerprints(Samples(*(np.zeros((0, 0)) for _ in range(3)))).spread.shape == (0,)
    assert fingerprint_distances(none, 0, []).distance.shape == (0,)


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=6),
    st.lists(st.integers(0, 50), min_size=18, max_size=18),
)
def test_estimates_are_finite_or_unknown(rows, counts):
    matches = np.array(counts, dtype=float)[: 3 * len(rows)].reshape(-1, 3)
    mean = np.array(rows)
    prints = fingerprints(Samples(matches, matches * mean, matches * (mean**2 + 1.0)))
    assert np.isfinite(prints.spread).all()
    assert (np.isfinite(prints.mean) == (matches > 0)).all()
    found = fingerprint_distances(prints, 0, np.arange(len(rows)))
    known = found.values > 0
    assert np.isfinite(found.distance[known]).all()
    assert (found.bound[known] >= found.distance[known]).all()
    assert found.distance[0] == 0.0 or not known[0]


def test_the_estimate_of_a_difference_of_chance_alone_is_about_zero():
    rng = np.random.default_rng(4)
    found = root_mean_squares(rng.normal(0.0, 1.0, (1000, 30)), np.ones((1000, 30)))
    assert np.mean(found.distance == 0.0) == pytest.approx(0.5, abs=0.1)


def test_bad_samples_are_refused_by_name():
    one = np.zeros((2, 2))
    with refused(ValueError, "(2, 1)"):
        Samples(one, one, np.zeros((2, 1)))
    with refused(ValueError):
        Samples(one, np.full((2, 2), np.nan), one)
