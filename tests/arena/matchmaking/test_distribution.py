from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from arena.matchmaking import (
    SELF,
    Candidates,
    MatchmakingConfig,
    draw,
    effective_opponents,
    opponent_distribution,
    pfsp_weights,
    rating_kernel,
)
from arena.matchmaking.rules import NO_LINEAGE

WEIGHTINGS = ["hard", "variance", "linear", "capped", "uniform"]
win_rate_lists = st.lists(st.floats(0, 1), min_size=1, max_size=30)
finite = st.floats(allow_nan=False, allow_infinity=False)


def pool(ratings, win_rates=None, *, rating=1500.0, games=100):
    win_rates = np.full(len(ratings), 0.5) if win_rates is None else np.array(win_rates, dtype=float)
    return Candidates(rating, games, np.array(ratings, dtype=float), win_rates)


def chi_square(observed, expected):
    """Pearson's statistic; for k degrees of freedom it stays under k + 5 sqrt(2 k) + 10 in all but 1 of 10^5 runs."""
    return float(((observed - expected) ** 2 / expected).sum())


@pytest.mark.holds("S15")
@pytest.mark.parametrize(
    ("weighting", "raw"),
    [
        ("hard", [0.81, 0.25, 0.01]),
        ("variance", [0.09, 0.25, 0.09]),
        ("linear", [0.9, 0.5, 0.1]),
        ("capped", [0.5, 0.5, 0.1]),
        ("uniform", [1.0, 1.0, 1.0]),
    ],
)
def test_weightings_follow_their_formulas(weighting, raw):
    weights = pfsp_weights([0.1, 0.5, 0.9], weighting)
    assert weights == pytest.approx(np.array(raw) / np.sum(raw))


def test_power_of_the_hard_weighting_is_the_exponent():
    assert pfsp_weights([0.5, 0.75], power=3.0) == pytest.approx([8 / 9, 1 / 9])
    assert pfsp_weights([0.1, 0.9], power=0.0).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@given(win_rates=win_rate_lists)
def test_weights_sum_to_one_and_are_never_nan(weighting, win_rates):
    weights = pfsp_weights(win_rates, weighting)
    assert weights.shape == (len(win_rates),)
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.3, 1.0 - 1e-9, 1.0])
def test_equal_win_rates_give_uniform_weights_also_all_one_and_all_zero(weighting, rate):
    assert pfsp_weights([rate] * 4, weighting) == pytest.approx([0.25] * 4)


@given(win_rate_lists)
def test_hard_prefers_the_opponent_that_wins_more(win_rates):
    weights = pfsp_weights(win_rates, "hard")
    order = np.argsort(win_rates, kind="stable")
    assert (np.diff(weights[order]) <= 0.0).all()


def test_empty_pool_has_empty_weights_and_self_play_only():
    assert pfsp_weights([]).shape == (0,)
    assert rating_kernel(1500.0, []).shape == (0,)
    distribution = opponent_distribution(pool([]), MatchmakingConfig(self_play_share=0.0))
    assert distribution.self_play == 1.0
    draws = draw(distribution, 5, np.random.default_rng(0))
    assert draws.opponents.tolist() == [SELF] * 5
    assert draws.propensities.tolist() == [1.0] * 5
    assert draws.branches == ("self-play",) * 5


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf])
def test_win_rate_outside_zero_to_one_is_refused_by_name_and_place(value):
    with refused(ValueError, "win_rates[1]", value):
        pfsp_weights([0.5, value])


def test_unknown_weighting_and_negative_power_are_refused_by_name():
    with refused(ValueError, "weighting", "soft"):
        pfsp_weights([0.5], "soft")
    with refused(ValueError, "power", -1.0):
        pfsp_weights([0.5], power=-1.0)
    with refused(ValueError, "win_rates", "(1, 1)"):
        pfsp_weights([[0.5]])


def test_skill_kernel_is_a_gaussian_of_the_rating_difference():
    weights = rating_kernel(1500.0, [1500.0, 1700.0, 1100.0])
    raw = np.exp([0.0, -0.5, -2.0])
    assert weights == pytest.approx(raw / raw.sum())


