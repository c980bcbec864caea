from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import assert_names, refused

from arena.matchmaking import SELF, Candidates, MatchmakingConfig, draw
from arena.matchmaking.pfsp import pfsp_weights
from arena.matchmaking.roles import (
    LeagueExploiter,
    Main,
    MainExploiter,
    OpponentTable,
    SnapshotRule,
    decide,
    numbers,
    role_distribution,
    role_rules,
    without_self_play,
)
from arena.matchmaking.rules import NO_LINEAGE

OWN, RIVAL, EXPLOITER = 1, 2, 3
PLAIN = MatchmakingConfig(uniform_share=0.0)
MAIN = role_rules("main", {}, PLAIN)
ROLES = ("main", "main_exploiter", "league_exploiter")


def opposition(*players, own=OWN):
    """Players are (win rate, lineage); steps are their places, lineages 1 and 2 are mains', 3 an exploiter's."""
    win_rates, lineage = (np.array(column) for column in zip(*players, strict=True)) if players else ([], [])
    lineage, win_rates = np.array(lineage, dtype=np.int64), np.array(win_rates, dtype=float)
    return OpponentTable(
        win_rates=win_rates,
        recent_win_rates=win_rates,
        lineage=lineage,
        main=np.isin(lineage, [OWN, RIVAL]),
        exploiter=lineage == EXPLOITER,
        step=np.arange(lineage.size),
        own=own,
    )


def distribution_of(against, rules, games=100):
    """The distribution of a learner that is out of warm-up, unless said otherwise."""
    ratings = np.full(against.win_rates.size, 1500.0)
    candidates = Candidates(1500.0, games, ratings, against.win_rates, lineage=against.lineage)
    return role_distribution(against, candidates, rules)


def shares(distribution):
    return {branch.name: pytest.approx(branch.share) for branch in distribution.branches}


# --- whom ------------------------------------------------------------------------------------------------------------


def test_single_main_plays_itself():
    distribution = distribution_of(opposition(), MAIN)
    assert distribution.self_play == 1.0
    assert draw(distribution, 3, np.random.default_rng(0)).opponents.tolist() == [SELF] * 3
    assert without_self_play(distribution) is distribution


def test_main_mixes_self_play_pfsp_and_verification():
    against = opposition((0.8, OWN), (0.2, EXPLOITER), (0.25, EXPLOITER), (0.9, NO_LINEAGE))
    distribution = distribution_of(against, MAIN)
    assert distribution.self_play == pytest.approx(0.35)
    assert shares(distribution) == {"pfsp": 0.5, "verification": 0.15}
    hard, weak = pfsp_weights(against.win_rates), np.zeros(4)
    weak[1:3] = pfsp_weights([0.2, 0.25])
    assert distribution.probabilities == pytest.approx(0.5 * hard + 0.15 * weak)


def test_main_follows_the_mixture_of_the_league():
    mixture = replace(PLAIN, mixture=(("hard", 3.0), ("uniform", 1.0)))
    distribution = distribution_of(opposition((0.8, EXPLOITER), (0.6, EXPLOITER)), role_rules("main", {}, mixture))
    assert shares(distribution) == {"hard": 0.375, "uniform": 0.125}
    own = role_rules("main", {"weighting": "variance"}, mixture)
    assert shares(distribution_of(opposition((0.8, EXPLOITER), (0.6, EXPLOITER)), own)) == {"pfsp": 0.5}


def test_balancing_learners_limits_the_share_of_own_snapshots():
    against = opposition(*[(0.5, OWN)] * 18, (0.6, EXPLOITER), (0.6, EXPLOITER))
    crowded, balanced = (
        distribution_of(against, role_rules("main", {"balance": balance}, PLAIN))
        for balance in ("snapshots", "learners")
    )
    assert shares(crowded) == shares(balanced) == {"pfsp": 0.5}
    exploiters = against.exploiter
    assert crowded.probabilities[exploiters].sum() == pytest.approx(0.5 * 2 * 0.16 / (18 * 0.25 + 2 * 0.16))
    assert balanced.probabilities[exploiters].sum() == pytest.approx(0.5 * 0.16 / (0.25 + 0.16))


