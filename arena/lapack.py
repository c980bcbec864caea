"""Routines of LAPACK that let other threads run meanwhile.

SciPy's own calls of them hold Python's lock: inverting the matrix of 5,000 players would stop every thread of a server
for seconds. These are the same routines of the same library, bit for bit, called without the lock.

Source: `scipy.linalg.cython_lapack`, whose capsules are SciPy's public way to its LAPACK.
"""

import ctypes

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_lapack

_LOWER = b"L"


def _routine(name: str) -> "ctypes._FuncPointer":
    """Return a routine of uplo, n, a, lda and info, all by address."""
    capsule = ctypes.py_object(cython_lapack.__pyx_capi__[name])
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    whole = ctypes.POINTER(ctypes.c_int)
    routine = ctypes.CFUNCTYPE(None, ctypes.c_char_p, whole, ctypes.c_void_p, whole, whole)
    return routine(address(capsule, signature(capsule)))


_dpotrf, _dpotri = _routine("dpotrf"), _routine("dpotri")


def inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverse of a positive definite matrix, (N, N), of which the lower triangle is read; it is overwritten.

    Raises:
        ArithmeticError: The matrix is not positive definite.
    """
    columns = np.asfortranarray(matrix)
    for routine in (_dpotrf, _dpotri):  # the triangular factor, and from it the inverse, in place
        size, failed = ctypes.c_int(len(columns)), ctypes.c_int()
        routine(_LOWER, size, columns.ctypes.data, size, failed)
        if failed.value:
            raise ArithmeticError(f"the matrix is not positive definite (row {failed.value - 1})")
    lower: NDArray[np.float64] = np.tril(columns)
    return lower + np.tril(lower, -1).T
