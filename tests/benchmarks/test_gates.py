import numpy as np
import pytest

from benchmarks.gates import paired_scores


@pytest.mark.parametrize("lead", [-100.0, 0.0, 20.0, 400.0])
def test_candidates_have_the_mean_score_of_their_lead(lead):
    scores = paired_scores(lead, 200, 200, np.random.default_rng(0))
    assert scores.mean() == pytest.approx(1.0 / (1.0 + 10.0 ** (-lead / 400.0)), abs=0.006)
    assert set(np.unique(scores)) == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert (paired_scores(lead, 200, 200, np.random.default_rng(0)) == scores).all()


def test_luck_that_both_games_of_a_pair_share_counts_less_than_luck_of_each():
    scores = paired_scores(0.0, 1, 100_000, np.random.default_rng(1))
    wins = (scores == 1.0).mean() * 2.0 + (scores == 0.75).mean()
    losses = (scores == 0.0).mean() * 2.0 + (scores == 0.25).mean()
    assert wins == pytest.approx(losses, abs=0.01)
    assert scores.var() < 0.5 * (2.0 / 3.0) * 0.25