def test_another_main_has_its_part_of_self_play_while_there_is_a_chance_against_it():
    even = opposition((0.3, RIVAL), (0.5, RIVAL), (0.4, RIVAL))
    distribution = distribution_of(even, MAIN)
    assert distribution.self_play == pytest.approx(0.175 + 0.15)  # no weakness: verification goes to self-play
    assert shares(distribution) == {"mains": 0.175, "pfsp": 0.5}
    assert distribution.branches[0].weights.tolist() == [0.0, 0.0, 1.0]
    hopeless = replace(even, win_rates=np.array([0.3, 0.5, 0.3]), recent_win_rates=np.full(3, 0.3))
    weights = distribution_of(hopeless, MAIN).branches[0].weights
    assert weights == pytest.approx(pfsp_weights([0.3, 0.5, 0.3], "variance"))


def test_without_self_play_the_other_branches_keep_their_proportions():
    against = opposition((0.4, RIVAL), (0.2, EXPLOITER))
    whole, others = distribution_of(against, MAIN), without_self_play(distribution_of(against, MAIN))
    assert whole.self_play == pytest.approx(0.175)
    assert others.self_play == 0.0
    assert others.probabilities == pytest.approx(whole.probabilities / 0.825)
    assert shares(others) == {"mains": 0.175 / 0.825, "pfsp": 0.5 / 0.825, "verification": 0.15 / 0.825}


def test_other_mains_have_equal_shares_regardless_of_snapshots():
    against = opposition((0.5, RIVAL), (0.6, 4), (0.7, 4), (0.8, 4))
    against = replace(against, main=np.ones(4, dtype=bool))
    assert against.rival_mains.tolist() == [0, 3]
    distribution = distribution_of(against, role_rules("main_exploiter", {}, PLAIN))
    assert distribution.probabilities.tolist() == [0.5, 0.0, 0.0, 0.5]


@pytest.mark.parametrize("role", ["main", "league_exploiter"])
def test_learner_with_few_games_warms_up(role):
    against = opposition((0.1, RIVAL), (0.9, EXPLOITER))
    distribution = distribution_of(against, role_rules(role, {}, PLAIN), games=19)
    assert [branch.name for branch in distribution.branches] == ["warm-up"]
    assert distribution.self_play == (0.35 if role == "main" else 0.0)


def test_main_exploiter_plays_mains_from_its_first_game():
    rules = role_rules("main_exploiter", {}, PLAIN)
    assert shares(distribution_of(opposition((0.5, RIVAL), own=EXPLOITER), rules, games=0)) == {"mains": 1.0}


@pytest.mark.parametrize(
    ("past", "weak"),
    [
        ([0.9, 0.8, 0.6, 0.5], []),  # each harder than the one before: as it should be
        ([0.6, 0.8, 0.6, 0.5], [0]),  # the first was harder than the second; the newest two are left out
        ([0.9, 0.3, 0.6, 0.5, 0.65], [1, 2, 3, 4]),
        ([0.9, 0.3, 0.6, 0.5, 0.4], [1, 2]),
        ([0.5], []),
        ([0.75, 0.9, 0.8], []),
    ],
)
def test_verification_prefers_forgotten_snapshots(past, weak):
    distribution = distribution_of(opposition(*((rate, OWN) for rate in past)), MAIN)
    branches = {branch.name: branch for branch in distribution.branches}
    if not weak:
        assert "verification" not in branches
        assert distribution.self_play == pytest.approx(0.5)
    else:
        found = branches["verification"]
        assert np.flatnonzero(~found.excluded).tolist() == weak
        assert found.weights[weak] == pytest.approx(pfsp_weights(np.array(past)[weak]))


def test_the_past_is_ordered_by_steps():
    against = opposition(*((rate, OWN) for rate in [0.5, 0.6, 0.8, 0.6]))
    reversed_steps = replace(against, step=np.array([3, 2, 1, 0]))  # 0.6, 0.8, 0.6, 0.5
    found = distribution_of(reversed_steps, MAIN).branches[-1]
    assert (found.name, np.flatnonzero(~found.excluded).tolist()) == ("verification", [3])


def test_winning_exploiters_have_priority_over_own_snapshots():
    against = opposition((0.6, OWN), (0.9, OWN), (0.1, EXPLOITER))
    assert np.flatnonzero(~distribution_of(against, MAIN).branches[-1].excluded).tolist() == [2]


