from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import assert_names, refused

from arena.population.promotion import (
    Decision,
    GateRequest,
    GateResult,
    HeadToHead,
    PromotionConfig,
    Roster,
    promotions,
    retirements,
    succession,
    superiority,
)
from arena.ratings.glicko2 import Ratings


def roster(players, *, cycle=None, win_rate=None, pair_games=None, gates=None, title_gates=None, error=None):
    """Players are (rating, deviation, games, standing), with their deviations as standard errors unless given.

    A cycle adds points to the predicted leads of pairs.
    """
    rating, deviation, games, standing = zip(*players, strict=True)
    count = len(players)
    lead = np.subtract.outer(rating, rating) + (np.zeros((count, count)) if cycle is None else cycle)
    expected = 1.0 / (1.0 + 10.0 ** (-lead / 400.0))
    standing = np.array(standing)
    rates = np.full((count, count), 0.5) if win_rate is None else win_rate
    games_of_pairs = np.zeros((count, count)) if pair_games is None else pair_games
    return Roster(
        names=tuple(f"Player {i}" for i in range(count)),
        ratings=Ratings(rating, deviation, np.full(count, 0.06)),
        games=np.array(games),
        standard_error=np.array(deviation if error is None else error, dtype=np.float64),
        candidate=standing == "candidate",
        commander=np.isin(standing, ["commander", "scripted commander", "champion"]),
        champion=standing == "champion",
        baseline=np.isin(standing, ["baseline", "scripted commander"]),
        expected=lambda player, others: expected[player, others],
        record=lambda player, others: HeadToHead(rates[player, others], games_of_pairs[player, others]),
        gates=gates or {},
        title_gates=title_gates or {},
    )


def full_house(*newcomers, win_rate=None, pair_games=None, gates=None):
    """Three commanders at 1500, 1600, 1700 (deviation 40, 100 games), places for three."""
    commanders = [(rating, 40, 100, "commander") for rating in (1500, 1600, 1700)]
    return roster([*commanders, *newcomers], win_rate=win_rate, pair_games=pair_games, gates=gates)


ANY_WIDTH = {"max_interval": np.inf}
THREE = PromotionConfig(capacity=3, gate="off", **ANY_WIDTH)
GATED = PromotionConfig(capacity=3)
UNGATED_BY_DEFAULT = PromotionConfig(gate="off")
UNGATED = PromotionConfig(gate="off", **ANY_WIDTH)
STRONG = (1800, 30, 50, "candidate")


def approved(decisions):
    return [decision.player for decision in decisions if decision.approved]


def test_superiority_is_the_normal_probability_of_a_higher_strength():
    assert superiority(1600.0, 50.0, 1500.0) == pytest.approx(0.97725, abs=1e-5)
    assert superiority(1500.0, 80.0, 1631.588) == pytest.approx(0.05, abs=1e-5)
    assert [superiority(rating, 0.0, 1500.0) for rating in (1501.0, 1500.0, 1499.0)] == [1.0, 0.5, 0.0]


@pytest.mark.parametrize(("rating", "takes_a_place"), [(1581, False), (1583, True)])
def test_first_commander_is_better_than_the_median_with_95_percent_probability(rating, takes_a_place):
    # the median of the others is 1500; 1500 + 1.645 * 50 = 1582.2
    players = [(1400, 50, 99, "baseline"), (1500, 60, 30, "retired"), (1900, 60, 30, "retired")]
    decisions = promotions(roster([*players, (rating, 50, 25, "candidate")]), UNGATED)
    assert decisions[0].approved is takes_a_place
    assert "median frozen player at 1500" in decisions[0].reason
    assert "0 of 20 places taken" in decisions[0].reason


@pytest.mark.parametrize(("rating", "takes_a_place"), [(1588, False), (1590, True)])
def test_candidate_must_be_better_than_the_commanders_with_95_percent_probability(rating, takes_a_place):
    # two equal commanders at 1500: 1500 + 1.645 * sqrt(50^2 + 30^2 / 2) = 1589.3
    players = [(1900, 50, 99, "baseline"), *2 * [(1500, 30, 30, "commander")], (1900, 60, 30, "retired")]
    (decision,) = promotions(roster([*players, (rating, 50, 25, "candidate")]), UNGATED)
    assert decision.approved is takes_a_place
    assert_names(decision.reason, "commanders", "2 of 20")


