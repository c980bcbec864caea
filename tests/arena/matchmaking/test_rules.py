import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed_rules import brought
from refused import refused

from arena.evaluation.nash_averaging import max_entropy_nash
from arena.evaluation.payoff import WinCounts, count_results
from arena.matchmaking import MatchmakingConfig, draw, opponent_distribution
from arena.matchmaking.pfsp import pfsp_weights, rating_kernel
from arena.matchmaking.rules import Candidates, Rule, WinRateHistory, find_rule

RULES = ["hard", "variance", "linear", "capped", "uniform", "skill", "nash", "forgotten"]


def pool(win_rates, **more):
    win_rates = np.array(win_rates, dtype=float)
    return Candidates(1500.0, 100, 1500.0 - 400.0 * np.log10(win_rates / (1.0 - win_rates)), win_rates, **more)


def counts(points, games):
    points, games = np.array(points, dtype=float), np.array(games, dtype=float)
    return WinCounts(games=games, points=points, wins=points, draws=np.zeros_like(points), losses=games - points)


@pytest.mark.parametrize("weighting", ["hard", "variance", "linear", "capped", "uniform"])
def test_rules_of_win_rates_are_the_weightings(weighting):
    candidates = pool([0.2, 0.5, 0.9])
    found = find_rule(weighting, power=3.0).weights(candidates)
    assert found == pytest.approx(pfsp_weights(candidates.win_rates, weighting, 3.0))


def test_the_skill_rule_is_the_kernel():
    candidates = pool([0.2, 0.5, 0.9])
    wanted = rating_kernel(1500.0, candidates.ratings, 90.0)
    assert find_rule("skill", skill_sigma=90.0).weights(candidates) == pytest.approx(wanted)


def test_nash_rule_falls_back_to_predicted_win_rates():
    circle = np.array([[0.5, 0.8, 0.1], [0.2, 0.5, 0.7], [0.9, 0.3, 0.5]])
    assert find_rule("nash").weights(pool([0.2, 0.5, 0.9], between=circle)) == pytest.approx(max_entropy_nash(circle))
    assert find_rule("nash").weights(pool([0.5, 0.2, 0.9])) == pytest.approx([0.0, 1.0, 0.0], abs=1e-6)


def test_forgotten_rule_weights_by_lost_win_rate():
    pasts = WinRateHistory(counts([95, 90, 50, 9], [100, 100, 100, 10]), counts([10, 60, 52, 8], [100, 100, 100, 10]))
    weights = find_rule("forgotten").weights(pool([0.1, 0.6, 0.5, 0.8], pasts=pasts))
    assert weights == pytest.approx([85 / 102, 30 / 102, 0.0, 0.0])
    assert find_rule("forgotten").weights(pool([0.1, 0.6])).tolist() == [0.0, 0.0]


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 1.0)), max_size=40))
def test_halves_are_the_older_and_the_newer_games_with_each_opponent(games):
    opponents, scores = np.array([game[0] for game in games], dtype=np.int64), np.array([game[1] for game in games])
    pasts = WinRateHistory.halves(opponents, scores, 5)
    for opponent in range(5):
        own = scores[opponents == opponent]
        older, newer = own[: own.size // 2], own[own.size // 2 :]
        assert (pasts.earlier.games[opponent], pasts.recent.games[opponent]) == (older.size, newer.size)
        assert pasts.earlier.points[opponent] == pytest.approx(older.sum())
        assert pasts.recent.points[opponent] == pytest.approx(newer.sum())


def test_only_inputs_of_active_rules_are_required():
    assert MatchmakingConfig().needs(100) == set()
    assert MatchmakingConfig(weighting="nash").needs(100) == {"between"}
    assert MatchmakingConfig(weighting="nash").needs(19) == set()  # in warm-up
    both = MatchmakingConfig(weighting="nash", mixture=(("forgotten", 1.0), ("hard", 1.0)))
    assert both.needs(100) == {"pasts"}
    with refused(ValueError, "past_games", 1, 2):
        MatchmakingConfig(past_games=1)


@pytest.mark.usefixtures("installed")
def test_installed_rule_can_use_all_inputs():
    assert MatchmakingConfig(weighting="nemesis").needs(100) == {"between", "pasts"}


def test_a_rule_that_fails_is_named():
    with refused(ValueError, "odd", "KeyError", "nothing"):
        Rule("odd", "", lambda _: {}["nothing"]).weights(pool([0.5]))


def test_a_mixture_draws_from_each_rule_its_share():
    config = MatchmakingConfig(
        self_play_share=0.2, uniform_share=0.0, mixture=(("hard", 3.0), ("uniform", 1.0)), power=1.0
    )
    distribution = opponent_distribution(pool([0.2, 0.8]), config)
    assert [(branch.name, branch.share) for branch in distribution.branches] == [
        ("hard", pytest.approx(0.6)),
        ("uniform", pytest.approx(0.2)),
    ]
    assert distribution.probabilities == pytest.approx([0.6 * 0.8 + 0.1, 0.6 * 0.2 + 0.1])
    draws = draw(distribution, 100, np.random.default_rng(0))
    assert {name: draws.branches.count(name) for name in set(draws.branches)} == {
        "self-play": 20,
        "hard": 60,
        "uniform": 20,
    }
    assert (draws.propensities[draws.opponents == 0] == distribution.probabilities[0]).all()


def test_rule_without_opponents_passes_its_share_to_the_others():
    config = MatchmakingConfig(self_play_share=0.0, mixture=(("forgotten", 0.5), ("hard", 0.25), ("variance", 0.25)))
    distribution = opponent_distribution(pool([0.2, 0.8]), config)
    assert [branch.share for branch in distribution.branches] == [0.0, 0.5, 0.5]
    alone = opponent_distribution(pool([0.2, 0.8]), MatchmakingConfig(mixture=(("forgotten", 1.0),)))
    assert alone.probabilities == pytest.approx([0.325, 0.325])


@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8),
    st.lists(st.tuples(st.sampled_from(RULES), st.floats(0.01, 10)), max_size=5, unique_by=lambda part: part[0]),
    st.floats(0, 1),
)
def test_propensities_of_any_mixture_make_one(win_rates, mixture, self_play):
    config = MatchmakingConfig(self_play_share=self_play, mixture=tuple(mixture))
    distribution = opponent_distribution(pool(win_rates), config)
    assert distribution.self_play + distribution.probabilities.sum() == pytest.approx(1.0)
    assert sum(branch.share for branch in distribution.branches) == pytest.approx(1.0 - self_play)
    if self_play < 1.0:
        assert (distribution.probabilities > 0.0).all()