def test_a_main_exploiter_plays_mains_only():
    against = opposition((0.3, RIVAL), (0.5, RIVAL), (0.05, RIVAL), (0.9, NO_LINEAGE), own=EXPLOITER)
    rules = role_rules("main_exploiter", {}, PLAIN)
    distribution = distribution_of(against, rules)
    assert distribution.self_play == 0.0
    assert distribution.probabilities == pytest.approx([*pfsp_weights([0.3, 0.5, 0.05], "variance"), 0.0])
    better = replace(against, recent_win_rates=np.array([0.11, 0.11, 0.11, 0.9]))
    assert distribution_of(better, rules).probabilities.tolist() == [0, 0, 1, 0]
    assert distribution_of(opposition((0.9, NO_LINEAGE)), rules).self_play == 1.0  # no main has left a snapshot


def test_league_exploiter_plays_all_players():
    against = opposition((0.1, OWN), (0.4, RIVAL), (0.8, NO_LINEAGE), own=EXPLOITER)
    distribution = distribution_of(against, role_rules("league_exploiter", {"uniform_share": 0.1}, PLAIN))
    assert distribution.self_play == 0.0
    assert distribution.probabilities == pytest.approx(0.9 * pfsp_weights([0.1, 0.4, 0.8], "capped") + 0.1 / 3)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sampled_from([NO_LINEAGE, OWN, RIVAL, EXPLOITER])), max_size=10),
    st.sampled_from(ROLES),
    st.sampled_from([0, 100]),
)
def test_propensities_of_every_role_make_one(players, role, games):
    distribution = distribution_of(opposition(*players), role_rules(role, {}, PLAIN), games)
    for each in (distribution, without_self_play(distribution)):
        assert (each.probabilities >= 0.0).all()
        assert each.self_play + each.probabilities.sum() == pytest.approx(1.0)
        for branch in each.branches:
            assert branch.weights.sum() == pytest.approx(1.0)
        assert (draw(each, 9, np.random.default_rng(0)).propensities > 0.0).all()


# --- when ------------------------------------------------------------------------------------------------------------


def due(role, steps, against, chance=0.5, **given):
    return decide(role_rules(role, {"snapshot_steps": 1000, **given}, PLAIN).snapshots, role, steps, against, chance)


def test_main_takes_a_snapshot_at_the_win_rate_or_the_step_limit():
    against = opposition((0.71, RIVAL), (0.9, OWN), (0.8, NO_LINEAGE))
    assert due("main", 999, against) is None
    early = due("main", 1000, against)
    assert not early.reset
    assert_names(early.reason, "70%", 3, "71.0%")
    weaker = replace(against, win_rates=np.array([0.7, 0.9, 0.8]))
    assert due("main", 1999, weaker) is None
    late = due("main", 2000, weaker)
    assert_names(late.reason, 2000, 3)
    assert due("main", 1999, opposition()) is None
    assert due("main", 2000, opposition(), chance=0.0).reset is False


def test_exploiters_count_their_targets_only():
    against = opposition((0.1, RIVAL), (0.8, RIVAL), (0.6, NO_LINEAGE), own=EXPLOITER)
    assert due("main_exploiter", 1000, against).reset  # only the main as it is now counts
    assert due("league_exploiter", 1000, against) is None
    assert due("league_exploiter", 2000, against, chance=0.24).reset
    assert not due("league_exploiter", 2000, against, chance=0.25).reset
    assert due("main_exploiter", 1999, opposition((0.9, NO_LINEAGE))) is None  # without mains only the limit decides


def test_exploiter_uses_recent_matches_of_a_main():
    """Its newest snapshot, which hardly anybody has met, says nothing by itself."""
    against = opposition((0.9, RIVAL), (0.5, RIVAL), own=EXPLOITER)
    assert due("main_exploiter", 1999, against) is None
    beaten = replace(against, recent_win_rates=np.array([0.8, 0.75]))
    assert due("main_exploiter", 1000, beaten).reason.endswith("all 1 relevant mains (lowest win rate: 75.0%)")
    assert due("main_exploiter", 1999, replace(against, recent_win_rates=np.array([0.8, 0.7]))) is None
    assert due("main", 1999, beaten) is None  # everybody counts for others, and each by itself


