import json
from pathlib import Path

import numpy as np
import pytest
from glicko2_players import no_games, one_player_period, population, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from refused import refused

from arena.ratings import glicko2
from arena.ratings.glicko2 import (
    SCALE,
    Kind,
    Ratings,
    Results,
    conservative,
    expected_score,
    newcomers,
    rate_period,
)

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "glicko2_public.json").read_text())


def same_bits(one, other):
    return all(
        np.array_equal(getattr(one, field), getattr(other, field)) for field in ("rating", "deviation", "volatility")
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_rating_period_equals_the_high_precision_vectors(vector):
    rating, deviation, volatility = one_player_period(
        (vector["r"], vector["rd"], vector["vol"]), vector["games"], tau=vector["tau"]
    )
    assert rating == pytest.approx(float(vector["r1"]), abs=1e-9)
    assert deviation == pytest.approx(float(vector["rd1"]), abs=1e-9)
    assert volatility == pytest.approx(float(vector["vol1"]), rel=1e-10)


@pytest.mark.holds("J8")
def test_glickmans_example_at_full_precision():
    # the paper prints 1464.06 because it rounds on the way
    games = [(1400, 30, 1, 1), (1550, 100, 0, 1), (1700, 300, 0, 1)]
    rating, deviation, volatility = one_player_period((1500, 200, 0.06), games)
    assert rating == pytest.approx(1464.0506705, abs=5e-8)
    assert deviation == pytest.approx(151.5165241, abs=5e-8)
    assert volatility == pytest.approx(0.0599959844, abs=5e-11)


def test_both_sides_are_rated_against_the_ratings_at_the_start():
    ratings = population((1500, 200, 0.06), (1700, 100, 0.06), (1600, 50, 0.06))
    after = rate_period(ratings, rows((0, 1, 1, 1), (1, 2, 0, 1), (2, 0, 0.5, 2)))
    alone = [
        one_player_period((1500, 200, 0.06), [(1700, 100, 1, 1), (1600, 50, 0.5, 2)]),
        one_player_period((1700, 100, 0.06), [(1500, 200, 0, 1), (1600, 50, 0, 1)]),
        one_player_period((1600, 50, 0.06), [(1700, 100, 1, 1), (1500, 200, 0.5, 2)]),
    ]
    together = np.column_stack((after.rating, after.deviation, after.volatility))
    assert together == pytest.approx(np.array(alone), rel=1e-12)


def test_idle_learner_keeps_rating_and_volatility_and_grows_uncertain():
    after = rate_period(population((1500, 200, 0.06)), no_games())
    assert after.rating[0] == 1500.0
    assert after.volatility[0] == 0.06
    assert after.deviation[0] == pytest.approx(200.271416698770631, abs=1e-12)


def test_idle_frozen_player_changes_in_no_bit():
    ratings = population((1712.3, 87.1, 0.06), (1500, 60, 0.06))
    after = rate_period(ratings, no_games(), kinds=[Kind.FROZEN, Kind.FROZEN], deviation_floor=90.0)
    assert same_bits(after, ratings)


def test_frozen_player_shrinks_with_evidence_as_if_its_volatility_were_zero():
    ratings = population((1500, 100, 0.3), (1500, 80, 0.3))
    after = rate_period(ratings, rows((0, 1, 1, 8)), kinds=[Kind.FROZEN, Kind.FROZEN])
    still = rate_period(population((1500, 100, 0.0), (1500, 80, 0.0)), rows((0, 1, 1, 8)))
    assert after.rating.tolist() == still.rating.tolist()
    assert after.deviation.tolist() == still.deviation.tolist()
    assert (after.deviation < ratings.deviation).all()
    assert after.volatility.tolist() == [0.3, 0.3]


@pytest.mark.parametrize("kind", [Kind.ANCHOR, Kind.OBSERVED])
def test_anchor_and_observed_players_change_in_no_bit_but_count_as_opponents(kind):
    ratings = population((1500.1, 30.3, 0.07), (1400, 350, 0.06))
    after = rate_period(
        ratings, rows((0, 1, 0, 5)), kinds=[kind, Kind.LEARNER], deviation_floor=40.0, volatility_cap=0.06
    )
    assert (after.rating[0], after.deviation[0], after.volatility[0]) == (1500.1, 30.3, 0.07)
    assert after.rating[1] > 1600.0


def test_games_of_a_player_against_itself_are_dropped():
    ratings = population((1500, 350, 0.06), (1600, 100, 0.06))
    with_self = rate_period(ratings, rows((0, 0, 1, 100), (0, 1, 1, 1)))
    assert same_bits(with_self, rate_period(ratings, rows((0, 1, 1, 1))))
    assert rate_period(ratings, rows((0, 0, 0.5, 100))).deviation[0] > 350.0


@pytest.mark.parametrize("gap", [6_400, 10_000, 50_000])
def test_ratings_very_far_apart_neither_underflow_nor_divide_by_zero(gap):
    # an expected win is no news; an upset moves a certain player of zero volatility by phi^2
    ratings = population((1500 + gap, 30, 0.0), (1500, 30, 0.0))
    expected = rate_period(ratings, rows((0, 1, 1, 10)))
    assert expected.rating == pytest.approx(ratings.rating)
    assert expected.deviation == pytest.approx(ratings.deviation)
    upset = rate_period(ratings, rows((0, 1, 0, 1)))
    phi = 30 / SCALE
    g = 1 / np.sqrt(1 + 3 * phi**2 / np.pi**2)
    assert upset.rating - ratings.rating == pytest.approx(np.array([-1, 1]) * SCALE * phi**2 * g, rel=1e-9)


def test_a_rating_of_minus_zero_is_even_with_zero():
    after = rate_period(population((-0.0, 100, 0.06), (0.0, 100, 0.06)), rows((0, 1, 1, 1)))
    assert after.rating[0] == -after.rating[1] > 0.0


def test_information_keeps_its_accuracy_beyond_6400_points():
    # v of one game between certain players 8,000 points apart is (1 + x)^2 / x, which E (1 - E) rounds to infinity;
    # the drop of a huge deviation shows it
    _, deviation, _ = one_player_period((9500, 1e24, 0.0), [(1500, 0.0, 1, 1)])
    x = np.exp(-8000 / SCALE)
    assert deviation == pytest.approx(SCALE * (1 + x) / np.sqrt(x), rel=1e-6)


def test_volatility_cap_holds_when_one_result_repeats_hundreds_of_times():
    games = [(2300, 30, 1, 400)]
    _, _, exploded = one_player_period((1500, 60, 0.06), games)
    assert exploded > 1.0
    rating, deviation, volatility = one_player_period((1500, 60, 0.06), games, volatility_cap=0.1)
    assert volatility == 0.1
    # the capped volatility is the one that the deviation grows by
    phi_star = np.hypot(60 / SCALE, 0.1)
    g = 1 / np.sqrt(1 + 3 * (30 / SCALE) ** 2 / np.pi**2)
    e = 1 / (1 + np.exp(g * 800 / SCALE))
    phi = 1 / np.sqrt(1 / phi_star**2 + 400 * g**2 * e * (1 - e))
    assert deviation == pytest.approx(SCALE * phi, rel=1e-12)
    assert rating == pytest.approx(1500 + SCALE * phi**2 * 400 * g * (1 - e), rel=1e-12)


def test_deviation_floor_and_cap_hold_for_updated_players():
    ratings = population((1500, 31, 0.06), (1500, 345, 0.06), (1500, 20, 0.06))
    after = rate_period(
        ratings,
        rows((0, 2, 0.5, 500)),
        kinds=[Kind.LEARNER, Kind.LEARNER, Kind.ANCHOR],
        deviation_floor=30.0,
        deviation_cap=345.0,
    )
    assert after.deviation.tolist() == [30.0, 345.0, 20.0]


players_strategy = st.integers(2, 6)
scores = st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1)