@pytest.mark.holds("J4")
def test_skill_kernel_does_not_underflow_thousands_of_points_away():
    weights = rating_kernel(1500.0, [6500.0, 6600.0, 20_000.0])
    assert weights[0] == pytest.approx(1 / (1 + np.exp(-(5100**2 - 5000**2) / (2 * 200**2))))
    assert weights.sum() == pytest.approx(1.0)


@given(finite, st.lists(finite, min_size=1, max_size=9), st.floats(1e-3, 1e6))
def test_skill_weights_sum_to_one_for_any_finite_ratings(rating, ratings, sigma):
    weights = rating_kernel(rating, ratings, sigma)
    assert (weights >= 0.0).all()
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.holds("J5")
@pytest.mark.parametrize(
    ("games", "ratings", "met"),
    [
        (19, [1300, 1700, 1701, 1299], [0, 1]),
        (0, [1500], [0]),
        (0, [1701, 1900, 1901], [0, 1]),
        (0, [1099, 1000, 701, 700, 699], [0, 1, 2, 3]),
        (0, [2301, 5000, -3000], [0, 1, 2]),
        (20, [1300, 1701, 5000], [0, 1, 2]),
    ],
)
def test_warm_up_widens_from_200_over_400_and_800_to_all(games, ratings, met):
    distribution = opponent_distribution(pool(ratings, games=games), MatchmakingConfig())
    assert np.flatnonzero(distribution.probabilities > 0.0).tolist() == met
    (branch,) = distribution.branches
    assert np.flatnonzero(~branch.excluded).tolist() == met
    assert branch.name == ("warm-up" if games < 20 else "pfsp")


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_effective_number_of_equal_weights_is_the_count(count):
    assert effective_opponents(np.full(count, 1 / count)) == pytest.approx(count)
    assert effective_opponents([1.0] + [0.0] * (count - 1)) == pytest.approx(1.0)


def test_effective_number_of_no_opponents_is_zero():
    assert effective_opponents([]) == 0.0


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20).filter(lambda weights: sum(weights) > 0.1))
def test_there_are_between_one_and_all_effective_opponents(weights):
    share = np.array(weights) / sum(weights)
    assert 1.0 - 1e-9 <= effective_opponents(share) <= np.count_nonzero(share) + 1e-9


def test_branch_describes_its_rule():
    rules = {
        weighting: opponent_distribution(pool([1500], [0.5]), MatchmakingConfig(weighting=weighting)).branches[0].rule
        for weighting in [*WEIGHTINGS, "skill"]
    }
    assert rules["hard"] == "(1 - win rate)^2: players that defeat the learner; 5% uniform"
    assert rules["skill"] == "nearness of rating, sigma 200; 5% uniform"
    assert len(set(rules.values())) == len(rules)
    (cold,) = opponent_distribution(pool([1500], games=0), MatchmakingConfig(uniform_share=0.0)).branches
    assert cold.rule == "nearness of rating, sigma 200"


def test_warm_up_lists_excluded_opponents_with_the_reason():
    (branch,) = opponent_distribution(pool([1950, 2600], games=3), MatchmakingConfig()).branches
    assert branch.filter == "rating within 800 of 1500"
    assert branch.excluded.tolist() == [False, True]


def test_warm_up_weighs_by_skill_and_mixes_in_the_uniform_share():
    (branch,) = opponent_distribution(pool([1500, 1690, 1900], games=0), MatchmakingConfig()).branches
    near = 0.95 * rating_kernel(1500.0, [1500.0, 1690.0]) + 0.05 / 2
    assert branch.weights == pytest.approx([*near, 0.0])


def test_every_opponent_of_a_warm_learner_stays_possible():
    distribution = opponent_distribution(pool([1500, 1500, 1500], [1.0, 0.2, 1.0]), MatchmakingConfig())
    assert distribution.probabilities == pytest.approx(0.65 * np.array([0.05 / 3, 0.95 + 0.05 / 3, 0.05 / 3]))


def by_learners(lineage, win_rates, **changes):
    config = MatchmakingConfig(balance="learners", self_play_share=0.0, **changes)
    candidates = replace(pool([1500] * len(lineage), win_rates), lineage=np.array(lineage))
    return opponent_distribution(candidates, config)