@pytest.mark.parametrize(("lead", "takes_a_place"), [(-200, False), (0, True), (200, True)])
def test_predicted_scores_decide_whether_a_candidate_is_better_than_the_commanders(lead, takes_a_place):
    """Its rating is 100 points above them; the prediction adds the points of a cycle."""
    cycle = np.zeros((3, 3))
    cycle[2, :2], cycle[:2, 2] = lead, -lead
    players = [*2 * [(1500, 30, 30, "commander")], (1600, 30, 90, "candidate")]
    (decision,) = promotions(roster(players, cycle=cycle), UNGATED)
    assert decision.approved is takes_a_place


@pytest.mark.parametrize("capacity", [2, 20])
def test_answer_to_the_champion_becomes_a_commander_without_a_higher_rating(capacity):
    """The candidate loses to the other commander as clearly as it beats the champion, and is even on average."""
    cycle = np.array([[0, 300, -300], [-300, 0, 300], [300, -300, 0]])
    players = [(1500, 30, 90, "champion"), (1500, 30, 90, "commander"), (1500, 30, 90, "candidate")]
    config = replace(UNGATED, capacity=capacity)
    assert not promotions(roster(players), config)[0].approved
    (decision,) = promotions(roster(players, cycle=cycle), config)
    assert decision.approved
    assert_names(decision.reason, "champion", f"2 of {capacity}")


@pytest.mark.parametrize(("games", "takes_a_place"), [(19, False), (20, True)])
def test_candidates_with_fewer_than_20_games_are_not_promoted(games, takes_a_place):
    players = [(1500, 50, 99, "baseline"), (2500, 50, games, "candidate")]
    (decision,) = promotions(roster(players), UNGATED)
    assert decision.approved is takes_a_place
    if not takes_a_place:
        assert decision.reason == "19 of the 20 required games; it needs more rating matches"


def test_single_candidate_is_not_promoted():
    (decision,) = promotions(roster([(1900, 50, 40, "candidate")]), UNGATED)
    assert decision == Decision(0, approved=False, reason=decision.reason)
    assert_names(decision.reason, "0 of 20")


def test_the_median_leaves_the_candidate_itself_out():
    players = [(1500, 50, 99, "baseline"), (1650, 50, 40, "candidate")]
    (decision,) = promotions(roster(players), UNGATED)
    assert decision.approved
    assert "median frozen player at 1500" in decision.reason


@pytest.mark.parametrize(("rating", "takes_a_place"), [(1611, False), (1612, True)])
def test_clearly_better_candidate_takes_a_free_place_and_becomes_champion(rating, takes_a_place):
    # no candidate is better than the commanders on average; 1500 + 2.326 * hypot(40, 26.75) = 1611.9
    equals = [(1800, 30, 90, "commander")] * 5
    players = roster([(1500, 26.75, 200, "champion"), *equals, (rating, 40, 50, "candidate")])
    (decision,) = promotions(players, UNGATED)
    assert decision.approved is takes_a_place
    if takes_a_place:
        assert decision.reason.startswith("P(better than the champion Player 0 at 1500) is 0.99")
        assert decision.reason.endswith("of 20 places taken")
    else:
        assert "the commanders" in decision.reason


@pytest.mark.parametrize(
    ("rate", "games", "takes_a_place"), [(0.44, 20, False), (0.45, 20, True), (0.10, 19, True), (0.60, 90, True)]
)
def test_beyond_capacity_no_commander_may_hold_it_under_45_percent(rate, games, takes_a_place):
    win_rate, pair_games = np.full((4, 4), 0.5), np.zeros((4, 4))
    win_rate[3, 2], pair_games[3, 2] = rate, games
    house = full_house((1800, 30, 50, "candidate"), win_rate=win_rate, pair_games=pair_games)
    (decision,) = promotions(house, THREE)
    assert decision.approved is takes_a_place
    if not takes_a_place:
        assert decision.reason == "win rate 0.44 over 20 games against Player 2, under 0.45"


def test_a_place_that_is_not_free_takes_a_gate_against_the_weakest_commander():
    (decision,) = promotions(full_house(STRONG), GATED)
    assert isinstance(decision, GateRequest)
    assert (decision.rival, decision.approved) == (0, False)
    assert_names(decision.reason, 0)


def test_the_rival_may_be_the_champion_where_there_is_one():
    config = PromotionConfig(capacity=3, gate="champion")
    house = roster([(1500, 40, 100, "commander"), (1600, 40, 100, "commander"), (1700, 40, 100, "champion"), STRONG])
    assert promotions(house, config)[0].rival == 2
    assert promotions(full_house(STRONG), config)[0].rival == 0


