import numpy as np
import pytest
from refused import refused

from arena.evaluation.behaviour_profiles import Samples, fingerprints
from arena.evaluation.payoff import WinCounts
from arena.evaluation.redundancy import RedundancyConfig, redundant


def league(win_rate, games, rng):
    """Play every pair so many games; half of the players meet only the rest of them where the rate is NaN."""
    players = len(win_rate)
    upper = np.triu(~np.isnan(win_rate), 1)
    played = np.where(upper, games, 0)
    points = np.where(upper, rng.binomial(played, np.where(upper, win_rate, 0.5)), 0)
    points, played = points + np.tril(played.T - points.T, -1), played + played.T
    assert points.shape == (players, players)
    return tally(points, played)


def tally(points, games):
    points, games = np.array(points, dtype=float), np.array(games, dtype=float)
    return WinCounts(games=games, points=points, wins=points, draws=np.zeros_like(points), losses=games - points)


def odds(strength, turn=None):
    lead = strength[:, None] - strength + (0.0 if turn is None else turn - turn.T)
    return 1.0 / (1.0 + np.exp(-lead))


def twins(rng, players=12):
    """A league with a cycle in it; players 0 and 1 are copies of each other, and so are 2 and 3."""
    whose = np.array([0, 0, 2, 2, *range(4, players)])
    strength, turn = rng.normal(0.0, 0.5, players), rng.normal(0.0, 0.7, (players, players))
    rate = odds(strength, turn)[np.ix_(whose, whose)]
    rate[whose[:, None] == whose] = 0.5
    return rate


def test_copies_are_found_and_the_stronger_stays():
    rng = np.random.default_rng(0)
    counts = league(twins(rng), 200, rng)
    strength = np.arange(12.0)  # 3 is above 2, 1 above 0
    found = redundant(counts, strength, RedundancyConfig())
    assert {(each.player, each.representative) for each in found} == {(0, 1), (2, 3)}
    for each in found:
        assert each.win_rate_distance <= each.win_rate_bound <= 0.1
        assert each.opponents == 10
        assert np.isnan(each.fingerprint_distance)
    assert [each.win_rate_bound for each in found] == sorted(each.win_rate_bound for each in found)


def test_protected_players_are_never_listed_as_redundant():
    rng = np.random.default_rng(0)
    counts = league(twins(rng), 200, rng)
    keep = np.arange(12) == 0
    assert {each.player for each in redundant(counts, np.arange(12.0), RedundancyConfig(), keep=keep)} == {2}


def test_few_games_are_no_evidence_of_likeness():
    rng = np.random.default_rng(1)
    rate = twins(rng)
    assert redundant(league(rate, 4, rng), np.arange(12.0), RedundancyConfig()) == ()
    assert redundant(tally(np.zeros((5, 5)), np.zeros((5, 5))), np.zeros(5), RedundancyConfig()) == ()
    few = rate.copy()
    few[:2, 6:] = np.nan  # 0 and 1 meet four others only
    assert 0 not in {each.player for each in redundant(league(few, 200, rng), np.arange(12.0), RedundancyConfig())}


def test_redundancy_test_has_its_nominal_error_rate_at_the_limit():
    """Win rates differ by exactly the limit against 20 opponents, sometimes up and sometimes down."""
    rng = np.random.default_rng(2)
    keep = np.arange(22) > 1
    called = {0.1: 0, 0.0: 0}
    for difference in called:
        for _ in range(150):
            rate = np.full((22, 22), 0.5)
            rate[0, 2:] = rng.uniform(0.2, 0.8, 20)
            rate[1, 2:] = rate[0, 2:] + rng.choice([-difference, difference], 20)
            found = redundant(league(rate, 60, rng), -np.arange(22.0), RedundancyConfig(), keep=keep)
            called[difference] += len(found)
    # 150 times at 5 %: 7.5, give or take 2.7
    assert 1 <= called[0.1] <= 16
    assert called[0.0] >= 130


def measured(values, matches=1000.0):
    """Fingerprints of players that did the same in every match; NaN was never measured."""
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    counts = np.where(known, matches, 0.0)
    return fingerprints(Samples(counts, counts * values, counts * values**2))


