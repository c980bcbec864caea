"""Dense linear algebra of the fits: Cholesky solve and inverse by LAPACK without the GIL, and BLAS on one thread.

SciPy's wrappers hold the GIL: inverting the matrix of 5,000 players would stop every thread of a server for seconds.
This module calls the same routines of the same library, with bit-identical results, and releases the GIL.

Source: `scipy.linalg.cython_lapack`, whose capsules are SciPy's public access to its LAPACK.
"""

import ctypes
import threading

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack
from threadpoolctl import threadpool_limits

_LOWER = b"L"

_Integer = ctypes.POINTER(ctypes.c_int)
_Array = ctypes.c_void_p


def _routine(name: str, *arguments: type) -> "ctypes._FuncPointer":
    """Return a LAPACK routine with the parameters uplo, `arguments` and info, all passed by address."""
    capsule = ctypes.py_object(cython_lapack.__pyx_capi__[name])
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # CFUNCTYPE releases the GIL during the call, PYFUNCTYPE would hold it.
    routine = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *arguments, _Integer)
    return routine(address(capsule, signature(capsule)))


_dpotrf, _dpotri = (_routine(name, _Integer, _Array, _Integer) for name in ("dpotrf", "dpotri"))
_dposv = _routine("dposv", _Integer, _Integer, _Array, _Integer, _Array, _Integer)


def inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a positive definite (N, N) matrix; reads the lower triangle and overwrites the matrix.

    Raises:
        ArithmeticError: The matrix is not positive definite.
    """
    columns = np.asfortranarray(matrix)
    for routine in (_dpotrf, _dpotri):  # Cholesky factor, then the inverse from it, both in place
        size, failed = ctypes.c_int(len(columns)), ctypes.c_int()
        routine(_LOWER, size, columns.ctypes.data, size, failed)
        _require_definite(failed.value)
    # dpotri fills only the lower triangle.
    for place in range(len(columns)):
        columns[place, place + 1 :] = columns[place + 1 :, place]
    return columns.T


def solution(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution x, (N, K), of matrix x = right.

    Args:
        matrix: (N, N) positive definite. Only the lower triangle is read, and the matrix is overwritten.
        right: (N, K).

    Raises:
        ArithmeticError: The matrix is not positive definite.
    """
    columns, solved = np.asfortranarray(matrix), np.array(right, dtype=np.float64, order="F")
    size, sides, failed = ctypes.c_int(len(columns)), ctypes.c_int(solved.shape[1]), ctypes.c_int()
    _dposv(_LOWER, size, sides, columns.ctypes.data, size, solved.ctypes.data, size, failed)
    _require_definite(failed.value)
    return solved


def _require_definite(failed: int) -> None:
    if failed:
        raise ArithmeticError(f"the matrix is not positive definite (row {failed - 1})")


class _OneThread:
    """Limits BLAS to one thread while at least one fit runs, so that sums have the same bits in every process.

    The limit applies to the whole process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fits = 0
        self._limit: threadpool_limits | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._fits == 0:
                self._limit = threadpool_limits(1, user_api="blas")
            self._fits += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._fits -= 1
            # Fits may overlap in threads: the last one to end restores the limit.
            if self._fits == 0 and self._limit is not None:
                self._limit.restore_original_limits()


ONE_THREAD = _OneThread()
"""Context in which linear algebra runs on one thread."""