@pytest.mark.parametrize("decision", ["accept", "reject", "continue"])
def test_the_gate_decides(decision):
    house = full_house(STRONG, gates={3: GateResult(decision, "gate 7: so it is")})
    (judged,) = promotions(house, GATED)
    assert not isinstance(judged, GateRequest)
    assert judged.approved is (decision == "accept")
    assert "gate 7: so it is" in judged.reason


@pytest.mark.parametrize("candidate", [(1600, 30, 50, "candidate"), (1800, 30, 19, "candidate")])
def test_ineligible_candidate_gets_no_gate(candidate):
    (decision,) = promotions(full_house(candidate), GATED)
    assert not isinstance(decision, GateRequest)


def test_accepted_gate_does_not_override_a_losing_record_against_a_commander():
    win_rate, pair_games = np.full((4, 4), 0.5), np.zeros((4, 4))
    win_rate[3, 2], pair_games[3, 2] = 0.44, 20
    gates = {3: GateResult("accept", "gate 7")}
    house = full_house(STRONG, win_rate=win_rate, pair_games=pair_games, gates=gates)
    assert not promotions(house, GATED)[0].approved


def test_free_place_needs_a_gate_against_the_weakest_commander():
    (decision,) = promotions(full_house(STRONG), PromotionConfig(capacity=4))
    assert isinstance(decision, GateRequest)
    assert (decision.rival, decision.approved) == (0, False)
    won = full_house(STRONG, gates={3: GateResult("accept", "gate 7")})
    assert promotions(won, PromotionConfig(capacity=4))[0].approved


def test_first_commander_needs_no_gate():
    players = [(1500, 30, 99, "baseline"), (1900, 30, 50, "candidate")]
    assert promotions(roster(players), PromotionConfig())[0].approved


@pytest.mark.parametrize(("deviation", "eligible"), [(37.5, True), (37.6, False)])
def test_interval_wider_than_150_points_prevents_promotion(deviation, eligible):
    players = [(1500, 30, 99, "baseline"), (1900, deviation, 50, "candidate")]
    (decision,) = promotions(roster(players), PromotionConfig())
    assert decision.approved is eligible
    if not eligible:
        assert_names(decision.reason, 150, 50)


def test_interval_against_the_opponents_counts_instead_of_the_distance_to_baselines():
    """Far above the baselines no match narrows the deviation; the standard error still shrinks."""
    players = [(1500, 30, 99, "baseline"), (3400, 59, 384, "candidate"), (3600, 67, 144, "candidate")]
    decisions = promotions(roster(players, error=(30.0, 33.0, 38.0)), UNGATED_BY_DEFAULT)
    assert approved(decisions) == [1]
    assert_names(decisions[0].reason, 152, 150, 144)


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"gate": "everybody"}, ("gate", "everybody")),
        ({"gate_share": 0.0}, ("gate_share", 0.0)),
        ({"gate_elo0": 50.0}, ("elo1", "elo0")),
    ],
)
def test_gates_have_valid_terms(change, values):
    with refused(ValueError, *values):
        PromotionConfig(**change)


def test_each_promotion_takes_a_place_from_the_next_in_line():
    players = [(1000, 30, 90, "baseline"), (1400, 30, 90, "candidate"), (1500, 30, 90, "candidate")]
    decisions = promotions(roster(players), PromotionConfig(capacity=1, gate="off"))
    assert [decision.player for decision in decisions] == [2, 1]
    assert approved(decisions) == [2]
    assert_names(decisions[1].reason, "commanders", "1 of 1")


def test_only_candidates_are_judged():
    assert promotions(full_house((2500, 30, 90, "retired"), (2500, 30, 90, "baseline")), THREE) == ()


@pytest.mark.holds("J7")
def test_the_worst_conservative_ratings_beyond_capacity_retire():
    house = full_house((1520, 80, 90, "commander"), (1590, 30, 90, "commander"))
    decisions = retirements(house, THREE)
    assert approved(decisions) == [3, 0]
    assert_names(decisions[0].reason, 5, 3, 1360)


