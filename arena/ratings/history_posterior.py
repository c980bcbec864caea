"""Log-posterior of Bradley-Terry strengths with lineages, and Newton's ascent to its mode.

The equations are those of `arena.ratings.bradley_terry`, which learns the variances of the prior.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from arena.arrays import FloatArray, IntArray, sum_by_index
from arena.ratings.covariance import SparseSystem
from arena.ratings.expected_score import PairCounts
from arena.ratings.glicko2 import SCALE, START_RATING
from arena.ratings.linear_algebra import solution

MIDDLE = START_RATING / SCALE

# players; below this a dense factorisation is faster than the many small calls of conjugate gradients
_DENSE_MAX = 1_000
_NEWTON_STEPS = 200  # close to the mode it takes about five
_STEP_MAX = 8.0  # 1,400 points; limits Newton's step where a distant start leaves almost no curvature
_HALVINGS = 60  # after which a step is below the rounding of float64
_CURVATURE_FLOOR = 1e-12  # of a pair 4,800 points apart; keeps the Hessian positive definite


@dataclass(frozen=True)
class LineageStep:
    """Prior of a step from parent to child: mean d and variance s^2."""

    mean: float
    variance: float


class LaplacianPattern:
    """Sparsity pattern of the (F, F) Laplacian of N edges between P players, reused while the weights change.

    Args:
        one: (N,) first end of each edge.
        other: (N,) second end of each edge.
        free: (F,) players that have a row.
        players: P.
    """

    def __init__(self, one: IntArray, other: IntArray, free: IntArray, players: int) -> None:
        self._one, self._other, self._free = one, other, free
        self._row = np.full(players, -1)  # of fixed players
        self._row[free] = np.arange(free.size)
        self._inside = (self._row[one] >= 0) & (self._row[other] >= 0)
        low, high, own = self._row[one[self._inside]], self._row[other[self._inside]], np.arange(free.size)
        # One code per entry, row by row. Each edge has two entries, and pairs that repeat share theirs.
        code = np.concatenate((own, low, high)) * free.size + np.concatenate((own, high, low))
        entries, slot = np.unique(code, return_inverse=True)
        self._slot = slot.reshape(-1)  # position in the CSR data of the diagonal and of both entries of each edge
        self._indices = entries % free.size
        self._starts = np.searchsorted(entries, np.arange(free.size + 1) * free.size)

    def edges(self, one: IntArray, other: IntArray) -> tuple[IntArray, IntArray]:
        """Return the row pairs of the edges whose two ends both have a row."""
        low, high = self._row[one], self._row[other]
        inside = (low >= 0) & (high >= 0)
        return low[inside], high[inside]

    def matrix(self, weight: FloatArray, own: FloatArray) -> csr_array:
        """Return the graph Laplacian of (N,) weights, plus (F,) `own` on the diagonal."""
        total = sum_by_index(self._one, weight, self._row.size) + sum_by_index(self._other, weight, self._row.size)
        between = -weight[self._inside]
        values = np.concatenate((total[self._free] + own, between, between))
        shape = (self._free.size, self._free.size)
        return csr_array(
            (sum_by_index(self._slot, values, self._indices.size), self._indices, self._starts), shape=shape
        )


@dataclass(frozen=True, eq=False)
class HistoryPosterior:
    """Log-posterior as a function of (P,) strengths, of which F are free.

    Attributes:
        pairs: Games and points of each pair.
        pattern: Sparsity of the Hessian: pairs that have played, or are child and parent.
        free: (F,) free players.
        precision: (F,) 1 / variance of each player's prior. 0 for players with a parent.
        child: (C,) the free players with a parent.
        parent: (C,) their parents.
        step: Prior of a step from parent to child.
    """

    pairs: PairCounts
    pattern: LaplacianPattern
    free: IntArray
    precision: FloatArray
    child: IntArray
    parent: IntArray
    step: LineageStep

    def height(self, theta: FloatArray) -> float:
        """Return the log-posterior, up to a constant."""
        lead = theta[self.pairs.low] - theta[self.pairs.high]
        lost = self.pairs.games - self.pairs.points
        of_leader = -np.log1p(np.exp(-np.abs(lead)))  # log_expit of both leads, several times as fast
        likelihood = self.pairs.games * of_leader + self.pairs.points * np.minimum(lead, 0.0)
        likelihood -= lost * np.maximum(lead, 0.0)
        prior = self.precision * np.square(theta[self.free] - MIDDLE)
        descent = np.square(self._surplus_of_steps(theta)) / self.step.variance
        return float(likelihood.sum() - 0.5 * (prior.sum() + descent.sum()))

    def slope(self, theta: FloatArray) -> FloatArray:
        """Return the (F,) gradient."""
        expected = self.pairs.games * expit(theta[self.pairs.low] - theta[self.pairs.high])
        total = sum_differences(self.pairs.low, self.pairs.high, self.pairs.points - expected, theta.size)
        pull = self._surplus_of_steps(theta) / self.step.variance
        total -= sum_differences(self.child, self.parent, pull, theta.size)
        return total[self.free] - self.precision * (theta[self.free] - MIDDLE)

    def curvature(self, theta: FloatArray) -> csr_array:
        """Return the (F, F) negative Hessian, sparse and positive definite."""
        lead = theta[self.pairs.low] - theta[self.pairs.high]
        # expit(-lead) and not 1 - expit(lead), which is 0 for leads above 37 (6,400 points).
        weight = self.pairs.games * np.maximum(expit(lead) * expit(-lead), _CURVATURE_FLOOR)
        weight = np.concatenate((weight, np.full(self.child.size, 1.0 / self.step.variance)))
        return self.pattern.matrix(weight, self.precision)

    def _surplus_of_steps(self, theta: FloatArray) -> FloatArray:
        return theta[self.child] - theta[self.parent] - self.step.mean


def sum_differences(plus: IntArray, minus: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Sum values per index: added at `plus`, subtracted at `minus`."""
    return sum_by_index(plus, values, size) - sum_by_index(minus, values, size)


class LinearSolver:
    """Linear solver for a slowly changing matrix: dense Cholesky if small, conjugate gradients if large.

    The next Newton step corrects the residual that conjugate gradients leave.
    """

    def __init__(self) -> None:
        self.basis: FloatArray | None = None

    def solved(
        self, matrix: csr_array, right: FloatArray, tolerance: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Solve for the columns of `right`, (F, K), starting from `start`."""
        if len(right) <= _DENSE_MAX:
            return solution(matrix.toarray(order="F"), right)
        system = SparseSystem.of(matrix, self.basis)
        self.basis = system.basis
        return system.solution(right, tolerance, start)


def newton_ascent(
    posterior: HistoryPosterior, theta: FloatArray, tolerance: float, solver: LinearSolver, solver_tolerance: float
) -> None:
    """Move `theta` to the posterior mode by Newton's method with step halving, until a step is below `tolerance`."""
    height = posterior.height(theta)
    for _ in range(_NEWTON_STEPS):
        step = solver.solved(posterior.curvature(theta), posterior.slope(theta)[:, None], solver_tolerance)[:, 0]
        step *= _STEP_MAX / max(np.abs(step).max(), _STEP_MAX)
        for _ in range(_HALVINGS):
            tried = theta.copy()
            tried[posterior.free] += step
            risen = posterior.height(tried)
            if risen >= height:
                break
            step *= 0.5
        else:
            return  # no step improves the log-posterior beyond rounding: this is the mode
        theta[:], height = tried, risen
        if np.abs(step).max() < tolerance:
            return