def test_main_exploiter_fallback_uses_recent_matches():
    rules = role_rules("main_exploiter", {}, PLAIN)
    against = opposition((0.05, RIVAL), (0.5, RIVAL), own=EXPLOITER)
    assert distribution_of(against, rules).probabilities.tolist() == [0.0, 1.0]
    hopeless = replace(against, recent_win_rates=np.array([0.05, 0.1]))
    assert distribution_of(hopeless, rules).probabilities == pytest.approx(pfsp_weights([0.05, 0.5], "variance"))


def test_a_decision_follows_its_numbers():
    against = opposition((0.55, RIVAL))
    asked = {"snapshot_steps": 10, "snapshot_limit": 40, "snapshot_win_rate": 0.5, "reset": 0.0}
    assert due("main_exploiter", 9, against, **asked) is None
    assert not due("main_exploiter", 10, against, **asked).reset
    assert due("main_exploiter", 39, against, **(asked | {"snapshot_win_rate": 0.55})) is None
    assert due("main_exploiter", 40, against, **(asked | {"snapshot_win_rate": 0.55})) is not None


# --- rules -----------------------------------------------------------------------------------------------------------


def test_each_role_has_its_numbers():
    snapshots = {"snapshot_steps": 500_000, "snapshot_limit": 1_000_000, "snapshot_win_rate": 0.7, "start": "first"}
    everybody = {"power": 2.0, "uniform_share": 0.05, "balance": "snapshots"}
    found = {role: numbers(role_rules(role, {}, MatchmakingConfig())) for role in ROLES}
    assert found["main"] == snapshots | everybody | {
        "reset": 0.0,
        "self_play_share": 0.35,
        "weighting": "hard",
        "verification_share": 0.15,
        "live_above": 0.3,
        "exploiter_below": 0.5,
        "past_below": 0.7,
    }
    assert found["main_exploiter"] == snapshots | {"reset": 1.0, "live_above": 0.1}
    assert found["league_exploiter"] == snapshots | everybody | {"reset": 0.25, "weighting": "capped"}


@pytest.mark.parametrize("role", ROLES)
def test_rules_are_made_again_from_their_numbers(role):
    rules = role_rules(role, {"snapshot_limit": 7, "reset": 0.5, "start": "main"}, PLAIN)
    assert (rules.snapshots.steps, rules.snapshots.limit, rules.role) == (3, 7, role)
    assert role_rules(role, numbers(rules), MatchmakingConfig(self_play_share=0.1)) == rules


SNAPSHOTS = SnapshotRule(steps=0, limit=1)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda: Main(SNAPSHOTS, PLAIN, live_above=1.5), ("live_above", 1.5)),
        (lambda: Main(SNAPSHOTS, PLAIN, verification_share=0.7), (1,)),
        (lambda: MainExploiter(SNAPSHOTS, live_above=-0.1), ("live_above", -0.1)),
        (lambda: LeagueExploiter(SNAPSHOTS, replace(PLAIN, weighting="soft")), ("weighting", "soft")),
        (lambda: role_rules("master", {}, PLAIN), ("role", "master", "main", "main_exploiter")),
        (lambda: role_rules("main_exploiter", {"weighting": "hard"}, PLAIN), ("main_exploiter",)),
        (lambda: role_rules("main", {"power": -1.0}, PLAIN), ("power", -1.0)),
        (lambda: role_rules("main", {"balance": "roles"}, PLAIN), ("balance", "roles")),
        (lambda: role_rules("main_exploiter", {"balance": "learners"}, PLAIN), ("main_exploiter",)),
        (lambda: SnapshotRule(steps=5, limit=4), ("snapshot_steps", 5, "snapshot_limit", 4)),
        (lambda: SnapshotRule(steps=0, limit=0), ("snapshot_steps", 0, "snapshot_limit")),
        (lambda: SnapshotRule(steps=0, limit=1, reset=2.0), ("reset", 2.0)),
        (lambda: SnapshotRule(steps=0, limit=1, start="best"), ("start", "best", "main")),
        (lambda: opposition((1.5, OWN)), ("win_rates[0]", 1.5)),
        (lambda: replace(opposition((0.5, OWN)), exploiter=np.array([True])), (0, "main")),
        (lambda: replace(opposition((0.5, OWN)), step=np.arange(2)), ("step", "(2,)")),
    ],
)
def test_bad_roles_are_refused_by_name(make, values):
    with refused(ValueError, *values):
        make()