@pytest.mark.parametrize("copies", [0, 1])
def test_commander_without_an_equal_in_a_cycle_does_not_retire(copies):
    """Rock, paper and scissors of which paper is rated lowest, and copies of rock; a ladder would retire paper."""
    strategies = [0] * (1 + copies) + [1, 2]
    wins = 400.0 * np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    ratings = [1500 + copy for copy in range(1 + copies)] + [1490, 1520]
    house = [(rating, 30, 90, "commander") for rating in [*ratings, 1200]]
    cycle = np.zeros((len(house), len(house)))
    cycle[:-1, :-1] = wins[np.ix_(strategies, strategies)]
    players = roster(house, cycle=cycle)
    assert approved(retirements(players, replace(UNGATED, capacity=len(house) - 1))) == [len(house) - 1]
    assert approved(retirements(players, replace(UNGATED, capacity=3)))[1:] == [0] * copies


def test_newcomer_does_not_retire_at_once():
    house = full_house((1400, 30, 90, "commander"))
    assert approved(retirements(house, THREE)) == [3]
    assert approved(retirements(house, THREE, newcomers=[3])) == [0]


@pytest.mark.parametrize("capacity", [3, 4])
def test_no_commander_retires_within_capacity(capacity):
    assert retirements(full_house(), PromotionConfig(capacity=capacity)) == ()


@pytest.mark.holds("J7")
def test_baselines_and_players_under_twenty_games_never_retire():
    protected = [(900, 40, 500, "scripted commander"), (1000, 40, 19, "commander")]
    assert approved(retirements(full_house(*protected), THREE)) == [0, 1]
    only_protected = roster([*protected, (1000, 40, 0, "commander")])
    assert retirements(only_protected, PromotionConfig(capacity=1)) == ()


@given(
    st.lists(
        st.tuples(
            st.floats(0, 3000),
            st.floats(0, 350),
            st.integers(0, 60),
            st.sampled_from(["candidate", "commander", "retired", "baseline"]),
        ),
        min_size=1,
        max_size=15,
    ),
    st.integers(1, 6),
)
def test_promotions_and_retirements_end_within_capacity_or_with_protected_players(players, capacity):
    config = PromotionConfig(capacity=capacity, gate="off", max_interval=np.inf)
    before = roster(players)
    promoted = approved(promotions(before, config))
    after = [(*p[:3], "commander") if i in promoted else p for i, p in enumerate(players)]
    leaving = approved(retirements(roster(after), config, promoted))
    staying = [i for i, player in enumerate(after) if player[3] == "commander" and i not in leaving]
    may_leave = [i for i in staying if players[i][2] >= 20 and i not in promoted]
    assert len(staying) <= capacity or not may_leave


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ({"capacity": 0}, ("capacity", 0)),
        ({"superiority": 1.0}, ("superiority", 1.0)),
        ({"least_win_rate": 45.0}, ("least_win_rate", 45.0)),
        ({"least_games": -1}, ("least_games", -1)),
        ({"max_interval": 0.0}, ("max_interval", 0.0)),
        ({"max_interval": float("nan")}, ("max_interval", "nan")),
        ({"least_pair_games": float("nan")}, ("least_pair_games", "nan")),
    ],
)
def test_bad_promotion_settings_are_refused_by_name(setting, values):
    with refused(ValueError, *values):
        PromotionConfig(**setting)


def test_a_roster_that_does_not_fit_together_is_refused_by_name():
    with refused(ValueError, "games", "(2,)", 3, "(3,)"):
        replace(full_house(), games=np.zeros(2))
    good = full_house((1500, 40, 100, "candidate"))
    with refused(ValueError, 3):
        replace(good, commander=good.commander | good.candidate)
    with refused(ValueError, 1, 4):
        replace(good, names=("Player 0",))


# --- succession ------------------------------------------------------------------------------------------------------


def test_commander_with_the_highest_conservative_rating_becomes_first_champion():
    players = [(1700, 90, 50, "commander"), (1650, 40, 50, "commander"), (1900, 30, 50, "candidate")]
    decision = succession(roster(players), UNGATED)
    assert (decision.player, decision.approved) == (1, True)
    assert_names(decision.reason, 1570)


@pytest.mark.parametrize(("rating", "follows"), [(1664, False), (1665, True)])
def test_a_commander_follows_the_champion_once_it_is_very_probably_better(rating, follows):
    # 1500 + 2.326 * hypot(50, 50) = 1664.5
    decision = succession(roster([(1500, 50, 99, "champion"), (rating, 50, 99, "commander")]), UNGATED)
    assert decision.approved is follows
    assert decision.player == 1
    assert "P(better than the champion Player 0 at 1500)" in decision.reason