@st.composite
def periods(draw):
    count = draw(players_strategy)
    column = lambda low, high: arrays(float, count, elements=st.floats(low, high))  # noqa: E731
    ratings = Ratings(draw(column(-1e4, 1e4)), draw(column(0, 1e3)), draw(column(0, 2)))
    game = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), scores, st.integers(1, 1000))
    return ratings, draw(st.lists(game, min_size=1, max_size=30)), draw(st.sampled_from([0.3, 0.5, 1.2]))


@pytest.mark.holds("J8")
@given(periods(), st.randoms(use_true_random=False))
def test_order_of_results_changes_no_bit(period, random):
    ratings, games, tau = period
    shuffled = list(games)
    random.shuffle(shuffled)
    assert same_bits(rate_period(ratings, rows(*games), tau=tau), rate_period(ratings, rows(*shuffled), tau=tau))


@given(periods())
def test_swapping_the_sides_of_every_row_is_the_same_period(period):
    ratings, games, tau = period
    there = rate_period(ratings, rows(*games), tau=tau, volatility_cap=0.1)
    back = rate_period(ratings, rows(*((a, h, 1 - s, n) for h, a, s, n in games)), tau=tau, volatility_cap=0.1)
    assert there.rating == pytest.approx(back.rating, rel=1e-6, abs=1e-6)


