"""Benjamini-Hochberg adjustment of p-values (false discovery rate).

`scipy.stats.false_discovery_control` computes the same. It is not used because importing `scipy.stats` takes half a
second, which would delay every server and command.
"""

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import FloatArray


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Return Benjamini-Hochberg adjusted p-values; those below q are discoveries at a false discovery rate of q.

        q_(i) = min over k >= i of p_(k) N / k        p_(1) <= ... <= p_(N)

    Valid for independent or positively dependent tests.

    Args:
        p_values: (N,) in [0, 1].

    Returns:
        (N,) adjusted p-values in [0, 1], in the order of the input.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995).
    """
    p = np.asarray(p_values, dtype=np.float64)
    largest_first = np.argsort(p)[::-1]
    among = p.size / np.arange(p.size, 0.0, -1.0)
    q = np.empty_like(p)
    q[largest_first] = np.minimum.accumulate(np.minimum(p[largest_first] * among, 1.0))
    return q
