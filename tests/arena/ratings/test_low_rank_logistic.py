"""Products with the chances of all pairs are those of the matrices that are not made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from arena.ratings.low_rank_logistic import LowRankLogistic, polynomials


def slopes(strengths: np.ndarray) -> np.ndarray:
    lead = strengths[:, None] - strengths
    return expit(lead) * expit(-lead)


@given(st.lists(st.floats(-15.0, 20.0), min_size=1, max_size=40).map(np.array))
def test_scores_equal_the_win_probability_matrix(strengths: np.ndarray) -> None:
    found = LowRankLogistic.of(strengths, np.arange(strengths.size), 0.01)
    assert found.score == pytest.approx(expit(strengths[:, None] - strengths).sum(axis=1), abs=1e-9)


@pytest.mark.parametrize("spread", [0.0, 1.0, 15.0])
def test_low_rank_products_and_solutions_equal_the_dense_laplacian(spread: float) -> None:
    rng = np.random.default_rng(0)
    strengths, free = rng.normal(8.0, spread, 50), np.arange(3, 50)
    weights = slopes(strengths)
    laplacian = (np.diag(weights.sum(axis=1)) - weights)[3:, 3:] + 0.01 * np.eye(47)
    found, right = LowRankLogistic.of(strengths, free, 0.01), rng.normal(size=(47, 4))
    assert found.times(right) == pytest.approx(laplacian @ right, abs=1e-11)
    assert found.solution(right) == pytest.approx(np.linalg.solve(laplacian, right), rel=1e-7)


def test_players_farther_apart_take_more_polynomials_and_none_too_few() -> None:
    counts = [polynomials(np.array([0.0, apart])) for apart in (0.0, 10.0, 20.0, 100.0)]
    assert counts == sorted(counts)
    assert counts[0] >= 16
    assert counts[-1] < 1_000