def test_order_changes_no_bit_in_a_large_period():
    rng = np.random.default_rng(5)
    ratings = Ratings(rng.normal(1500, 400, 50), rng.uniform(30, 350, 50), rng.uniform(0.03, 0.1, 50))
    home, away = rng.integers(0, 50, (2, 20_000))
    score, games = rng.random(20_000), rng.integers(1, 9, 20_000)
    order = rng.permutation(20_000)
    assert same_bits(
        rate_period(ratings, Results(home, away, score, games)),
        rate_period(ratings, Results(home[order], away[order], score[order], games[order])),
    )


def many_games(case):
    """Thousands of games among four players, in which little can happen; and how many of them are alike."""
    rng = np.random.default_rng(6)
    home, away = rng.integers(0, 4, (2, 5_000))
    score, games = rng.integers(0, 3, 5_000) / 2.0, np.ones(5_000, int)
    if case == "margins":
        score = rng.random(5_000)
    elif case == "batches":
        games[77] = 2
    return Results(home, away, score, games)


@pytest.mark.parametrize(
    ("case", "alike"),
    [
        ("wins and draws", True), ("margins", False), ("batches", False),
    ],
)  # fmt: skip
def test_taking_games_that_are_alike_together_changes_no_bit(case, alike, monkeypatch):
    ratings = population((1500, 350, 0.06), (1650, 60, 0.05), (1320, 120, 0.08), (1502, 30, 0.06))
    results = many_games(case)
    together = rate_period(ratings, results)
    pair, _, _, times = glicko2._distinct(results)
    assert times.sum() == (results.home != results.away).sum()
    assert (pair.shape[1] <= 4 * 3 * 3) == alike
    monkeypatch.setattr(glicko2, "_ROOM_PER_ROW", 0)
    assert glicko2._distinct(results)[0].shape[1] == times.sum()
    assert same_bits(rate_period(ratings, results), together)


finite = st.floats(allow_nan=False, allow_infinity=False)
not_negative = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(finite, not_negative, not_negative), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 1), scores, st.integers(1, 2**62)), max_size=6),
    st.floats(0.01, 100),
)
def test_every_finite_input_gives_finite_ratings(players, games, tau):
    results = rows(*((side, 1 - side, score, n) for side, score, n in games)) if games else no_games()
    after = rate_period(population(*players), results, tau=tau)
    # `Ratings` refuses anything that is not finite
    again = rate_period(after, results, tau=tau, kinds=[Kind.FROZEN] * len(players), deviation_cap=350.0)
    assert (again.deviation <= np.maximum(after.deviation, 350.0)).all()


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)), min_size=1),
)
def test_aggregated_rows_equal_single_games(batches):
    ratings = population((1500, 350, 0.06), (1650, 60, 0.05), (1320, 120, 0.08), (1500, 30, 0.06))
    single, aggregated = [], []
    for home, away, wins, losses in batches:
        single += [(home, away, 1, 1)] * wins + [(home, away, 0, 1)] * losses
        if wins + losses:
            aggregated.append((home, away, wins / (wins + losses), wins + losses))
    if not single:
        return
    one, other = rate_period(ratings, rows(*single)), rate_period(ratings, rows(*aggregated))
    assert one.rating == pytest.approx(other.rating, abs=1e-9)
    assert one.deviation == pytest.approx(other.deviation, abs=1e-9)
    assert one.volatility == pytest.approx(other.volatility, abs=1e-9)


