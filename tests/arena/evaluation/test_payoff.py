import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused
from scipy.stats import beta

from arena.evaluation.payoff import (
    WinCounts,
    beta_moments,
    count_results,
    cyclic_share,
    expected_matrix,
    payoff,
    pool_recent,
    unexplained_share,
    wilson_interval,
    win_rates,
)
from arena.ratings.glicko2 import Ratings, newcomers

games_strategy = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.booleans()),
    max_size=40,
)


def certain(*ratings):
    return Ratings(ratings, np.zeros(len(ratings)), np.full(len(ratings), 0.06))


def plain_pair_counts(games, players, decay=0.99):
    """One game at a time: fade the pair's counts where one side learns, then add, from both views."""
    counts = WinCounts(*np.zeros((5, players, players)))
    for home, away, score, learning in games:
        if home == away:
            continue
        for i, j, own in ((home, away, score), (away, home, 1.0 - score)):
            for column in (counts.games, counts.points, counts.wins, counts.draws, counts.losses):
                column[i, j] *= decay if learning else 1.0
            counts.games[i, j] += 1.0
            counts.points[i, j] += own
            counts.wins[i, j] += own > 0.5
            counts.draws[i, j] += own == 0.5
            counts.losses[i, j] += own < 0.5
    return counts


@given(games_strategy, st.sampled_from([0.5, 0.99, 1.0]))
def test_counts_equal_those_of_the_plain_loop(games, decay):
    """A cell per pair, seen from the lower index."""
    apart = [game for game in games if game[0] != game[1]]
    cells = [4 * min(home, away) + max(home, away) for home, away, _, _ in apart]
    scores = [score if home < away else 1.0 - score for home, away, score, _ in apart]
    counts = count_results(cells, scores, [learning for *_, learning in apart], 16, decay=decay)
    wanted = plain_pair_counts(games, 4, decay)
    for name in ("games", "points", "wins", "draws", "losses"):
        expected = np.triu(getattr(wanted, name)).ravel()
        assert getattr(counts, name) == pytest.approx(expected, abs=1e-12)


def test_only_games_in_which_one_side_learns_fade_older_ones():
    frozen = count_results([0] * 50, [1.0] * 50, [False] * 50, 1)
    assert frozen.games[0] == frozen.wins[0] == 50.0
    learning = count_results([0] * 5000, [1.0] * 5000, [True] * 5000, 1)
    assert learning.games[0] == pytest.approx(100.0)


def test_a_cell_fades_by_its_own_games_only():
    counts = count_results([0, 1, 1, 1], [1.0, 0.0, 0.0, 0.0], [True] * 4, 3, decay=0.5)
    assert counts.games.tolist() == [1.0, 1.75, 0.0]


def test_the_last_result_weighs_most_against_a_learner():
    lost_last = count_results([0, 0], [1.0, 0.0], [True, True], 1, decay=0.5)
    assert lost_last.points[0] / lost_last.games[0] == pytest.approx(1 / 3)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.floats(0, 1)), max_size=60), st.randoms())
def test_recent_record_of_a_lineage_is_that_of_its_learner(games, chance):
    """Snapshots of a lineage, met one after the other, count as one cell in which every game fades the ones before."""
    games = sorted(games, key=lambda game: game[:2])
    whose, when = np.indices((3, 4)).reshape(2, -1)
    lineage, age, score = (np.array([game[i] for game in games]) for i in range(3))
    lineage, age, learning = lineage.astype(int), age.astype(int), np.ones(len(games), dtype=bool)
    order = np.array(chance.sample(range(12), 12))  # players come in any order
    counts = count_results(4 * lineage + age, score, learning, 12)
    counts = WinCounts(*(column[order] for column in vars(counts).values()))
    matches = np.bincount(4 * lineage + age, minlength=12)[order]
    found = pool_recent(counts, matches, whose[order], 10 * when[order])
    expected = count_results(lineage, score, learning, 3)
    for name, column in vars(expected).items():
        np.testing.assert_allclose(getattr(found, name), column[whose[order]], atol=1e-12)


def test_recent_records_of_no_players_are_empty():
    assert pool_recent(count_results([], [], [], 0), [], [], []).games.shape == (0,)


@pytest.mark.parametrize("games", [1.0, 3.0, 6.0, 12.0, 30.0, 100.0])
def test_win_rate_over_70_percent_implies_superiority(games):
    """The prior's eight even games stand for an interval: at few games nobody gets above the limit by luck alone."""
    points = np.linspace(0.0, games, 1001)
    counts = WinCounts(np.full(1001, games), points, *np.zeros((3, 1001)))
    low, _ = wilson_interval(counts)
    beating = win_rates(counts, 0.5) > 0.7
    assert beating.any() == (games > 5.0)
    assert (low[beating] > 0.5).all()


@given(games_strategy)
def test_win_rates_of_both_views_make_one_and_stay_inside_zero_to_one(games):
    table = payoff(plain_pair_counts(games, 4), certain(1200.0, 1500.0, 1900.0, 9000.0))
    assert table.win_rate + table.win_rate.T == pytest.approx(np.ones((4, 4)))
    assert ((table.win_rate >= 0.0) & (table.win_rate <= 1.0)).all()
    assert (table.low <= table.high).all()
    assert 0.0 <= table.cyclic <= 1.0