def test_balanced_learners_count_by_the_mean_of_their_snapshots():
    distribution = by_learners([7, 7, 7, 4], [0.5, 0.3, 0.9, 0.5], weighting="linear", uniform_share=0.1)
    raw = np.array([0.5 / 3, 0.7 / 3, 0.1 / 3, 0.5])
    even = np.array([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert distribution.probabilities == pytest.approx(0.9 * raw / raw.sum() + 0.1 * even)
    assert (
        distribution.branches[0].rule
        == "1 - win rate: players that defeat the learner; 10% uniform; each learner by the mean of its snapshots"
    )


def test_baseline_has_its_own_share_among_balanced_learners():
    distribution = by_learners([NO_LINEAGE, NO_LINEAGE, 7, 7], [0.5] * 4)
    assert distribution.probabilities == pytest.approx([1 / 3, 1 / 3, 1 / 6, 1 / 6])


def test_balanced_learners_fall_back_to_equal_shares():
    assert by_learners([7, 7, 4], [1.0] * 3).probabilities == pytest.approx([0.25, 0.25, 0.5])
    mixture = (("forgotten", 1.0),)
    assert by_learners([7, 7, 4], [0.1, 0.5, 0.9], mixture=mixture).probabilities == pytest.approx([0.25, 0.25, 0.5])


@given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.floats(0, 1)), min_size=1, max_size=8), st.integers(1, 5))
def test_duplicate_snapshots_do_not_raise_the_share_of_a_balanced_learner(players, times):
    lineage, win_rates = (list(column) for column in zip(*players, strict=True))
    own = [place for place, learner in enumerate(lineage) if learner == 1]
    more = times * own
    once = by_learners(lineage, win_rates).probabilities
    often = by_learners(lineage + [1] * len(more), win_rates + [win_rates[place] for place in more]).probabilities
    others = np.array(lineage) != 1
    assert often[: len(lineage)][others] == pytest.approx(once[others])


def test_without_balance_and_in_warm_up_every_snapshot_counts():
    crowded = replace(pool([1500] * 3, [0.5] * 3), lineage=np.array([7, 7, 4]))
    assert opponent_distribution(crowded, MatchmakingConfig()).probabilities == pytest.approx([0.65 / 3] * 3)
    cold, config = replace(crowded, learner_games=0), MatchmakingConfig(balance="learners")
    (branch,) = opponent_distribution(cold, config).branches
    assert branch.weights == pytest.approx([1 / 3] * 3)
    assert "mean" not in branch.rule
    unknown = replace(crowded, lineage=None)
    assert opponent_distribution(unknown, config).probabilities == pytest.approx([0.65 / 3] * 3)


def test_lineages_of_other_opponents_are_refused():
    with refused(ValueError, "lineage", "(2,)", 3, "(3,)"):
        replace(pool([1500] * 3), lineage=np.array([1, 2]))


@pytest.mark.holds("S15")
def test_skill_weighting_serves_warm_learners_too():
    config = MatchmakingConfig(weighting="skill", uniform_share=0.0, self_play_share=0.0, skill_sigma=100.0)
    distribution = opponent_distribution(pool([1400, 1800], [0.9, 0.1]), config)
    assert distribution.probabilities == pytest.approx(rating_kernel(1500.0, [1400.0, 1800.0], 100.0))


