"""Many games in one period: the rating is the mode of the posterior, found here by scalar bisection."""

import math

import numpy as np
import pytest
from glicko2_players import one_player_period, population, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from arena.ratings.glicko2 import SCALE, Kind, Ratings, Results, newcomers, rate_period

LIMITS = {"deviation_floor": 30.0, "deviation_cap": 350.0, "volatility_cap": 0.1}  # those of a league
BURST = 50
WIN_RATES = [0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999]


def same_bits(one, other):
    return all(
        np.array_equal(getattr(one, field), getattr(other, field)) for field in ("rating", "deviation", "volatility")
    )


def bisect(falling, low, high):
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if falling(middle) > 0.0 else (low, middle)
    return middle


def slope(mu, games):
    """Gradient of the log-likelihood of games (opponent's rating, its deviation, score, number), and information."""
    gradient = information = 0.0
    for rating, deviation, score, n in games:
        g = 1 / math.sqrt(1 + 3 * (deviation / SCALE) ** 2 / math.pi**2)
        e = 1 / (1 + math.exp(-g * (mu - (rating - 1500) / SCALE)))
        gradient += n * g * (score - e)
        information += n * g * g * e * (1 - e)
    return gradient, information


def most_likely(games):
    """The maximum-likelihood rating, without any prior."""
    return 1500 + SCALE * bisect(lambda mu: slope(mu, games)[0], -60.0, 60.0)


def posterior(player, games, burst_games, sigma):
    """The posterior's mode and deviation for a learner that ends the period with volatility sigma."""
    rating, deviation, _ = player
    mean = (rating - 1500) / SCALE
    periods = sum(n for *_, n in games) / burst_games
    variance = (deviation / SCALE) ** 2 + periods * sigma**2
    mode = bisect(lambda mu: slope(mu, games)[0] - (mu - mean) / variance, -60.0, 60.0)
    return 1500 + SCALE * mode, SCALE / math.sqrt(1 / variance + slope(mode, games)[1])


@pytest.mark.parametrize("win_rate", WIN_RATES)
@pytest.mark.parametrize("deviation", [30.0, 80.0, 350.0])
def test_ten_thousand_games_in_a_period_give_the_maximum_likelihood_rating(deviation, win_rate):
    """One Newton step is up to 28 deviations from it."""
    games = [(1500.0, 30.0, win_rate, 10_000)]
    rating, rd, _ = one_player_period((1500.0, deviation, 0.06), games, burst_games=BURST, **LIMITS)
    assert abs(rating - most_likely(games)) < 1.1 * rd
    plain, plain_rd, _ = one_player_period((1500.0, deviation, 0.06), games, **LIMITS)
    assert abs(rating - most_likely(games)) <= abs(plain - most_likely(games))
    if abs(win_rate - 0.5) > 0.45:
        assert abs(plain - most_likely(games)) > 9.3 * plain_rd


def test_a_burst_against_several_opponents_gives_the_maximum_likelihood_rating():
    games = [(1500.0, 30.0, 0.99, 4_000), (1900.0, 80.0, 0.9, 3_000), (2100.0, 150.0, 0.7, 3_000)]
    rating, rd, _ = one_player_period((1500.0, 150.0, 0.06), games, burst_games=BURST, **LIMITS)
    assert abs(rating - most_likely(games)) < 0.5 * rd


players = st.tuples(st.floats(500, 2500), st.floats(20, 350), st.floats(0.01, 0.1))
opponents = st.lists(
    st.tuples(st.floats(500, 2500), st.floats(0, 350), st.floats(0, 1), st.integers(1, 20_000)), min_size=1, max_size=4
)


@settings(max_examples=200)
@given(players, opponents)
def test_a_burst_is_rated_at_the_mode_of_the_posterior(player, games):
    if sum(n for *_, n in games) <= BURST:
        games = [(*each, n + BURST) for *each, n in games]
    rating, deviation, sigma = one_player_period(player, games, burst_games=BURST, volatility_cap=0.1)
    mode, spread = posterior(player, games, BURST, sigma)
    assert rating == pytest.approx(mode, abs=1e-6)
    assert deviation == pytest.approx(spread, rel=1e-7)


@given(players, opponents, st.floats(0, 1))
def test_scoring_more_in_a_burst_never_lowers_the_rating(player, games, share):
    games = [(*each, n + BURST) for *each, n in games]
    better = [(rating, deviation, score + share * (1 - score), n) for rating, deviation, score, n in games]
    options = {"burst_games": BURST, "volatility_cap": 0.1}
    low, high = (one_player_period(player, each, **options)[0] for each in (games, better))
    assert high >= low - 1e-6


@pytest.mark.parametrize("win_rate", WIN_RATES)
def test_more_games_of_a_burst_lead_steadily_from_the_prior_to_the_maximum_likelihood_rating(win_rate):
    path = [
        one_player_period((1700.0, 80.0, 0.06), [(1500.0, 0.0, win_rate, n)], burst_games=BURST, **LIMITS)[0]
        for n in (51, 100, 200, 400, 1_000, 3_000, 10_000, 100_000)
    ]
    ends = sorted((1700.0, most_likely([(1500.0, 0.0, win_rate, 1)])))
    assert all(ends[0] - 1e-6 <= rating <= ends[1] + 1e-6 for rating in path)
    assert sorted(path, reverse=bool(path[0] > path[-1])) == path


def test_a_favourite_that_scores_half_in_a_burst_does_not_fall_below_its_opponent():
    games = [(1500.0, 30.0, 0.5, 1_000)]
    plain, *_ = one_player_period((2300.0, 350.0, 0.06), games, **LIMITS)
    assert plain < -6_000.0, "where a single Newton step leads"
    rating, deviation, _ = one_player_period((2300.0, 350.0, 0.06), games, burst_games=BURST, **LIMITS)
    assert (rating, deviation) == (pytest.approx(1500.0, abs=1.0), 30.0)