@pytest.mark.integration
def test_solvers_are_loaded_by_the_rules_that_need_them_only():
    """Every call of the command line loads this module."""
    heavy = "{'clarabel', 'scipy.optimize', 'scipy.stats'}"
    asked = f"import sys, arena.matchmaking.distribution; sys.exit(bool({heavy} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", asked], check=True)


@pytest.fixture
def installed(tmp_path):
    """An installed distribution that brings rules."""
    code = (
        "def nemesis(candidates):\n"
        '    """Only whom the learner loses to most."""\n'
        "    return candidates.win_rates == candidates.win_rates.min()\n"
        "def pessimist(candidates):\n"
        "    return candidates.win_rates - 1.0\n"
        "NUMBER = 3\n"
    )
    with brought(tmp_path, code, "nemesis", "pessimist", "NUMBER", "gone"):
        yield


@pytest.mark.usefixtures("installed")
def test_installed_rule_is_found_by_its_entry_point():
    config = MatchmakingConfig(self_play_share=0.0, weighting="nemesis", uniform_share=0.1)
    distribution = opponent_distribution(pool([0.6, 0.3, 0.9]), config)
    assert distribution.probabilities == pytest.approx([0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3])
    assert distribution.branches[0].rule == "Only whom the learner loses to most; 10% uniform"


@pytest.mark.usefixtures("installed")
def test_rules_that_cannot_be_used_are_refused_by_name():
    with refused(ValueError, "weighting", "nobody", "NUMBER"):
        MatchmakingConfig(mixture=(("nobody", 1.0),))
    with refused(ValueError, "NUMBER", "stranger_rules:NUMBER"):
        find_rule("NUMBER")
    with refused(ValueError, "gone", "stranger_rules:gone"):
        find_rule("gone")
    with refused(ValueError, "pessimist", -0.5):
        find_rule("pessimist").weights(pool([0.5]))
    with refused(ValueError, "short", "(1,)", "(2,)"):
        Rule("short", "", lambda _: [1.0]).weights(pool([0.5, 0.5]))


@pytest.mark.parametrize(
    ("mixture", "values"),
    [
        ((("hard", 0.0),), ("mixture", "hard", 0.0)),
        ((("hard", 1.0), ("hard", 1.0)), ("mixture", "hard, hard")),
    ],
)
def test_bad_mixtures_are_refused_by_name(mixture, values):
    with refused(ValueError, *values):
        MatchmakingConfig(mixture=mixture)


def test_bad_pasts_and_matrices_are_refused_by_name():
    with refused(ValueError, "between", "(1, 1)", 2, "(2, 2)"):
        pool([0.5, 0.5], between=np.full((1, 1), 0.5))
    one = count_results([0], [1.0], [False], 1)
    with refused(ValueError, "pasts.recent", "(1,)"):
        pool([0.5, 0.5], pasts=WinRateHistory(counts([1, 1], [1, 1]), one))
