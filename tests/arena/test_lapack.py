"""LAPACK without Python's lock: the same bits as with it, and others go on."""

import threading

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import lapack

from arena.lapack import inverse


def definite(size: int) -> NDArray[np.float64]:
    factor = np.random.default_rng(size).normal(size=(size, size))
    return factor @ factor.T + np.eye(size)


@pytest.mark.parametrize("size", [1, 2, 7, 200])
def test_the_inverse_is_that_of_scipys_calls_to_the_last_bit(size: int) -> None:
    matrix = definite(size)
    factor, _ = lapack.dpotrf(matrix, lower=1)
    right, _ = lapack.dpotri(factor, lower=1)
    found = inverse(matrix)
    assert np.array_equal(np.tril(found), np.tril(right))
    assert np.array_equal(found, found.T)


def test_other_threads_run_while_a_matrix_is_inverted() -> None:
    matrix, ended, counted = definite(900), threading.Event(), [0]

    def count() -> None:
        while not ended.is_set():
            counted[0] += 1

    other = threading.Thread(target=count)
    other.start()
    before = counted[0]
    inverse(matrix)
    passed = counted[0] - before
    ended.set()
    other.join()
    assert passed > 1000


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    with pytest.raises(ArithmeticError, match=r"not positive definite \(row 1\)"):
        inverse(np.array([[1.0, 2.0], [2.0, 1.0]]))
