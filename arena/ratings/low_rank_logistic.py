"""Low-rank logistic matrix: win probabilities of all pairs of P strengths, with products in O(P).

    f(x_i - x_j)  =  sum_ab T_a(x_i) q_ab T_b(x_j)        a, b < n

T are the Chebyshev polynomials between the smallest and the largest x, and q comes from f on an n by n Chebyshev grid.
The poles of 1 / (1 + exp(-x)) and of its derivative are pi off the real axis, so the error falls like rho^-n,

    rho = pi / w + sqrt(1 + (pi / w)^2)                    w half of the distance between smallest and largest x

and 50 polynomials suffice for players 1,700 points apart. The matrix of the derivative is positive semi-definite,
because the derivative is a density with a positive characteristic function. It therefore has a factor of rank n.

Source: Trefethen, "Approximation Theory and Approximation Practice" (2013), chapters 4 and 8; Fong and Darve, "The
black-box fast multipole method" (2009), for functions of differences; Woodbury (1950) for the solution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, hypot, log, pi
from typing import Self

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander
from scipy.special import expit

from arena.arrays import FloatArray, IntArray
from arena.ratings.linear_algebra import solution

_ERROR = 1e-16  # relative, below the rounding of float64
_WIDTH_MIN = 1.0  # half of the range; equal strengths would divide by 0


@dataclass(frozen=True, eq=False)
class LowRankLogistic:
    """Win probabilities of all pairs of P players, and the Laplacian L = D - V V' of their derivatives.

    Attributes:
        score: (P,) expected score of each player against all players, including half a point against itself.
        own: (F,) diagonal of D, over the F free players: the summed derivatives of each player's pairs, plus the added
            precision.
        factor: (F, m) V.
        core: (m, m) 1 - V' D^-1 V.
    """

    score: FloatArray
    own: FloatArray
    factor: FloatArray
    core: FloatArray

    @classmethod
    def of(cls, strengths: FloatArray, free: IntArray, added: float) -> Self:
        """Build them from (P,) strengths, with `added` > 0 on the Laplacian's diagonal."""
        low, high = float(strengths.min()), float(strengths.max())
        middle, width = 0.5 * (low + high), _width(low, high)
        count = polynomials(strengths)
        basis = chebvander((strengths - middle) / width, count - 1)
        total = basis.sum(axis=0)
        of_score, of_slope = _coefficients(expit, width, count), _coefficients(_slope, width, count)
        # eigh reads one triangle only, and rounding makes q slightly asymmetric.
        values, vectors = np.linalg.eigh(0.5 * (of_slope + of_slope.T))
        # Eigenvalues below rounding may be negative, and their square roots NaN.
        significant = values > _ERROR * values[-1]
        own = (basis @ (of_slope @ total))[free] + added
        factor = basis[free] @ (vectors[:, significant] * np.sqrt(values[significant]))
        core = np.eye(factor.shape[1]) - factor.T @ (factor / own[:, None])
        return cls(basis @ (of_score @ total), own, factor, core)

    def times(self, right: FloatArray) -> FloatArray:
        """Return L right, (F, K)."""
        return self.own[:, None] * right - self.factor @ (self.factor.T @ right)

    def solution(self, right: FloatArray) -> FloatArray:
        """Return the solution x, (F, K), of L x = right, by the Woodbury identity.

            L^-1 = D^-1 + D^-1 V (1 - V' D^-1 V)^-1 V' D^-1

        Raises:
            ArithmeticError: L is not positive definite.
        """
        scaled = self.factor / self.own[:, None]
        return right / self.own[:, None] + scaled @ solution(self.core.copy(), scaled.T @ right)


def polynomials(strengths: FloatArray) -> int:
    """Return the number of polynomials that reduces the error below rounding."""
    ratio = pi / _width(float(strengths.min()), float(strengths.max()))
    return ceil(-log(_ERROR) / log(ratio + hypot(1.0, ratio)))


def _width(low: float, high: float) -> float:
    return max(0.5 * (high - low), _WIDTH_MIN)


def _slope(lead: FloatArray) -> FloatArray:
    return np.asarray(expit(lead) * expit(-lead))


def _coefficients(function: Callable[[FloatArray], FloatArray], width: float, count: int) -> FloatArray:
    """Return the (n, n) Chebyshev coefficients q of f(x - y) for x and y in [-width, width]."""
    points = chebpts1(count)
    transform = 2.0 / count * chebvander(points, count - 1).T
    # The constant term counts half in a discrete Chebyshev transform.
    transform[0] *= 0.5
    return np.asarray(transform @ function(width * (points[:, None] - points)) @ transform.T)
