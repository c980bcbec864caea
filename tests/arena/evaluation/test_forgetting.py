import numpy as np
import pytest
from refused import refused

from arena.evaluation.forgetting import forgetting, regressions
from arena.evaluation.payoff import WinCounts


def counts(points, games):
    points, games = np.array(points, dtype=float), np.broadcast_to(np.array(games, dtype=float), np.shape(points))
    return WinCounts(games=games, points=points, wins=points, draws=np.zeros_like(points), losses=games - points)


def test_a_lost_win_rate_shows_where_games_are_many_enough():
    found = forgetting(counts([4, 40, 400], [5, 50, 500]), counts([2, 20, 200], [5, 50, 500]))
    assert found.drop == pytest.approx([2 / 7, 20 / 52, 200 / 502])
    assert found.forgotten.tolist() == [False, True, True]
    assert found.weights == pytest.approx([0.0, 20 / 52, 200 / 502])


def test_p_values_are_those_of_simulated_win_rates():
    """P(recent win rate >= earlier one) by draws from both Beta distributions."""
    rng = np.random.default_rng(0)
    for earlier, recent, games in ((30, 20, 40), (70, 60, 80), (15, 10, 30)):
        before, now = (rng.beta(points + 1, games - points + 1, 200_000) for points in (earlier, recent))
        found = forgetting(counts([earlier], games), counts([recent], games))
        assert found.p_value[0] == pytest.approx((now >= before).mean(), abs=0.004)


def test_noise_is_not_forgotten():
    """300 leagues of 40 opponents whom a learner beats as often as ever; at 5 % about 15 may have a false alarm."""
    rng = np.random.default_rng(1)
    rate = rng.uniform(0.2, 0.9, (300, 40))
    earlier, recent = rng.binomial(60, rate), rng.binomial(30, rate)
    alarms = sum(forgetting(counts(e, 60), counts(r, 30)).forgotten.any() for e, r in zip(earlier, recent, strict=True))
    assert alarms <= 27


def test_of_those_called_forgotten_few_are_not():
    rng = np.random.default_rng(2)
    lost = np.arange(40) < 10
    wrong = called = found = 0
    for _ in range(100):
        earlier, recent = rng.binomial(100, 0.8, 40), rng.binomial(100, np.where(lost, 0.5, 0.8))
        forgotten = forgetting(counts(earlier, 100), counts(recent, 100)).forgotten
        called, wrong = called + forgotten.sum(), wrong + (forgotten & ~lost).sum()
        found += (forgotten & lost).sum()
    assert wrong / called < 0.07
    assert found / 1000 > 0.9


def test_forgetting_requires_matches_in_both_windows():
    found = forgetting(counts([50, 0], [50, 0]), counts([0, 0], [0, 50]))
    assert found.p_value.tolist() == [1.0, 1.0]
    assert not found.forgotten.any()
    beside = forgetting(counts([50, 45], [50, 50]), counts([0, 5], [0, 50]))
    assert beside.p_value[0] == 1.0
    assert beside.forgotten.tolist() == [False, True]
    nobody = forgetting(counts([], []), counts([], []))
    assert nobody.weights.shape == (0,)


def test_a_fall_within_the_margin_is_not_worth_mentioning():
    earlier, recent = counts([900], 1000), counts([800], 1000)
    assert forgetting(earlier, recent).forgotten[0]
    assert forgetting(earlier, recent, margin=0.05).forgotten[0]
    assert not forgetting(earlier, recent, margin=0.1).forgotten[0]


@pytest.mark.parametrize(
    ("earlier", "recent", "lost"),
    [
        ((70, 100), (30, 100), True),
        ((70, 100), (45, 100), False),  # it may still be even
        ((52, 100), (20, 100), False),  # it may never have been better
        ((40, 100), (10, 100), False),  # it never was
        ((30, 100), (70, 100), False),
        ((5, 6), (1, 6), False),
        ((0, 0), (1, 100), False),
    ],
)
def test_regression_requires_a_confident_win_before_and_loss_now(earlier, recent, lost):
    assert regressions(counts([earlier[0]], earlier[1]), counts([recent[0]], recent[1])).tolist() == [lost]


def test_noise_is_no_regression_however_often_one_looks():
    """400 looks at 60 opponents who are as even as ever: with the significance of one look 9 alarms would be false."""
    rng = np.random.default_rng(3)
    seen = [counts(rng.binomial(170, 0.5, 60), 170) for _ in range(800)]
    alarms = sum(regressions(one, two).sum() for one, two in zip(seen[::2], seen[1::2], strict=True))
    assert alarms <= 2


def test_bad_counts_and_settings_are_refused_by_name():
    one, two = counts([1], 1), counts([1, 1], 1)
    with refused(ValueError, "earlier", "(1,)", "(2,)"):
        forgetting(one, two)
    with refused(ValueError, "margin", 1.0):
        forgetting(one, one, margin=1.0)
    with refused(ValueError, "significance", 0.0):
        forgetting(one, one, significance=0.0)