def test_an_unplayed_pair_has_the_ratings_win_rate_and_not_one_half():
    counts = plain_pair_counts([], 2)
    table = payoff(counts, certain(1700.0, 1500.0))
    assert table.win_rate[0, 1] == table.expected[0, 1] == pytest.approx(1 / (1 + 10**-0.5), rel=1e-5)
    assert table.residual[0, 1] == 0.0
    assert (table.low[0, 1], table.high[0, 1]) == (0.0, 1.0)
    assert (table.unexplained, table.cyclic) == (0.0, 0.0)


def test_the_prior_is_worth_eight_games_of_the_prediction():
    counts = count_results([0] * 8, [1.0] * 8, [False] * 8, 1)
    assert win_rates(counts, [0.3]) == pytest.approx([(8 + 8 * 0.3) / 16])
    assert win_rates(counts, [0.3], prior_games=24.0) == pytest.approx([(8 + 24 * 0.3) / 32])


def test_wilson_interval_has_the_textbook_values():
    counts = count_results([0] * 10 + [1] * 10, [1.0] * 10 + [1.0] * 4 + [0.0] * 6, [False] * 20, 2)
    low, high = wilson_interval(counts)
    assert low == pytest.approx([0.7225, 0.1682], abs=5e-5)
    assert high == pytest.approx([1.0, 0.6873], abs=5e-5)


def test_expected_matrix_is_even_on_the_diagonal():
    expected = expected_matrix(newcomers(3))
    assert expected == pytest.approx(np.full((3, 3), 0.5))
    assert expected_matrix(certain(1900, 1500))[0, 1] == pytest.approx(1 / 1.1, rel=1e-5)


def odds_matrix(strength):
    return 1 / (1 + np.exp(-(strength[:, None] - strength[None, :])))


def test_additive_strengths_have_no_cyclic_part():
    strength = np.array([0.0, 0.7, -1.2, 2.0])
    assert cyclic_share(odds_matrix(strength), np.ones((4, 4)) - np.eye(4)) == pytest.approx(0.0, abs=1e-20)


def test_rock_paper_scissors_is_all_cyclic():
    beats = np.array([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])
    assert cyclic_share(beats, 10 * (np.ones((3, 3)) - np.eye(3))) == pytest.approx(1.0)


def test_cyclic_share_of_a_mixture_is_its_share_of_the_squared_log_odds():
    strength, cycle = np.array([1.0, 0.0, -1.0]), np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    gradient = strength[:, None] - strength[None, :]
    rate = 1 / (1 + np.exp(-(gradient + 0.5 * cycle)))
    wanted = (0.25 * cycle**2).sum() / ((gradient + 0.5 * cycle) ** 2).sum()
    assert cyclic_share(rate, np.ones((3, 3)) - np.eye(3)) == pytest.approx(wanted)


def test_unplayed_pairs_have_no_weight_in_the_shares():
    beats = np.array([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])
    chain = np.array([[0, 5, 0], [5, 0, 5], [0, 5, 0]], dtype=float)
    assert cyclic_share(beats, chain) == pytest.approx(0.0, abs=1e-20)


def test_ratings_that_fit_leave_nothing_unexplained_and_even_ones_everything():
    rate = odds_matrix(np.array([0.0, 1.0, 3.0]))
    games = np.ones((3, 3)) - np.eye(3)
    assert unexplained_share(rate, rate, games) == 0.0
    assert unexplained_share(rate, np.full((3, 3), 0.5), games) == pytest.approx(1.0)
    assert unexplained_share(rate, rate.T, games) == pytest.approx(4.0)


def test_moments_are_those_of_the_beta_distribution():
    mean, variance = beta_moments(count_results([0, 0, 0, 1], [1.0, 0.5, 0.5, 0.0], [False] * 4, 3))
    posterior = beta([3, 1, 1], [2, 2, 1])
    assert mean == pytest.approx(posterior.mean())
    assert variance == pytest.approx(posterior.var())


def test_bad_payoff_columns_are_refused_by_name():
    with refused(ValueError, "score[1]", 1.7):
        count_results([0, 0], [1.0, 1.7], [False, False], 1)
    with refused(ValueError, "cell[0]", 1, "[0, 1)"):
        count_results([1], [1.0], [False], 1)
    with refused(ValueError, "cell[0]", -1):
        count_results([-1], [1.0], [False], 1)
    with refused(ValueError, "(2,)", "(1,)"):
        count_results([0, 0], [1.0], [False], 1)
    with refused(ValueError, "decay", 0.0):
        count_results([0], [1.0], [False], 1, decay=0.0)
    with refused(ValueError, "prior_games", 0.0):
        win_rates(count_results([0], [1.0], [False], 1), [0.5], prior_games=0.0)
    with refused(ValueError, "counts", "(2, 2)", 3):
        payoff(plain_pair_counts([], 2), newcomers(3))
