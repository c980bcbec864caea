"""Covariance of fitted ratings: a dense matrix for few players, a sparse solver for many.

The inverse of the sparse Hessian of 20,000 players is dense: 3 GB, and minutes to compute. Callers only need products
with some vectors, which conjugate gradients give, and the diagonal, which is estimated:

    diag(C)  ~  diag(N) + diag(T^-1) + mean over probes z of  z * (C z - N z - T^-1 z)

N is a Nystrom approximation of rank 16. It captures the errors shared by many players. T contains the diagonal of the
Hessian and the edges of the lineages. It is a forest, so the diagonal of its inverse is exact in O(F). The remainder is
small, and 64 probes leave an error of about 0.6 % of a deviation. Players with a larger spread between probes get an
exact solution. The probes have a fixed seed and are the same in every process.

Source: Hutchinson, "A stochastic estimator of the trace of the influence matrix" (1990); Bekas, Kokiopoulou and Saad,
"An estimator for the diagonal of a matrix" (2007); Persson, Cortinovis and Kressner, "Improved variants of the Hutch++
algorithm for trace estimation" (2022), for the Nystrom approximation; Saad, Yeung, Erhel and Guyomarc'h, "A deflated
version of the conjugate gradient algorithm" (2000).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu

from arena.arrays import FloatArray, IntArray
from arena.ratings.linear_algebra import inverse

Times = Callable[[FloatArray, float], FloatArray]
"""Multiplies (F, K) columns by an (F, F) matrix, to a tolerance relative to each column."""

MATRIX_MAX = 2_500
"""Players up to whom the matrix is made: 0.5 s and 50 MB."""

EXACT = 1e-6
"""Tolerance of products for callers."""

_RANK = 16
_PROBES = 64
_BLOCK = 16  # columns per block, so that a block fits a core's cache
_UNSURE = 0.06  # relative standard error of a variance above which it is solved for exactly
_ROUGHLY, _NEARLY = 0.01, 1e-4  # solver tolerances: for the deflation basis, and for estimates
_STEPS = 5_000
_TINY = np.finfo(np.float64).tiny  # avoids 0 / 0 for columns that have already converged


@dataclass(frozen=True, eq=False)
class SparseSystem:
    """Sparse positive definite matrix with a deflation basis that speeds up its solutions.

    Attributes:
        matrix: (F, F).
        basis: (F, R) orthonormal directions of small eigenvalues, which are solved for directly.
        image: (F, R) matrix times basis.
        core: (R, R) inverse of basis' image.
    """

    matrix: csr_array
    basis: FloatArray
    image: FloatArray
    core: FloatArray

    @classmethod
    def of(cls, matrix: csr_array, basis: FloatArray | None = None) -> Self:
        """Build the system; without a `basis` from a similar matrix, compute one."""
        if basis is None:
            size = matrix.shape[0]
            # Solving for random columns is inverse iteration: it amplifies the directions of small eigenvalues.
            start = np.random.default_rng(0).standard_normal((size, min(_RANK, size)))
            basis = np.linalg.qr(cls.of(matrix, np.empty((size, 0))).solution(start, _ROUGHLY))[0]
        image = matrix @ basis
        return cls(matrix, basis, image, np.linalg.inv(basis.T @ image))

    def solution(self, right: FloatArray, tolerance: float, start: FloatArray | None = None) -> FloatArray:
        """Solve for the columns of `right`, (F, K), by deflated conjugate gradients.

        Args:
            right: (F, K).
            tolerance: Norm of the residual relative to the right side.
            start: (F, K) starting point. None for zeros.
        """
        found = np.zeros_like(right) if start is None else start.copy()
        for first in range(0, right.shape[1], _BLOCK):
            block = slice(first, first + _BLOCK)
            found[:, block] = self._solved(right[:, block], np.ascontiguousarray(found[:, block]), tolerance)
        return found

    def _solved(self, right: FloatArray, found: FloatArray, tolerance: float) -> FloatArray:
        """Iterate `found` in place to the solution and return it."""
        scale = 1.0 / self.matrix.diagonal()[:, None]
        residual = right - self.matrix @ found
        # Solve within the basis first: the iteration then never meets its small eigenvalues.
        shared = self.core @ (self.basis.T @ residual)
        found += self.basis @ shared
        residual -= self.image @ shared
        enough = tolerance**2 * _dots(right, right)
        direction, before = np.zeros_like(residual), np.ones(right.shape[1])
        for _ in range(_STEPS):
            if (_dots(residual, residual) <= enough).all():
                break
            scaled = scale * residual
            product = _dots(residual, scaled)
            direction *= product / np.maximum(before, _TINY)
            direction += scaled
            # Conjugate to the basis, or the small eigenvalues would return and slow the iteration down.
            direction -= self.basis @ (self.core @ (self.image.T @ scaled))
            image = self.matrix @ direction
            length = product / np.maximum(_dots(direction, image), _TINY)
            found += length * direction
            image *= length
            residual -= image
            before = product
        return found


@dataclass(frozen=True, eq=False)
class Sparse:
    """Approximation of a covariance without a matrix: (F, R) dominant directions, and diagonal and products of T^-1."""

    basis: FloatArray
    variance: FloatArray
    times: Times


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of F values, dense or as a linear operator.

    Attributes:
        times: Multiplies columns by the covariance.
        matrix: (F, F). None if there are too many values.
        near: Approximation from which the diagonal is estimated without a matrix.
    """

    times: Times
    matrix: FloatArray | None
    near: Sparse | None = None

    @classmethod
    def of_matrix(cls, matrix: FloatArray) -> Self:
        """Wrap a symmetric (F, F) matrix."""
        return cls(lambda right, _: np.asarray(matrix @ right), matrix)

    @classmethod
    def of_curvature(
        cls, curvature: csr_array, child: IntArray, parent: IntArray, basis: FloatArray | None = None
    ) -> Self:
        """Return the inverse of a sparse (F, F) positive definite curvature.

        Args:
            curvature: The matrix.
            child: (C,) players with a parent.
            parent: (C,) their parents.
            basis: Deflation basis of a `SparseSystem`. None to compute one.

        Raises:
            ArithmeticError: The curvature is not positive definite.
        """
        if curvature.shape[0] <= MATRIX_MAX:
            return cls.of_matrix(inverse(curvature.toarray(order="F")))
        system = SparseSystem.of(curvature, basis)
        variance, times = _of_forest(curvature, child, parent)
        return cls(system.solution, None, Sparse(system.basis, variance, times))

    @cached_property
    def variance(self) -> FloatArray:
        """(F,) diagonal."""
        if self.near is None:
            return np.asarray(self.matrix).diagonal()
        return _diagonal(self.times, self.near)

    def carried(self, times: Times, scale: FloatArray) -> "Covariance":
        """Return the covariance of F values that depend on these linearly.

        Args:
            times: Multiplies columns by the new covariance.
            scale: (F,) approximate derivative of each new value with respect to its old one.
        """
        near = self.near
        if near is None:
            matrix = times(np.eye(scale.size), EXACT)
            return Covariance.of_matrix(0.5 * (matrix + matrix.T))
        column = scale[:, None]
        scaled = Sparse(
            column * near.basis, scale**2 * near.variance, lambda right, how: column * near.times(column * right, how)
        )
        return Covariance(times, None, scaled)


