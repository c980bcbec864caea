"""LAPACK without Python's lock: the same bits as with it, and others go on."""

import sys
import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from refused import refused
from scipy.linalg import lapack

import arena.ratings.linear_algebra
from arena.ratings.linear_algebra import inverse, solution


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


@pytest.mark.parametrize(("size", "sides"), [(1, 1), (2, 3), (7, 1), (200, 16)])
def test_a_solution_is_that_of_scipys_call_to_the_last_bit(size: int, sides: int) -> None:
    matrix, right = definite(size), np.random.default_rng(sides).normal(size=(size, sides))
    kept = right.copy()
    _, expected, _ = lapack.dposv(matrix, right, lower=1)
    assert np.array_equal(solution(matrix, right), expected)
    assert np.array_equal(right, kept)
    assert np.array_equal(solution(definite(size), np.asfortranarray(right)), expected)
    assert np.array_equal(right, kept)


def gives_way(call: Callable[[], object]) -> bool:
    """Say whether another thread runs during a call, although nobody asks for Python's lock."""
    awake, ran = threading.Event(), threading.Event()

    def run() -> None:
        awake.wait()
        ran.set()

    other, interval = threading.Thread(target=run), sys.getswitchinterval()
    other.start()
    sys.setswitchinterval(60.0)
    try:
        awake.set()
        call()
        return ran.is_set()
    finally:
        sys.setswitchinterval(interval)
        other.join()


@pytest.mark.parametrize(
    ("routine", "calculate"), [("_dpotrf", inverse), ("_dpotri", inverse), ("_dposv", lambda m: solution(m, m[:, :1]))]
)
def test_other_threads_run_meanwhile(
    monkeypatch: pytest.MonkeyPatch, routine: str, calculate: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> None:
    called, gave_way = getattr(arena.ratings.linear_algebra, routine), []
    monkeypatch.setattr(
        arena.ratings.linear_algebra, routine, lambda *given: gave_way.append(gives_way(partial(called, *given)))
    )
    for _ in range(10):  # who is woken may be late
        calculate(definite(900))
        if gave_way[-1]:
            return
    pytest.fail(f"{routine} keeps Python's lock")


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    for calculate in (inverse, lambda matrix: solution(matrix, np.eye(2))):
        with refused(ArithmeticError, 1):
            calculate(np.array([[1.0, 2.0], [2.0, 1.0]]))