def test_expected_score_is_even_between_equals_and_complementary_between_sides():
    ratings = population((1500, 350, 0.06), (1500, 30, 0.06), (1900, 80, 0.06), (9000, 0, 0.06))
    home, away = np.array([0, 0, 2, 3, 1]), np.array([1, 2, 0, 0, 3])
    there, back = expected_score(ratings, home, away), expected_score(ratings, away, home)
    assert there[0] == 0.5
    assert there + back == pytest.approx(np.ones(5))
    assert 0.0 < there[4] < 1e-15


def test_expected_score_between_certain_players_is_the_elo_curve():
    ratings = population((1700, 0, 0.06), (1500, 0, 0.06))
    assert expected_score(ratings, [0], [1])[0] == pytest.approx(1 / (1 + 10 ** (-200 / 400)), rel=1e-6)


def test_uncertainty_pulls_the_expected_score_towards_even():
    ratings = population((1900, 50, 0.06), (1500, 50, 0.06), (1900, 350, 0.06), (1500, 350, 0.06))
    certain, unsure, both_unsure = expected_score(ratings, [0, 0, 2], [1, 3, 3])
    assert 0.5 < both_unsure < unsure < certain


def test_conservative_rating_of_a_newcomer_is_800():
    assert conservative(newcomers(2)).tolist() == [800.0, 800.0]


@pytest.mark.parametrize("field", ["rating", "deviation", "volatility"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_rating_is_refused_by_name_and_place(field, value):
    columns = {"rating": [1500.0, 1500.0], "deviation": [350.0, 350.0], "volatility": [0.06, 0.06]}
    columns[field] = [columns[field][0], value]
    with refused(ValueError, f"{field}[1]", value):
        Ratings(**columns)


def test_negative_deviation_and_wrong_shapes_are_refused_by_name():
    with refused(ValueError, "deviation[0]", -1.0):
        Ratings([1500.0], [-1.0], [0.06])
    with refused(ValueError, "volatility[0]", -0.1):
        Ratings([1500.0], [1.0], [-0.1])
    with refused(ValueError, "volatility", "(1,)", "(2,)"):
        Ratings([1500.0, 1500.0], [350.0, 350.0], [0.06])
    with refused(ValueError, "rating", "(1, 1)"):
        Ratings([[1500.0]], [[350.0]], [[0.06]])


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        (([0], [1], [1.7], [1]), ("score[0]", 1.7, "[0, 1]")),
        (([0, 0], [1, 1], [1.0, np.nan], [1, 1]), ("score[1]", "nan")),
        (([0], [1], [1.0], [0]), ("games[0]", 0)),
        (([-1], [1], [1.0], [1]), ("home[0]", -1)),
        (([0], [1.5], [1.0], [1]), ("float64",)),
        (([0], [1, 0], [1.0], [1]), ("away", "(2,)", "(1,)")),
    ],
)
def test_bad_results_are_refused_by_name_and_place(columns, values):
    with refused(ValueError, *values):
        Results(*columns)


def test_unknown_players_kinds_and_limits_are_refused_by_name():
    ratings, results = newcomers(2), rows((0, 2, 1, 1))
    with refused(ValueError, "away[0]", 2):
        rate_period(ratings, results)
    with refused(ValueError, "home[0]", 7, 2):
        expected_score(ratings, [7], [0])
    with refused(ValueError, "kinds[1]", 4):
        rate_period(ratings, no_games(), kinds=[0, 4])
    with refused(ValueError, "kinds", "(1,)"):
        rate_period(ratings, no_games(), kinds=[0])
    for tau in (0.0, -1.0, np.nan, np.inf):
        with refused(ValueError, "tau", tau):
            rate_period(ratings, no_games(), tau=tau)
    with refused(ValueError, "deviation_floor", 400.0, "deviation_cap", 350.0):
        rate_period(ratings, no_games(), deviation_floor=400.0, deviation_cap=350.0)
    with refused(ValueError, "volatility_cap", 0.0):
        rate_period(ratings, no_games(), volatility_cap=0.0)