def test_rating_the_same_burst_again_and_again_does_not_oscillate():
    player = (1500.0, 350.0, 0.06)
    games = [(1500.0, 30.0, 0.99, 10_000)]
    path = []
    for _ in range(5):
        player = one_player_period(player, games, burst_games=BURST, **LIMITS)
        path.append(player[0])
    assert path == sorted(path)
    assert path[-1] == pytest.approx(most_likely(games), abs=0.1)


def test_up_to_so_many_games_a_period_is_plain_glicko_2_to_the_last_bit():
    ratings = population((1500, 350, 0.06), (1650, 60, 0.05), (1320, 120, 0.08))
    period = rows((0, 1, 1, 30), (2, 0, 0.25, 20), (1, 2, 1, 20))
    assert same_bits(rate_period(ratings, period, burst_games=BURST), rate_period(ratings, period))
    with_burst = rate_period(ratings, rows((0, 1, 1, 31), (2, 0, 0.25, 20), (1, 2, 1, 19)), burst_games=BURST)
    plain = rate_period(ratings, rows((0, 1, 1, 31), (2, 0, 0.25, 20), (1, 2, 1, 19)))
    assert with_burst.rating[0] != plain.rating[0]
    assert with_burst.rating[1] == plain.rating[1], "50 games are no burst, whatever the opponent played"


def test_even_scores_are_rated_as_plain_glicko_2_does():
    games = [(1500.0, 50.0, 1.0, 5_000), (1500.0, 50.0, 0.0, 5_000)]
    burst = one_player_period((1500.0, 350.0, 0.06), games, burst_games=10_000 - 1)
    plain = one_player_period((1500.0, 350.0, 0.06), games)
    assert burst[:2] == pytest.approx(plain[:2], rel=1e-9)


def test_players_of_one_burst_share_its_evidence():
    """If each made up for all of it, they would end twice as far apart as they are."""
    for win_rate in (0.75, 0.99):
        results = rows((0, 1, win_rate, 10_000))
        after = rate_period(newcomers(2), results, burst_games=BURST, **LIMITS)
        apart = most_likely([(1500.0, 0.0, win_rate, 1)]) - 1500.0
        assert after.rating[0] - after.rating[1] == pytest.approx(apart, rel=0.01)
        assert after.rating.sum() == pytest.approx(3_000.0)
        assert (after.deviation > 200.0).all(), "the level of both is as uncertain as before"


def test_a_frozen_players_burst_has_no_more_prior_than_its_deviation():
    games = [(1500.0, 30.0, 0.9, 1_000)]
    ratings = population((1500, 80, 0.06), (1500, 30, 0.06))
    after = rate_period(
        ratings, rows((0, 1, 0.9, 1_000)), kinds=[Kind.FROZEN, Kind.ANCHOR], burst_games=BURST, volatility_cap=0.1
    )
    mode, spread = posterior((1500.0, 80.0, 0.06), games, BURST, sigma=0.0)
    assert (after.rating[0], after.deviation[0]) == (pytest.approx(mode, abs=1e-6), pytest.approx(spread, rel=1e-7))
    assert after.volatility[0] == 0.06


def test_order_and_joining_of_rows_change_no_bit_of_a_burst():
    rng = np.random.default_rng(5)
    ratings = Ratings(rng.normal(1500, 400, 20), rng.uniform(30, 350, 20), rng.uniform(0.03, 0.1, 20))
    home, away = rng.integers(0, 20, (2, 5_000))
    wins = rng.integers(0, 3, 5_000) / 2
    for score in (wins, rng.random(5_000)):
        order = rng.permutation(5_000)
        ones = np.ones(5_000, int)
        one = rate_period(ratings, Results(home, away, score, ones), burst_games=BURST)
        other = rate_period(ratings, Results(home[order], away[order], score[order], ones), burst_games=BURST)
        assert same_bits(one, other)
        swapped = rate_period(ratings, Results(away, home, 1 - score, ones), burst_games=BURST)
        assert swapped.rating == pytest.approx(one.rating, abs=1e-6)


def test_a_players_burst_does_not_depend_on_other_players_bursts():
    ratings = population((1500, 350, 0.06), (1500, 30, 0.06), (1500, 100, 0.06))
    kinds = [Kind.LEARNER, Kind.ANCHOR, Kind.LEARNER]
    alone = rate_period(ratings, rows((0, 1, 0.9, 500)), kinds=kinds, burst_games=BURST)
    beside = rate_period(ratings, rows((0, 1, 0.9, 500), (2, 1, 0.999, 90_000)), kinds=kinds, burst_games=BURST)
    assert beside.rating[0] == alone.rating[0]


finite = st.floats(allow_nan=False, allow_infinity=False)
not_negative = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(finite, not_negative, not_negative), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1), st.integers(1, 2**62)), min_size=1, max_size=4),
    st.floats(0.01, 100),
    st.lists(st.sampled_from(Kind), min_size=3, max_size=3),
)
def test_every_finite_burst_gives_finite_ratings(players, games, tau, kinds):
    results = rows(*((side, 1 - side, score, n) for side, score, n in games))
    rate_period(population(*players), results, tau=tau, kinds=kinds[: len(players)], burst_games=1)


def test_a_negative_number_of_games_is_refused():
    with refused(ValueError, "burst_games", -1):
        rate_period(newcomers(2), rows((0, 1, 1, 1)), burst_games=-1)
