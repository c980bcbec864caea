"""Many tests at once: of what is called a discovery, no more than a given share is chance.

`scipy.stats.false_discovery_control` says the same. It is not used because loading `scipy.stats` takes half a second,
which every server and command would wait for.
"""

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import FloatArray


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values for being many: call those discoveries that then lie below the share that may be mistaken.

        q_(i) = min over k >= i of p_(k) N / k        p_(1) <= ... <= p_(N)

    Holds for tests that are independent of each other, or depend on each other positively.

    Args:
        p_values: (N,) in [0, 1].

    Returns:
        (N,) adjusted ones in [0, 1], each in the place of its own.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995).
    """
    p = np.asarray(p_values, dtype=np.float64)
    largest_first = np.argsort(p)[::-1]
    among = p.size / np.arange(p.size, 0.0, -1.0)
    q = np.empty_like(p)
    q[largest_first] = np.minimum.accumulate(np.minimum(p[largest_first] * among, 1.0))
    return q