@given(
    st.lists(st.tuples(finite, st.floats(0, 1)), max_size=12),
    st.integers(0, 40),
    st.sampled_from([*WEIGHTINGS, "skill"]),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_self_play_and_opponents_always_make_one(players, games, weighting, self_play, uniform):
    ratings, win_rates = [r for r, _ in players], [x for _, x in players]
    config = MatchmakingConfig(self_play_share=self_play, weighting=weighting, uniform_share=uniform)
    distribution = opponent_distribution(pool(ratings, win_rates, games=games), config)
    assert (distribution.probabilities >= 0.0).all()
    assert distribution.self_play + distribution.probabilities.sum() == pytest.approx(1.0)
    for branch in distribution.branches:
        assert branch.weights.sum() == pytest.approx(1.0)
        assert (branch.weights[branch.excluded] == 0.0).all()
    draws = draw(distribution, 7, np.random.default_rng(games))
    assert (draws.propensities > 0.0).all()


def test_single_draws_follow_the_distribution():
    config = MatchmakingConfig()
    distribution = opponent_distribution(pool([1400, 1500, 1600, 2500], [0.9, 0.5, 0.2, 0.05]), config)
    rng = np.random.default_rng(11)
    drawn = np.array([draw(distribution, 1, rng).opponents[0] for _ in range(4000)])
    observed = np.array([(drawn == option).sum() for option in (SELF, 0, 1, 2, 3)])
    expected = 4000 * np.array([distribution.self_play, *distribution.probabilities])
    assert chi_square(observed, expected) < 4 + 5 * np.sqrt(8) + 10


@pytest.mark.holds("J4")
def test_skill_matched_draws_follow_a_kernel_of_sigma_200():
    ratings = np.arange(900.0, 2101.0, 150.0)
    config = MatchmakingConfig(weighting="skill", self_play_share=0.0, uniform_share=0.0)
    distribution = opponent_distribution(pool(ratings), config)
    rng = np.random.default_rng(12)
    drawn = np.array([draw(distribution, 1, rng).opponents[0] for _ in range(4000)])
    kernel = np.exp(-((ratings - 1500) ** 2) / (2 * 200**2))
    observed = np.bincount(drawn, minlength=ratings.size)
    assert chi_square(observed, 4000 * kernel / kernel.sum()) < 8 + 5 * np.sqrt(16) + 10


@given(st.integers(1, 300), st.integers(0, 2**32))
def test_draws_of_one_request_are_as_even_as_their_count_allows(count, seed):
    distribution = opponent_distribution(pool([1400, 1500, 1600], [0.9, 0.5, 0.2]), MatchmakingConfig())
    draws = draw(distribution, count, np.random.default_rng(seed))
    wanted = {SELF: distribution.self_play, **dict(enumerate(distribution.probabilities))}
    for option, probability in wanted.items():
        assert abs((draws.opponents == option).sum() - probability * count) < 1.0 + 1e-6


def test_draws_carry_their_propensity_and_branch():
    distribution = opponent_distribution(pool([1400, 1500], [0.9, 0.5]), MatchmakingConfig())
    draws = draw(distribution, 200, np.random.default_rng(0))
    assert set(draws.opponents.tolist()) == {SELF, 0, 1}
    for opponent, propensity, branch in zip(draws.opponents, draws.propensities, draws.branches, strict=True):
        own = opponent == SELF
        assert branch == ("self-play" if own else "pfsp")
        assert propensity == (distribution.self_play if own else distribution.probabilities[opponent])


def test_draws_are_repeatable_from_the_generator_and_shuffled():
    distribution = opponent_distribution(pool([1400, 1500], [0.9, 0.5]), MatchmakingConfig())
    one = draw(distribution, 50, np.random.default_rng(3)).opponents.tolist()
    assert one == draw(distribution, 50, np.random.default_rng(3)).opponents.tolist()
    assert one != sorted(one)


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ({"self_play_share": 1.2}, ("self_play_share", 1.2)),
        ({"uniform_share": -0.1}, ("uniform_share", -0.1)),
        ({"balance": "mains"}, ("balance", "mains")),
        ({"weighting": "soft"}, ("weighting", "soft")),
        ({"power": np.inf}, ("power", "inf")),
        ({"skill_sigma": 0.0}, ("skill_sigma", 0.0)),
        ({"warm_up_games": -1}, ("warm_up_games", -1)),
        ({"warm_up_widths": (400.0, 200.0)}, ("warm_up_widths", "(400.0, 200.0)")),
        ({"warm_up_widths": (0.0,)}, ("warm_up_widths", "(0.0,)")),
    ],
)
def test_bad_matchmaking_settings_are_refused_by_name(setting, values):
    with refused(ValueError, *values):
        MatchmakingConfig(**setting)


def test_bad_candidates_are_refused_by_name():
    with refused(ValueError, "learner_rating", "nan"):
        pool([1500], rating=np.nan)
    with refused(ValueError, "learner_games", -1):
        pool([1500], games=-1)
    with refused(ValueError, "ratings[0]", "inf"):
        pool([np.inf])
    with refused(ValueError, 2, 1, "win_rates"):
        pool([1500, 1500], [0.5])
    distribution = opponent_distribution(pool([1500]), MatchmakingConfig())
    with refused(ValueError, "count", 0):
        draw(distribution, 0, np.random.default_rng(0))
