"""p-values of many tests, adjusted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import false_discovery_control

from arena.evaluation.statistics import benjamini_hochberg

p_values = arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([0.0, 1e-300, 1e-4, 0.01, 0.04, 0.5, 1.0]))


@given(p_values)
def test_statistics_equal_scipy(given_p: np.ndarray) -> None:
    assert np.allclose(benjamini_hochberg(given_p), false_discovery_control(given_p), rtol=1e-15, atol=0.0)


def test_no_test_needs_no_adjustment_and_one_stays_as_it_is() -> None:
    assert benjamini_hochberg([]).shape == (0,)
    assert benjamini_hochberg([0.3]).tolist() == [0.3]
