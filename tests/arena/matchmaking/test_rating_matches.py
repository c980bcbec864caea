import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from arena.matchmaking.rating_matches import pairs_with, rating_pairs


@given(st.integers(0, 12), st.integers(0, 30), st.integers(0, 2**32), st.data())
def test_rating_pairs_join_different_players_and_never_two_anchors(players, count, seed, data):
    anchors = np.array(data.draw(st.lists(st.booleans(), min_size=players, max_size=players)), dtype=bool)
    games = data.draw(st.lists(st.integers(0, 50), min_size=players, max_size=players))
    pairs = rating_pairs(
        np.linspace(1000, 2000, players),
        np.full(players, 80.0),
        games,
        count,
        np.random.default_rng(seed),
        anchors=anchors,
    )
    possible = players >= 2 and not anchors.all()
    assert pairs.shape == (count if possible else 0, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert not anchors[pairs].all(axis=1).any()


def test_rating_pairs_serve_newcomers_first_then_the_least_certain():
    ratings, deviations = np.full(6, 1500.0), np.array([50.0, 60.0, 300.0, 350.0, 40.0, 30.0])
    games = [100, 0, 40, 0, 40, 100]
    for seed in range(20):
        pairs = rating_pairs(ratings, deviations, games, 1, np.random.default_rng(seed))
        assert pairs[0, 0] == 3
        two = rating_pairs(ratings, deviations, games, 2, np.random.default_rng(seed))
        assert 1 in two[:, :].ravel()[:3]


def test_rating_pairs_join_neighbours_where_ratings_are_certain():
    pairs = rating_pairs([1000, 2000, 1010, 2010], [0.0] * 4, [9] * 4, 2, np.random.default_rng(1))
    assert {frozenset(pair) for pair in pairs.tolist()} == {frozenset((0, 2)), frozenset((1, 3))}


def test_rating_pairs_of_an_uncertain_player_reach_across_the_table():
    ratings, deviations = np.array([1500.0, 1000.0, 2000.0]), np.array([350.0, 0.0, 0.0])
    rng = np.random.default_rng(5)
    partners = {int(rating_pairs(ratings, deviations, [0, 50, 50], 1, rng)[0, 1]) for _ in range(60)}
    assert partners == {1, 2}


def test_new_round_of_rating_pairs_starts_once_all_have_played():
    pairs = rating_pairs([1500, 1510, 1520, 1530], [100.0] * 4, [0] * 4, 6, np.random.default_rng(2))
    for first in range(0, 6, 2):
        assert sorted(pairs[first : first + 2].ravel().tolist()) == [0, 1, 2, 3]


def test_bad_rating_pair_columns_are_refused_by_name():
    rng = np.random.default_rng(0)
    with refused(ValueError, 2, 1):
        rating_pairs([1500, 1500], [50], [0, 0], 1, rng)
    with refused(ValueError, -5.0):
        rating_pairs([1500, 1500], [50, -5], [0, 0], 1, rng)
    with refused(ValueError, "count", -1):
        rating_pairs([1500, 1500], [50, 5], [0, 0], -1, rng)
    with refused(ValueError, 2, 1):
        rating_pairs([1500, 1500], [50, 5], [0], 1, rng)
    with refused(ValueError, "pair_games", "(1, 2)"):
        rating_pairs([1500, 1500], [50, 5], [0, 0], 1, rng, pair_games=[[0, 0]])


def test_pairs_that_have_not_met_are_preferred():
    ratings, games = [1000.0, 1010.0, 1150.0], [0, 5, 5]
    pair_games = np.zeros((3, 3))
    rng = np.random.default_rng(0)
    assert rating_pairs(ratings, [0.0] * 3, games, 1, rng, pair_games=pair_games).tolist() == [[0, 1]]
    pair_games[0, 1] = pair_games[1, 0] = 2.0  # 10 points and two games at 50 are nearer than 150 points, three are not
    assert rating_pairs(ratings, [0.0] * 3, games, 1, rng, pair_games=pair_games).tolist() == [[0, 1]]
    pair_games[0, 1] = pair_games[1, 0] = 3.0
    assert rating_pairs(ratings, [0.0] * 3, games, 1, rng, pair_games=pair_games).tolist() == [[0, 2]]


def test_the_next_round_of_a_request_remembers_the_one_before():
    pairs = rating_pairs(
        [1500.0, 1510.0, 1545.0, 1555.0], [0.0] * 4, [0] * 4, 4, np.random.default_rng(0), pair_games=np.zeros((4, 4))
    )
    assert {frozenset(pair) for pair in pairs[:2].tolist()} == {frozenset((0, 1)), frozenset((2, 3))}
    assert {frozenset(pair) for pair in pairs[2:].tolist()} != {frozenset((0, 1)), frozenset((2, 3))}


# --- one player ------------------------------------------------------------------------------------------------------


def test_every_pair_contains_the_requested_player():
    pairs = pairs_with(1, [1500.0, 1600.0, 1700.0], [50.0, 50.0, 50.0], 200, np.random.default_rng(0))
    assert pairs.shape == (200, 2)
    assert (pairs[:, 0] == 1).all()
    assert set(pairs[:, 1].tolist()) == {0, 2}


def test_certain_ratings_meet_equals_uncertain_ones_meet_all():
    ratings = np.arange(0.0, 2000.0, 100.0)
    sure, unsure = np.full(20, 1.0), np.full(20, 1.0)
    unsure[10] = 350.0
    near = pairs_with(10, ratings, sure, 2, np.random.default_rng(0))[:, 1]
    assert set(near.tolist()) == {9, 11}
    far = pairs_with(10, ratings, unsure, 20, np.random.default_rng(0))[:, 1]
    assert np.abs(far - 10).max() > 4


def test_repeated_pairs_come_later_within_a_call():
    pair_games = np.zeros((3, 3))
    pair_games[0, 1] = pair_games[1, 0] = 10.0
    level = [1500.0] * 3
    pairs = pairs_with(0, level, [0.0] * 3, 12, np.random.default_rng(0), pair_games=pair_games)
    assert pairs[:10, 1].tolist() == [2] * 10
    assert set(pairs[10:, 1].tolist()) == {1, 2}


def test_single_player_has_no_pairs_and_invalid_values_are_rejected():
    rng = np.random.default_rng(0)
    assert pairs_with(0, [1500.0], [350.0], 4, rng).shape == (0, 2)
    assert pairs_with(0, [1500.0, 1500.0], [350.0, 350.0], 0, rng).shape == (0, 2)
    with refused(ValueError, "count", -1):
        pairs_with(0, [1500.0, 1500.0], [1.0, 1.0], -1, rng)
    with refused(ValueError, 2, 1):
        pairs_with(0, [1500.0, 1500.0], [1.0], 1, rng)
    with refused(ValueError, 0):
        pairs_with(0, [1500.0, 1500.0], [1.0, -1.0], 1, rng)


def test_half_of_the_pairs_serve_provisional_ratings_alone():
    ratings, games = np.linspace(1400.0, 1600.0, 6), [90, 20, 20, 20, 20, 20]
    deviations, provisional = np.full(6, 30.0), np.arange(6) == 0
    pairs = rating_pairs(ratings, deviations, games, 10, np.random.default_rng(0), provisional=provisional)
    assert (pairs[:5, 0] == 0).all()
    assert not (pairs[5:, 0] == 0).all()
    pairs = rating_pairs(ratings, deviations, games, 3, np.random.default_rng(0), provisional=np.zeros(6))
    assert sorted(pairs.ravel().tolist()) == list(range(6))


def test_provisional_anchors_are_not_served():
    pairs = rating_pairs(
        [1500.0] * 4, [100.0, 0.0, 0.0, 0.0], [0] * 4, 2, np.random.default_rng(0), anchors=[True, False, False, False],
        provisional=[True, False, False, False],
    )  # fmt: skip
    assert sorted(pairs.ravel().tolist()) == list(range(4))
