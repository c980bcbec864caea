"""LAPACK without Python's lock: the same bits as with it, and others go on."""

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import lapack

import arena.lapack
from arena.lapack import inverse, solution


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


@pytest.mark.parametrize(
    ("calculate", "routines"),
    [(inverse, ("_dpotrf", "_dpotri")), (lambda matrix: solution(matrix, np.eye(len(matrix))), ("_dposv",))],
)
def test_other_threads_run_within_every_routine(
    monkeypatch: pytest.MonkeyPatch,
    calculate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    routines: tuple[str, ...],
) -> None:
    ended, turns, passed = threading.Event(), [0], []

    def take_turns() -> None:
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0)  # gives the lock back at once: only a routine without it leaves time for many turns

    def watched(routine: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            before = turns[0]
            routine(*arguments)
            passed.append(turns[0] - before)

        return call

    for name in routines:
        monkeypatch.setattr(arena.lapack, name, watched(getattr(arena.lapack, name)))
    other = threading.Thread(target=take_turns)
    other.start()
    try:
        calculate(definite(1200))
    finally:
        ended.set()
        other.join()
    assert len(passed) == len(routines)
    assert min(passed) > 20


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    for calculate in (inverse, lambda matrix: solution(matrix, np.eye(2))):
        with pytest.raises(ArithmeticError, match=r"not positive definite \(row 1\)"):
            calculate(np.array([[1.0, 2.0], [2.0, 1.0]]))
