import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from arena.evaluation.brownian import BoundedBrownianMotion


def density(motion, time, place):
    """Density of a motion that has not stopped, by the method of images."""
    start, above, height = -motion.lower, place - motion.lower, motion.upper - motion.lower
    turns = 2 * height * np.arange(-20, 21)
    spread = np.sqrt(motion.variance * time)
    mirrored = norm.pdf(above - start + turns, scale=spread) - norm.pdf(above + start + turns, scale=spread)
    g = motion.drift / motion.variance
    return np.exp(g * (above - start) - 0.5 * motion.drift * g * time) * mirrored.sum()


def stopped_low(motion, time):
    """Integrate the flux through the lower bound, v / 2 times the density's slope there."""
    step = 1e-6 * (motion.upper - motion.lower)
    flux = lambda t: 0.5 * motion.variance * density(motion, t, motion.lower + step) / step  # noqa: E731
    return quad(flux, 0.0, time, limit=200)[0]


@pytest.mark.parametrize("drift", [-0.8, 0.0, 0.3, 2.0])
@pytest.mark.parametrize(("time", "place"), [(0.3, 0.5), (2.0, -0.9), (2.0, 2.0), (2.0, -1.0), (9.0, 1.0)])
def test_outcomes_are_those_of_the_reflected_density(drift, time, place):
    motion = BoundedBrownianMotion(-1.0, 2.0, drift, 1.3)
    alive = quad(lambda z: density(motion, time, z), motion.lower, place)[0]
    assert motion.probability_below(time, place) == pytest.approx(stopped_low(motion, time) + alive, abs=2e-5)


@pytest.mark.parametrize("drift", [-1.0, -1e-9, 0.0, 0.5])
def test_in_the_end_it_is_the_ruin_of_a_gambler(drift):
    g = 2 * drift / 0.7
    ruin = 2.0 / 3.0 if abs(g) < 1e-6 else (np.exp(2.0 * g) - 1) / (np.exp(3.0 * g) - 1)
    assert BoundedBrownianMotion(-1.0, 2.0, drift, 0.7).probability_below(1e6, -1.0) == pytest.approx(ruin, abs=1e-8)


@given(st.floats(-4, 4), st.floats(0.02, 0.1), st.floats(0.05, 0.95))
def test_both_ways_to_compute_agree_where_both_hold(drift, time, share):
    motion = BoundedBrownianMotion(-1.0, 1.0, drift, 1.0)
    place = -1.0 + 2.0 * share
    series, reflection = motion._below_by_series(time, place), motion._below_by_reflection(time, place)
    assert series == pytest.approx(reflection, abs=1e-6)


@given(st.floats(-300, 300), st.floats(1e-4, 1e4), st.floats(0, 1), st.floats(0, 1))
def test_it_is_a_distribution_that_rises_with_the_place(drift, time, one, other):
    motion = BoundedBrownianMotion(-2.9, 2.9, drift, 1.0)
    low, high = (motion.probability_below(time, -2.9 + 5.8 * share) for share in sorted((one, other)))
    assert -1e-3 <= low <= high + 1e-6
    assert high <= 1.0 + 1e-3


@pytest.mark.parametrize("drift", [-40.0, -1.0, -1e-9, 0.0, 1e-3, 0.5, 40.0])
def test_mean_time_is_the_integral_of_the_probability_of_not_having_stopped(drift):
    motion = BoundedBrownianMotion(-1.0, 2.0, drift, 0.7)
    running = lambda t: motion.probability_below(t, 2.0) - motion.probability_below(t, -1.0)  # noqa: E731
    steps = quad(running, 1e-9, 1.0, limit=200)[0] + quad(running, 1.0, 60.0, limit=200)[0]
    assert motion.mean_time() == pytest.approx(steps, rel=1e-4)
