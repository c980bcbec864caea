import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from scipy.stats import binomtest, false_discovery_control

from arena.evaluation.intransitivity import significant_cycles
from arena.evaluation.payoff import WinCounts


def record(points, games):
    """Counts of whole games without draws."""
    points, games = np.array(points, dtype=float), np.array(games, dtype=float)
    return WinCounts(games=games, points=points, wins=points, draws=np.zeros_like(points), losses=games - points)


def tournament(edges, players, *, games=50, won=45):
    """Each edge is a pair of which the first wins nearly always."""
    points, played = np.zeros((players, players)), np.zeros((players, players))
    for winner, loser in edges:
        played[winner, loser] = played[loser, winner] = games
        points[winner, loser], points[loser, winner] = won, games - won
    return record(points, played)


def test_p_values_are_exact_binomial_ones_adjusted_for_all_pairs_that_met():
    points = [[0, 17, 9], [3, 0, 0], [11, 0, 0]]
    games = [[0, 20, 20], [20, 0, 0], [20, 0, 0]]
    found = significant_cycles(record(points, games))
    exact = false_discovery_control([binomtest(17, 20).pvalue, binomtest(11, 20).pvalue])
    assert found.p_value[0, 1] == found.p_value[1, 0] == pytest.approx(exact[0])
    assert found.p_value[0, 2] == pytest.approx(exact[1])
    assert found.p_value[1, 2] == found.p_value[0, 0] == 1.0
    assert np.argwhere(found.beats).tolist() == [[0, 1]]


def test_cycles_of_three_players_are_listed_in_order():
    found = significant_cycles(tournament([(0, 1), (1, 2), (2, 0), (0, 3), (1, 3), (2, 3)], 4))
    assert found.triples == 1
    assert found.groups == ((0, 1, 2),)
    (circle,) = found.shortest
    assert all(found.beats[one, other] for one, other in zip(circle, circle[1:] + circle[:1], strict=True))
    assert sorted(circle) == [0, 1, 2]


def test_cycle_of_four_players_is_found_in_sparse_matches():
    found = significant_cycles(tournament([(3, 1), (1, 0), (0, 2), (2, 3), (4, 5)], 6))
    assert found.triples == 0
    assert found.groups == ((0, 1, 2, 3),)
    (circle,) = found.shortest
    assert len(circle) == 4
    assert all(found.beats[one, other] for one, other in zip(circle, circle[1:] + circle[:1], strict=True))


def test_disjoint_groups_are_listed_largest_first():
    rings = [(0, 4), (4, 6), (6, 0), (1, 2), (2, 3), (3, 5), (5, 1), (0, 1)]
    assert significant_cycles(tournament(rings, 7)).groups == ((1, 2, 3, 5), (0, 4, 6))


def test_ladders_and_empty_leagues_have_no_circles():
    ladder = significant_cycles(tournament([(i, j) for i in range(6) for j in range(i + 1, 6)], 6))
    assert (ladder.triples, ladder.groups, ladder.shortest) == (0, (), ())
    assert ladder.beats.sum() == 15
    assert significant_cycles(record(np.zeros((0, 0)), np.zeros((0, 0)))).groups == ()
    assert not significant_cycles(record(np.zeros((3, 3)), np.zeros((3, 3)))).beats.any()


@given(st.integers(3, 9), st.floats(0.1, 1.0), st.integers(0, 2**32 - 1))
def test_triples_and_groups_are_those_of_a_search_by_hand(players, density, seed):
    rng = np.random.default_rng(seed)
    pairs = [(i, j) if rng.random() < 0.5 else (j, i) for i in range(players) for j in range(i + 1, players)]
    found = significant_cycles(tournament([pair for pair in pairs if rng.random() < density], players))
    b = found.beats
    triples = sum(
        b[i, j] and b[j, k] and b[k, i] for i in range(players) for j in range(players) for k in range(players)
    )
    assert found.triples == triples // 3
    reach = np.linalg.matrix_power(np.eye(players) + b, players) > 0
    tangled = {tuple(np.flatnonzero(reach[i] & reach[:, i]).tolist()) for i in range(players)}
    assert set(found.groups) == {group for group in tangled if len(group) > 1}
    for group, circle in zip(found.groups, found.shortest, strict=True):
        assert set(circle) <= set(group)
        assert len(set(circle)) == len(circle)
        assert all(b[one, other] for one, other in zip(circle, circle[1:] + circle[:1], strict=True))
        walks = (
            length
            for length in range(3, players + 1)
            if np.trace(np.linalg.matrix_power(b[np.ix_(group, group)].astype(int), length))
        )
        assert len(circle) == next(walks)


def test_chance_makes_no_circles_out_of_even_players():
    rng = np.random.default_rng(0)
    games = np.full((30, 30), 20.0)
    upper = np.triu(rng.binomial(20, 0.5, (30, 30)), 1)
    points = upper + np.tril(20 - upper.T, -1)
    np.fill_diagonal(games, 0.0)
    found = significant_cycles(record(points, games))
    assert found.groups == ()
    assert (found.p_value[np.triu_indices(30, 1)] >= 0.01).all()


def test_counts_that_fade_may_be_broken_numbers():
    points, games = np.array([[0, 9.3], [0.5, 0]]), np.array([[0, 9.8], [9.8, 0]])
    p_value = significant_cycles(record(points, games)).p_value[0, 1]
    assert binomtest(10, 10).pvalue < p_value < binomtest(8, 9).pvalue


def test_bad_counts_and_significance_are_refused_by_name():
    with refused(ValueError, "counts", "(2,)"):
        significant_cycles(record([1, 0], [1, 1]))
    with refused(ValueError, "significance", 1.0):
        significant_cycles(record([[0]], [[0]]), significance=1.0)
