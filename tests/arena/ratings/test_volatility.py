"""The volatility of one player against the paper's equation, solved as the paper does and by brute force."""

import numpy as np
import pytest
from glicko2_players import one_player_period

from arena.ratings.glicko2 import SCALE, Ratings, Results, rate_period


def paper_volatility(sigma, phi, delta, v, tau, epsilon=1e-6):
    """Step 5 as the paper writes it, one player; ends by the loop's own test or after 10,000 steps."""
    a = np.log(sigma**2)

    def f(x):
        ex = np.exp(x)
        return ex * (delta**2 - phi**2 - v - ex) / (2 * (phi**2 + v + ex) ** 2) - (x - a) / tau**2

    low = a
    if delta**2 > phi**2 + v:
        high = np.log(delta**2 - phi**2 - v)
    else:
        k = 1
        while f(a - k * tau) < 0:
            k += 1
        high = a - k * tau
    f_low, f_high = f(low), f(high)
    for _ in range(10_000):
        if abs(high - low) <= epsilon:
            break
        mid = low + (low - high) * f_low / (f_high - f_low)
        f_mid = f(mid)
        if f_mid * f_high <= 0:
            low, f_low = high, f_high
        else:
            f_low /= 2
        high, f_high = mid, f_mid
    return np.exp(low / 2)


@pytest.mark.parametrize("tau", [0.3, 0.5, 1.2])
def test_volatility_equals_the_papers_loop_over_a_random_population(tau):
    rng = np.random.default_rng(3)
    for _ in range(200):
        sigma, deviation, opponent = rng.uniform(0.03, 0.1), rng.uniform(30, 350), rng.uniform(1200, 1800)
        score, n = rng.random(), int(rng.integers(1, 30))
        phi, phi_j = deviation / SCALE, 60 / SCALE
        g = 1 / np.sqrt(1 + 3 * phi_j**2 / np.pi**2)
        e = 1 / (1 + np.exp(-g * (1500 - opponent) / SCALE))
        v = 1 / (n * g**2 * e * (1 - e))
        wanted = paper_volatility(sigma, phi, v * n * g * (score - e), v, tau)
        _, _, volatility = one_player_period((1500, deviation, sigma), [(opponent, 60, score, n)], tau=tau)
        assert volatility == pytest.approx(wanted, rel=2e-6)


def test_volatility_solve_ends_where_a_step_lands_on_the_root():
    # chosen so that Delta^2 = phi^2 + v + sigma^2: f(ln sigma^2) is 0 from the start, which `f_C f_B < 0` never leaves
    for phi in (0.2, 1.0, 2.0):
        for sigma in (0.03, 0.06, 0.5):
            wins = 0.5 + np.sqrt((phi**2 + 4 + sigma**2) / 16)
            if wins > 1:
                continue
            _, _, volatility = one_player_period((1500, phi * SCALE, sigma), [(1500, 0.0, wins, 1)])
            assert volatility == pytest.approx(sigma, rel=1e-9)
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 3, 20_000) / 2
    deviation, sigma = rng.integers(30, 350, 20_000).astype(float), rng.integers(1, 12, 20_000) / 100
    opponents = np.full(20_000, 1500.0)
    ratings = Ratings(
        np.concatenate((opponents, opponents)), np.concatenate((deviation, deviation)), np.concatenate((sigma, sigma))
    )
    index = np.arange(20_000)
    after = rate_period(ratings, Results(index, index + 20_000, draws, np.ones(20_000, int)))
    assert np.isfinite(after.volatility).all()


def volatility_roots(sigma, phi, delta, v, tau):
    """Bracketed sign changes of the paper's f on a fine grid, as volatilities."""
    x = np.linspace(np.log(sigma**2) - 4, np.log(max(delta**2, 1.0)) + 1, 400_001)
    ex = np.exp(x)
    f = ex * (delta**2 - phi**2 - v - ex) / (2 * (phi**2 + v + ex) ** 2) - (x - np.log(sigma**2)) / tau**2
    return np.exp(x[:-1][np.sign(f[:-1]) != np.sign(f[1:])] / 2)


@pytest.mark.parametrize(("upsets", "deviation"), [(20, 30), (40, 30), (60, 30), (100, 30), (300, 30), (50, 100)])
def test_lowest_of_up_to_three_volatilities_is_taken(upsets, deviation):
    phi, n, gap = deviation / SCALE, upsets, 800.0
    g = 1 / np.sqrt(1 + 3 * (30 / SCALE) ** 2 / np.pi**2)
    e = 1 / (1 + np.exp(g * gap / SCALE))
    v = 1 / (n * g**2 * e * (1 - e))
    roots = volatility_roots(0.06, phi, v * n * g * (1 - e), v, 0.5)
    _, _, volatility = one_player_period((1500, deviation, 0.06), [(1500 + gap, 30, 1, n)])
    assert volatility == pytest.approx(roots[0], rel=1e-4)


def test_large_tau_still_brackets_the_volatility():
    for tau in (2.0, 10.0, 100.0):
        _, _, volatility = one_player_period((1500, 100, 5.0), [(1500, 50, 0.5, 10)], tau=tau)
        phi, g = 100 / SCALE, 1 / np.sqrt(1 + 3 * (50 / SCALE) ** 2 / np.pi**2)
        assert volatility == pytest.approx(volatility_root_below(5.0, phi, 4 / (10 * g**2), tau), rel=1e-6)


def volatility_root_below(sigma, phi, v, tau):
    """Bisect the paper's f for Delta = 0, where its one root is below ln sigma^2."""
    a = np.log(sigma**2)
    low, high = a - tau**2, a
    for _ in range(200):
        x = 0.5 * (low + high)
        ex = np.exp(x)
        f = ex * (-(phi**2) - v - ex) / (2 * (phi**2 + v + ex) ** 2) - (x - a) / tau**2
        low, high = (x, high) if f > 0 else (low, x)
    return np.exp(low / 2)