def test_likeness_in_results_is_not_enough_where_behaviour_differs():
    rng = np.random.default_rng(3)
    counts = league(twins(rng), 200, rng)
    behaviour = rng.normal(0.0, 1.0, (12, 4)) * [1.0, 1e6, 1e-6, 0.0]
    behaviour[1] = behaviour[0]
    found = redundant(counts, np.arange(12.0), RedundancyConfig(), fingerprints=measured(behaviour))
    assert [(each.player, each.representative, each.measures) for each in found] == [(0, 1, 3)]
    assert found[0].fingerprint_distance <= found[0].fingerprint_bound < 1e-3


def test_unknown_behaviour_leaves_the_decision_to_results():
    rng = np.random.default_rng(3)
    counts = league(twins(rng), 200, rng)
    behaviour = rng.normal(0.0, 1.0, (12, 4))
    behaviour[1] = np.nan
    (found,) = redundant(counts, np.arange(12.0), RedundancyConfig(), fingerprints=measured(behaviour))
    assert (found.player, found.representative, found.measures) == (0, 1, 0)
    assert np.isnan(found.fingerprint_distance)
    assert np.isnan(found.fingerprint_bound)


def test_few_matches_are_no_evidence_of_like_behaviour():
    rng = np.random.default_rng(5)
    counts = league(twins(rng), 200, rng)
    style = rng.normal(0.0, 1.0, (12, 6))
    style[1], style[3] = style[0], style[2]
    named = {}
    for matches in (20, 400):
        values = style[:, :, None] + rng.normal(0.0, 1.0, (12, 6, matches))
        prints = fingerprints(Samples(np.full((12, 6), float(matches)), values.sum(-1), (values**2).sum(-1)))
        found = redundant(counts, np.arange(12.0), RedundancyConfig(), fingerprints=prints)
        named[matches] = {(each.player, each.representative) for each in found}
    assert named == {20: set(), 400: {(0, 1), (2, 3)}}


def test_draws_spread_less_than_wins_and_losses():
    drawn = np.full((8, 8), 100.0)
    even = WinCounts(games=drawn, points=drawn / 2, wins=0 * drawn, draws=drawn, losses=0 * drawn)
    decided = WinCounts(games=drawn, points=drawn / 2, wins=drawn / 2, draws=0 * drawn, losses=drawn / 2)
    bounds = [redundant(each, np.arange(8.0), RedundancyConfig())[0].win_rate_bound for each in (even, decided)]
    assert bounds[0] < bounds[1]


def test_redundant_player_has_a_similar_player_at_least_as_strong():
    rng = np.random.default_rng(4)
    whose = rng.integers(0, 6, 25)
    rate = odds(rng.normal(0, 1, 6), rng.normal(0, 1, (6, 6)))[np.ix_(whose, whose)]
    strength = rng.normal(0, 1, 25)
    found = redundant(league(rate, 300, rng), strength, RedundancyConfig())
    gone = {each.player for each in found}
    assert len(gone) > 10
    for each in found:
        assert each.representative not in gone
        assert strength[each.representative] >= strength[each.player]
        assert np.sqrt(np.mean((rate[each.representative] - rate[each.player]) ** 2)) < 0.1


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ({"win_rate_distance": 1.0}, ("win_rate_distance", 1.0)),
        ({"fingerprint_distance": 0.0}, ("fingerprint_distance", 0.0)),
        ({"least_opponents": 0}, ("least_opponents", 0)),
    ],
)
def test_bad_settings_are_refused_by_name(setting, values):
    with refused(ValueError, *values):
        RedundancyConfig(**setting)


def test_bad_columns_are_refused_by_name():
    counts, config = tally(np.zeros((2, 2)), np.zeros((2, 2))), RedundancyConfig()
    with refused(ValueError, "counts", "(2, 2)", "(3,)"):
        redundant(counts, np.zeros(3), config)
    with refused(ValueError, "strength[1]", "nan"):
        redundant(counts, [0.0, np.nan], config)
    with refused(ValueError, "fingerprints", "(3, 1)", 2):
        redundant(counts, [0.0, 1.0], config, fingerprints=measured(np.zeros((3, 1))))