def test_a_commander_with_few_games_does_not_follow():
    players = [(1500, 50, 99, "champion"), (2500, 50, 19, "commander")]
    assert succession(roster(players), UNGATED) is None


def test_commander_with_a_wide_interval_does_not_follow():
    players = [(1500, 30, 99, "champion"), (2500, 37.6, 99, "commander")]
    assert succession(roster(players), PromotionConfig()) is None


@pytest.mark.parametrize("state", [None, "continue", "reject", "accept"])
def test_champion_changes_only_by_a_gate(state):
    players = [(1500, 30, 99, "champion"), (1900, 30, 99, "commander")]
    title_gates = {} if state is None else {1: GateResult(state, "gate 9")}
    decision = succession(roster(players, title_gates=title_gates), PromotionConfig())
    assert isinstance(decision, GateRequest) is (state is None)
    assert decision.approved is (state == "accept")
    assert (decision.rival == 0) if state is None else "gate 9" in decision.reason


@pytest.mark.parametrize(("lead", "follows"), [(-500, False), (-100, True), (100, True)])
def test_challenger_must_also_lead_in_the_predicted_score_of_the_pair(lead, follows):
    players = [(1500, 30, 99, "champion"), (1900, 30, 99, "commander")]
    cycle = np.array([[0, -lead], [lead, 0]])
    assert succession(roster(players, cycle=cycle), UNGATED).approved is follows


def test_three_commanders_in_a_circle_do_not_succeed_each_other():
    """Each has won a gate against the next, and is predicted to win again. Their ratings are equal."""
    cycle = np.array([[0, 300, -300], [-300, 0, 300], [300, -300, 0]])
    for champion in range(3):
        players = [(1500, 30, 99, "champion" if each == champion else "commander") for each in range(3)]
        won = {(champion - 1) % 3: GateResult("accept", "gate 9")}
        decision = succession(roster(players, cycle=cycle, title_gates=won), PromotionConfig())
        assert not decision.approved


def test_rejected_challenger_does_not_block_the_next_one():
    players = [(1500, 30, 99, "champion"), (1900, 30, 99, "commander"), (1800, 30, 99, "commander")]
    rejected = {1: GateResult("reject", "gate 9")}
    decision = succession(roster(players, title_gates=rejected), PromotionConfig())
    assert isinstance(decision, GateRequest)
    assert (decision.player, decision.rival) == (2, 0)
    won = succession(roster(players, title_gates=rejected | {2: GateResult("accept", "gate 10")}), PromotionConfig())
    assert (won.player, won.approved) == (2, True)


def test_accepted_gate_alone_does_not_make_a_weaker_player_champion():
    players = [(1500, 30, 99, "champion"), (1550, 30, 99, "commander")]
    won = {1: GateResult("accept", "gate 9")}
    assert not succession(roster(players, title_gates=won), PromotionConfig()).approved


def test_a_champion_without_commanders_beside_it_stays():
    assert succession(roster([(1500, 50, 99, "champion")]), PromotionConfig()) is None
    assert succession(roster([(1500, 50, 99, "baseline")]), PromotionConfig()) is None


def test_the_champion_does_not_retire():
    players = [(1400, 40, 99, "champion"), (1500, 40, 99, "commander"), (1600, 40, 99, "commander")]
    assert approved(retirements(roster(players), PromotionConfig(capacity=1))) == [1, 2]


@pytest.mark.parametrize("champions", [[True, True, False], [False, False, True]])
def test_champion_must_be_a_commander(champions):
    players = roster([(1500, 50, 99, standing) for standing in ("commander", "commander", "candidate")])
    with refused(ValueError):
        replace(players, champion=np.array(champions))


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_share_for_succession_that_cannot_decide_is_refused(share):
    with refused(ValueError, "succession", share):
        PromotionConfig(succession=share)


@given(seed=st.integers(0, 2**32 - 1), lead=st.integers(-400, 400))
def test_only_one_of_two_commanders_would_follow_the_other(seed, lead):
    first, second = np.random.default_rng(seed).uniform(30, 200, 2)
    swapped = []
    for champion in (0, 1):
        standings = ["commander", "commander"]
        standings[champion] = "champion"
        players = [(1500, first, 99, standings[0]), (1500 + lead, second, 99, standings[1])]
        swapped.append(
            succession(roster(players), PromotionConfig(succession=0.51, gate="off", max_interval=np.inf)).approved
        )
    assert swapped != [True, True]
