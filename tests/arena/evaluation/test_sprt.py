"""The reference values are worked out here, to 40 digits, from the definitions and in another way than the code's."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from arena.evaluation.sprt import (
    EloEstimate,
    SprtConfig,
    estimate,
    expected_games,
    log_likelihood_ratio,
    run_sprt,
    stop,
)

COUNTS = [
    (3, [10, 20, 15]),
    (3, [1450, 4000, 1500]),
    (3, [65804, 56553, 65388]),
    (3, [40, 1, 3]),
    (5, [3, 10, 20, 12, 5]),
    (5, [1187, 7410, 13475, 7378, 1164]),
    (5, [10789, 19328, 33806, 19402, 10543]),
    (5, [39, 2226, 31451, 2412, 40]),
    (5, [0, 0, 0, 1, 30]),
]
GAPS = [(0.0, 20.0), (-3.0, 1.0), (0.2, 0.9), (-100.0, 250.0)]


def score_of(elo):
    return 1 / (1 + mpmath.mpf(10) ** (-mpmath.mpf(elo) / 400))


def three_shares(counts, mean):
    """Maximise l log(1 - 2s + t) + d log(2s - 2t) + w log(t): with t games won, the mean s fixes the others.

    The derivative is zero where n t^2 - (l s - d (1 - 2s) + w (3s - 1)) t - w s (1 - 2s) = 0.
    """
    lost, drawn, won = counts
    middle = lost * mean - drawn * (1 - 2 * mean) + won * (3 * mean - 1)
    root = mpmath.sqrt(middle**2 + 4 * sum(counts) * won * mean * (1 - 2 * mean))
    roots = [(middle + sign * root) / (2 * sum(counts)) for sign in (1, -1)]
    shares = [[1 - 2 * mean + t, 2 * (mean - t), t] for t in roots]
    return next(each for each in shares if min(each) > 0)


def five_shares(counts, mean):
    """Solve Lagrange's conditions: n_i / p_i = n (1 + x a_i) with a_i = v_i - s, so that sum p = 1 and sum p a = 0.

    Cleared of fractions, sum_i n_i a_i / (1 + x a_i) = 0 is a polynomial of degree 4 with one root where all p > 0.
    """
    distances = [mpmath.mpf(i) / 4 - mean for i in range(5)]
    apart = [(n, a) for n, a in zip(counts, distances, strict=True) if a != 0]  # a value at the mean adds nothing
    polynomial = [mpmath.mpf(0)] * len(apart)
    for i, (n, a) in enumerate(apart):
        term = [n * a]
        for j, (_, b) in enumerate(apart):
            if j != i:  # times (1 + x b), highest power first
                term = [b * high + low for high, low in zip([*term, 0], [0, *term], strict=True)]
        polynomial = [one + other for one, other in zip(polynomial, term, strict=True)]
    for x in mpmath.polyroots(polynomial, maxsteps=500, extraprec=500):
        shares = [n / sum(counts) / (1 + mpmath.re(x) * a) for n, a in zip(counts, distances, strict=True)]
        if abs(mpmath.im(x)) < 1e-30 and min(shares) > 0:
            assert abs(sum(shares) - 1) < 1e-25
            assert abs(sum(p * a for p, a in zip(shares, distances, strict=True))) < 1e-25
            return shares
    raise AssertionError("no root with positive shares")


def reference_ratio(counts, elo0, elo1):
    with mpmath.workdps(40):
        filled = [mpmath.mpf(n) if n else mpmath.mpf("0.001") for n in counts]
        shares = three_shares if len(counts) == 3 else five_shares
        p0, p1 = (shares(filled, score_of(elo)) for elo in (elo0, elo1))
        return float(sum(n * mpmath.log(b / a) for n, a, b in zip(filled, p0, p1, strict=True)))


@pytest.mark.parametrize(("cells", "counts"), COUNTS)
def test_ratio_is_that_of_the_two_constrained_maxima(cells, counts):
    assert len(counts) == cells
    for elo0, elo1 in GAPS:
        assert float(log_likelihood_ratio(counts, elo0, elo1)) == pytest.approx(
            reference_ratio(counts, elo0, elo1), abs=1e-6
        )


def test_counts_of_many_tests_are_judged_at_once():
    many = np.array([[counts] for cells, counts in COUNTS if cells == 5])
    together = log_likelihood_ratio(many, 0.0, 20.0)
    assert together.shape == (5, 1)
    assert together.ravel() == pytest.approx([float(log_likelihood_ratio(row[0], 0.0, 20.0)) for row in many])


count_lists = st.one_of(st.lists(st.integers(0, 5000), min_size=n, max_size=n) for n in (3, 5))
leads = st.floats(-400, 400)


@settings(max_examples=20)
@given(count_lists, leads, leads)
def test_a_ratio_turns_round_with_its_hypotheses_and_with_the_sides(counts, elo0, elo1):
    ratio = float(log_likelihood_ratio(counts, elo0, elo1))
    assert np.isfinite(ratio)
    assert float(log_likelihood_ratio(counts, elo1, elo0)) == pytest.approx(-ratio, abs=1e-6)
    assert float(log_likelihood_ratio(counts[::-1], -elo0, -elo1)) == pytest.approx(ratio, rel=1e-6, abs=1e-6)


def test_ratio_nears_the_quadratic_approximation_when_hypotheses_are_close():
    """n (s1 - s0) (2 s - s0 - s1) / (2 var)."""
    counts = np.array([200, 400, 800, 420, 210])
    values = np.linspace(0.0, 1.0, 5)
    mean = counts @ values / counts.sum()
    variance = counts @ (values - mean) ** 2 / counts.sum()
    s0, s1 = 0.5, float(score_of(1.0))
    approximation = counts.sum() * (s1 - s0) * (2.0 * mean - s0 - s1) / (2.0 * variance)
    assert float(log_likelihood_ratio(counts, 0.0, 1.0)) == pytest.approx(approximation, rel=1e-2)


def paired_scores(elo, tests, pairs, rng):
    """Return (tests, pairs) mean scores of two games, of which a third are drawn."""
    win = float(score_of(elo)) - 1 / 6
    games = rng.choice([0.0, 0.5, 1.0], (tests, pairs, 2), p=[1 - win - 1 / 3, 1 / 3, win])
    return games.mean(axis=2)


@pytest.mark.parametrize(("elo", "wrong"), [(-60.0, "accept"), (60.0, "reject")])
def test_errors_are_as_rare_as_was_asked(elo, wrong):
    config = SprtConfig(elo0=-60.0, elo1=60.0, alpha=0.1, beta=0.1, least_games=0)
    stops = [stop(scores, config) for scores in paired_scores(elo, 60, 80, np.random.default_rng(7))]
    decisions = [each.decision for each in stops]
    assert "continue" not in decisions
    # 60 tests at 10 %: 6 are wrong, give or take 2.3; none of 60 would mean that play goes on for too long
    assert 1 <= decisions.count(wrong) <= 13


def test_a_verdict_falls_at_the_first_score_beyond_a_bound_and_stays():
    scores = paired_scores(100.0, 1, 400, np.random.default_rng(0))[0]
    config = SprtConfig(elo0=0.0, elo1=40.0)
    verdict = stop(scores, config)
    assert verdict.decision == "accept"
    assert verdict.llr > verdict.upper
    decided = verdict.games // 2
    assert stop(scores[:decided], config) == verdict
    assert stop(np.concatenate((scores[:decided], np.zeros(300))), config) == verdict
    assert stop(scores[: decided - 1], config).decision == "continue"


def test_the_bounds_move_in_by_the_mean_step_over_them():
    """By hand: records of the ratio at each new height, sum of squares over twice the sum."""
    scores = np.array([1.0, 0.5, 0.25, 1.0, 0.75])
    config = SprtConfig(elo0=0.0, elo1=100.0)
    cells = np.eye(5)[(4 * scores).astype(int)]
    ratios = [float(log_likelihood_ratio(cells[:n].sum(axis=0), 0.0, 100.0)) for n in range(1, 6)]
    up, down = [], []
    for ratio in ratios:
        up += [ratio - sum(up)] if ratio > sum(up) else []
        down += [sum(down) - ratio] if ratio < -sum(down) else []
    verdict = stop(scores, config)
    assert len(up) > 1
    assert verdict.upper == pytest.approx(np.log(19) - sum(step**2 for step in up) / (2 * sum(up)))
    assert verdict.lower == pytest.approx(-np.log(19) + (sum(s**2 for s in down) / (2 * sum(down)) if down else 0.0))


def test_no_verdict_falls_before_the_least_games():
    assert stop(np.ones(30), SprtConfig(0.0, 300.0, least_games=0)).games < 20
    assert stop(np.ones(30), SprtConfig(0.0, 300.0, least_games=20)).games == 20
    assert stop(np.ones(9), SprtConfig(0.0, 300.0, least_games=20)).decision == "continue"


def test_a_score_between_two_values_keeps_the_mean():
    verdict = stop([0.6, 0.125], SprtConfig())
    assert verdict.counts == pytest.approx((0.5, 0.5, 0.6, 0.4, 0.0))
    assert np.dot(verdict.counts, np.linspace(0, 1, 5)) == pytest.approx(0.725)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30))
@settings(max_examples=20)
def test_scores_of_any_margin_are_judged(scores):
    verdict = run_sprt(scores, SprtConfig(elo0=-1000.0, elo1=1000.0))
    assert np.isfinite(verdict.stop.llr)
    assert verdict.lead.low <= verdict.lead.elo <= verdict.lead.high


def test_before_the_first_game_nothing_is_known():
    verdict = run_sprt([], SprtConfig())
    assert (verdict.stop.decision, verdict.stop.games, verdict.stop.llr) == ("continue", 0, 0.0)
    assert verdict.lead == EloEstimate(*(pytest.approx(elo, abs=1e-6) for elo in (0.0, -1000.0, 1000.0)))


def test_far_from_its_bounds_a_test_estimates_as_if_it_had_been_of_a_fixed_length():
    counts = np.array([20, 40, 90, 45, 25])
    values = np.linspace(0.0, 1.0, 5)
    mean = counts @ values / counts.sum()
    error = np.sqrt(counts @ (values - mean) ** 2) / counts.sum()
    lead = estimate(counts, SprtConfig(elo0=0.0, elo1=1.0))
    ends = [400.0 * np.log10(s / (1 - s)) for s in (mean, mean - 1.96 * error, mean + 1.96 * error)]
    assert [lead.elo, lead.low, lead.high] == pytest.approx(ends, abs=1.5)


def test_intervals_hold_the_truth_and_medians_are_in_the_middle_although_the_test_stopped_itself():
    config = SprtConfig(elo0=-60.0, elo1=60.0)
    scores = paired_scores(30.0, 40, 150, np.random.default_rng(3))
    leads = [verdict.lead for verdict in (run_sprt(each, config) for each in scores)]
    # 40 intervals: at most 2 miss on average, give or take 1.4; half of the medians are above, give or take 3.2
    assert sum(not lead.low <= 30.0 <= lead.high for lead in leads) <= 6
    assert 10 <= sum(lead.elo > 30.0 for lead in leads) <= 30


@pytest.mark.parametrize("counts", [[0, 0, 0, 0, 10], [1000, 0, 0, 0, 0], [0, 0, 100_000], [1, 0, 0, 0, 1]])
def test_one_sided_records_have_an_estimate(counts):
    lead = estimate(counts, SprtConfig())
    assert -1000.0 <= lead.low <= lead.elo <= lead.high <= 1000.0


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ({"elo0": 20.0}, ("elo0", 20.0, "elo1")),
        ({"elo1": float("nan")}, ("elo1", "nan")),
        ({"alpha": 0.5}, ("alpha", 0.5)),
        ({"beta": 0.0}, ("beta", 0.0)),
        ({"least_games": -1}, ("least_games", -1)),
    ],
)
def test_bad_gates_are_refused_by_name(setting, values):
    with refused(ValueError, *values):
        SprtConfig(**setting)


def test_bad_scores_and_counts_are_refused_by_name():
    with refused(ValueError, "scores[1]", 1.5):
        stop([0.5, 1.5], SprtConfig())
    with refused(ValueError, "scores", "(1, 2)"):
        stop([[0.5, 0.5]], SprtConfig())
    with refused(ValueError, "counts", "(4,)"):
        log_likelihood_ratio([1, 2, 3, 4], 0.0, 1.0)
    with refused(ValueError, "elo", 1000000.0, 1000):
        log_likelihood_ratio([1, 2, 3], 0.0, 1e6)
    with refused(ValueError, 0):
        estimate([1, -2, 3], SprtConfig())


@pytest.mark.parametrize(("lead", "games"), [(0.0, 74), (100.0, 60), (200.0, 32), (400.0, 25)])
def test_expected_games_are_near_the_mean_of_simulated_tests(lead, games):
    """Means of 60 tests of independent games without draws, with standard errors of 7, 5, 2 and 0.3."""
    config = SprtConfig(elo1=100.0)
    expected = expected_games(stop([], config), float(score_of(lead)), config)
    assert expected == pytest.approx(games, rel=0.21)


def test_expected_games_follow_the_pairs_that_were_played():
    """The prediction is wrong: the candidate wins every other pair, as an even player does."""
    config = SprtConfig(elo1=50.0)
    scores = np.tile([1.0, 0.0], 20)
    forecasts = [expected_games(stop(scores[:pairs], config), 0.9, config) for pairs in (0, 10, 40)]
    assert forecasts[0] < 60 < forecasts[1] < forecasts[2]


def test_expected_games_of_a_decided_test_are_its_games():
    config = SprtConfig(elo1=100.0)
    decided = stop(np.ones(40), config)
    assert (decided.decision, expected_games(decided, 0.1, config)) == ("accept", decided.games)


def test_expected_games_are_at_least_the_fewest_before_a_decision():
    config = SprtConfig(elo1=100.0, least_games=200)
    assert expected_games(stop([], config), 1.0, config) == 200
