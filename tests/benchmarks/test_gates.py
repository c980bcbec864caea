import numpy as np
import pytest

from benchmarks.gates import paired_scores


@pytest.mark.parametrize("lead", [-100.0, 0.0, 20.0, 400.0])
def test_candidates_have_the_mean_score_of_their_lead(lead):
    scores = paired_scores(lead, 200, 200, np.random.default_rng(0))
    assert scores.mean() == pytest.approx(1.0 / (1.0 + 10.0 ** (-lead / 400.0)), abs=0.006)
    assert set(np.unique(scores)) == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert (paired_scores(lead, 200, 200, np.random.default_rng(0)) == scores).all()


def test_luck_that_both_games_of_a_pair_share_is_not_in_the_spread_of_their_mean():
    """Two independent games, a third of them drawn, would have half the variance of one, 1 / 6."""
    assert paired_scores(0.0, 1, 100_000, np.random.default_rng(1)).var() < 0.95 * 0.5 / 6.0