def _dots(one: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", one, other))


def _diagonal(times: Times, near: Sparse) -> FloatArray:
    size = near.variance.size
    rng = np.random.default_rng(0)  # a fixed seed: the same probes in every process
    factor: FloatArray = _nystrom(times, near.basis)
    total, squares = np.zeros(size), np.zeros(size)
    for _ in range(_PROBES // _BLOCK):
        signs: FloatArray = rng.choice(np.array([-1.0, 1.0]), (size, _BLOCK))
        # Only the difference from the approximation is estimated at random: it is small, and so is its variance.
        rest: FloatArray = signs * (times(signs, _NEARLY) - factor @ (factor.T @ signs) - near.times(signs, _NEARLY))
        total += rest.sum(axis=1)
        squares += np.square(rest).sum(axis=1)
    mean = total / _PROBES
    variance: FloatArray = np.square(factor).sum(axis=1) + near.variance + mean
    error: FloatArray = np.sqrt(np.maximum(squares / _PROBES - mean**2, 0.0) / _PROBES)
    unsure = np.flatnonzero(error > _UNSURE * variance)
    for first in range(0, unsure.size, _BLOCK):
        chosen = unsure[first : first + _BLOCK]
        own = np.arange(chosen.size)
        unit = np.zeros((size, chosen.size))
        unit[chosen, own] = 1.0
        variance[chosen] = times(unit, _NEARLY)[chosen, own]
    # Estimates from probes can be slightly negative.
    return np.asarray(np.maximum(variance, 0.0))


def _nystrom(times: Times, basis: FloatArray) -> FloatArray:
    """Return the (F, R) Nystrom factor N: N N' approximates the covariance on the span of the basis."""
    orthogonal = np.linalg.qr(basis)[0]
    image = times(orthogonal, _NEARLY)
    core: FloatArray = orthogonal.T @ image
    # Products with a tolerance are slightly asymmetric.
    lower = np.linalg.cholesky(0.5 * (core + core.T))
    factor: FloatArray = solve_triangular(lower, image.T, lower=True).T
    return factor


def _of_forest(curvature: csr_array, child: IntArray, parent: IntArray) -> tuple[FloatArray, Times]:
    """Invert the Hessian restricted to its diagonal and lineage edges; return its (F,) diagonal and products."""
    size = curvature.shape[0]
    # With empty index arrays SciPy returns a sparse array instead of values.
    edge = np.asarray(curvature[child, parent]).reshape(-1) if child.size else np.empty(0)
    places = np.concatenate((child, parent)), np.concatenate((parent, child))
    forest = csr_array((np.concatenate((edge, edge)), places), shape=(size, size))
    own = curvature.diagonal()
    matrix = (forest + diags_array(own)).tocsc()
    # The matrix is positive definite and needs no pivoting; a forest in minimum-degree order has no fill-in.
    factors = splu(matrix, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return _diagonal_of_forest(own, child, parent, edge), lambda right, _: np.asarray(factors.solve(right))


def _diagonal_of_forest(own: FloatArray, child: IntArray, parent: IntArray, edge: FloatArray) -> FloatArray:
    """Return the diagonal of a forest matrix's inverse: eliminate leaves to roots, then substitute back."""
    above = np.full(own.size, -1)
    above[child] = parent
    depth, ancestor = (above >= 0).astype(np.int64), above.copy()
    while (ancestor >= 0).any():  # pointer jumping: doubles the distance to the ancestor
        known = ancestor >= 0
        depth[known] += depth[ancestor[known]]
        ancestor[known] = ancestor[ancestor[known]]
    order = np.argsort(-depth[child], kind="stable")
    # Each step needs the one before, and reading single items of lists is faster than of arrays.
    links = list(zip(child[order].tolist(), parent[order].tolist(), edge[order].tolist(), strict=True))
    pivot = own.tolist()
    for one, other, weight in links:
        pivot[other] -= weight * weight / pivot[one]
    variance = [1.0 / each for each in pivot]
    for one, other, weight in reversed(links):
        variance[one] += (weight / pivot[one]) ** 2 * variance[other]
    return np.array(variance)
