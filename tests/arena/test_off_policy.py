from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.off_policy import LoggedDraws, evaluate


def distributions(rng, count, options, sharpness):
    odds = rng.normal(0.0, sharpness, (count, options))
    shares = np.exp(odds)
    return shares / shares.sum(axis=1, keepdims=True)


def league(rng, *, draws=2000, count=5, options=12, sharpness=0.7):
    """Log draws and scores; return them with the mean score that the target rule has in truth."""
    logged, target = (distributions(rng, count, options, sharpness) for _ in range(2))
    win_rate = rng.uniform(0.1, 0.9, options)
    which = rng.integers(count, size=draws)
    option = np.array([rng.choice(options, p=logged[each]) for each in which])
    score = (rng.random(draws) < win_rate[option]).astype(float)
    truth = float((target[which] @ win_rate).mean())
    return LoggedDraws(logged, target, which, option, score), truth


def test_by_hand():
    draws = LoggedDraws(
        logged=np.array([[0.5, 0.5], [0.2, 0.8]]),
        target=np.array([[1.0, 0.0], [0.6, 0.4]]),
        distribution=np.array([0, 0, 1, 1]),
        option=np.array([0, 1, 0, 1]),
        score=np.array([1.0, 0.0, 0.5, 1.0]),
    )
    found = evaluate(draws)  # weights 2, 0, 3, 0.5
    assert found.target_shares == pytest.approx([0.8, 0.2])
    assert found.logged_shares == pytest.approx([0.35, 0.65])
    assert found.weighted.value == pytest.approx((2 + 0 + 1.5 + 0.5) / 4)
    assert found.self_normalised.value == pytest.approx(4.0 / 5.5)
    assert found.effective_draws == pytest.approx(5.5**2 / 13.25)
    assert found.logged_score.value == pytest.approx(2.5 / 4)
    assert found.uncovered == 0.0


@given(st.integers(0, 2**32 - 1))
def test_the_rule_that_was_in_force_is_estimated_by_the_mean(seed):
    draws, _ = league(np.random.default_rng(seed), draws=50)
    found = evaluate(replace(draws, target=draws.logged))
    assert found.effective_draws == pytest.approx(50)
    assert found.weighted.value == pytest.approx(draws.score.mean())
    assert found.self_normalised.value == pytest.approx(draws.score.mean())
    assert found.target_shares == pytest.approx(found.logged_shares)
    assert 0.0 <= found.self_normalised.low <= found.self_normalised.high <= 1.0


def test_intervals_hold_the_truth_19_times_out_of_20():
    rng = np.random.default_rng(4)
    outcomes = [(evaluate(draws), truth) for draws, truth in (league(rng, draws=400) for _ in range(120))]
    for name in ("weighted", "self_normalised"):
        found = [(getattr(each, name), truth) for each, truth in outcomes]
        # 120 intervals at 95 %: 6 miss, give or take 2.4; none of 120 would mean that they are too wide
        assert 1 <= sum(not one.low <= truth <= one.high for one, truth in found) <= 13
        assert abs(np.mean([one.value - truth for one, truth in found])) < 0.01
    spread = {
        name: np.std([getattr(each, name).value - truth for each, truth in outcomes])
        for name in ("weighted", "self_normalised")
    }
    assert spread["self_normalised"] < spread["weighted"]


def test_few_effective_draws_are_called_too_few():
    draws, _ = league(np.random.default_rng(1), draws=60)
    same = evaluate(replace(draws, target=draws.logged))
    assert (same.draws, same.too_few) == (60, False)
    assert replace(same, effective_draws=49.0).too_few
    assert replace(same, effective_draws=99.0, draws=1000).too_few
    assert not replace(same, effective_draws=100.0, draws=1000).too_few


def test_effective_draws_tell_how_many_of_the_other_rule_would_be_as_good():
    """So many draws from the target itself would spread as much, where weights and scores have nothing in common."""
    rng = np.random.default_rng(5)
    logged, target = (distributions(rng, 1, 10, 0.8) for _ in range(2))
    values, effective = [], []
    for _ in range(400):
        option = rng.choice(10, 300, p=logged[0])
        score = (rng.random(300) < 0.5).astype(float)
        found = evaluate(LoggedDraws(logged, target, np.zeros(300, dtype=int), option, score))
        values.append(found.self_normalised.value)
        effective.append(found.effective_draws)
    assert np.std(values) == pytest.approx(np.sqrt(0.25 / np.mean(effective)), rel=0.1)


def test_what_the_logged_rule_never_drew_is_told():
    draws = LoggedDraws(
        logged=np.array([[0.5, 0.5, 0.0]]),
        target=np.array([[0.0, 0.25, 0.75]]),
        distribution=np.zeros(2, dtype=int),
        option=np.array([0, 1]),
        score=np.array([1.0, 0.0]),
    )
    assert evaluate(draws).uncovered == 0.75
    nothing = evaluate(replace(draws, target=np.array([[0.0, 0.0, 1.0]])))
    assert nothing.uncovered == 1.0
    assert nothing.effective_draws == 0.0
    assert np.isnan(nothing.self_normalised.value)


GOOD, _ = league(np.random.default_rng(0), draws=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": np.ones((1, 1))}, r"target \(1, 1\)"),
        ({"score": np.zeros(2)}, r"and \(2,\): pass one value per draw"),
        ({"score": np.array([0.0, 2.0, 0.0])}, r"score\[1\] is 2\.0"),
        ({"target": GOOD.logged * 0.5}, r"target\[0\] sums to 0\.5"),
        ({"option": np.array([0, 0, 12])}, r"option\[2\] is 12: an index is in \[0, 12\)"),
        ({"distribution": np.array([-1, 0, 0])}, r"distribution\[0\] is -1"),
        (
            {"logged": np.eye(12)[:5], "distribution": np.zeros(3, dtype=int), "option": np.array([0, 0, 1])},
            "draw 2 has the logged probability 0",
        ),
    ],
)
def test_bad_logs_are_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **change)


def test_one_draw_says_nothing():
    one = replace(GOOD, distribution=GOOD.distribution[:1], option=GOOD.option[:1], score=GOOD.score[:1])
    with pytest.raises(ValueError, match="there are 1 draws"):
        evaluate(one)
