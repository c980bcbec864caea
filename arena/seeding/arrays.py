"""Seeds of whole arrays at once, equal to those of `arena.seeding`, which needs no NumPy."""

import numpy as np
from numpy.typing import NDArray

from arena.seeding import GAMMA, INTEGER_KEY, MULTIPLIERS, keyed_word, seed_word

KeyArray = int | str | NDArray[np.integer]


def derive_array(seed: int | NDArray[np.integer], *keys: KeyArray) -> NDArray[np.int64]:
    """Derive seeds for whole arrays at once; entry by entry equal to `derive`.

    Args:
        seed: Parent seed or array of parent seeds, each in [0, 2^64).
        keys: Strings, integers or integer arrays; seed and keys broadcast against each other.

    Returns:
        Derived seeds in [0, 2^63), of the broadcast shape.

    Raises:
        ValueError: A seed or an integer key is out of range.
    """
    gamma = np.uint64(GAMMA)
    with np.errstate(over="ignore"):
        state = _mix_array(_words("seed", seed) + gamma)
        for key in keys:
            if isinstance(key, str):
                words = np.asarray(keyed_word(key), dtype=np.uint64)
            else:
                words = _words("key", key) + np.uint64(INTEGER_KEY)
            state = _mix_array((state ^ _mix_array(words)) + gamma)
        return (state >> np.uint64(1)).astype(np.int64)


def _words(name: str, values: int | NDArray[np.integer]) -> NDArray[np.uint64]:
    if not isinstance(values, np.ndarray):
        return np.asarray(seed_word(name, values), dtype=np.uint64)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} has type {values.dtype}: pass whole numbers of an integer type")
    if values.dtype.kind == "i" and (values < 0).any():
        raise ValueError(f"{name} is {values.min()}: an integer must be in [0, 2^64)")
    return values.astype(np.uint64)


def _mix_array(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = words >> np.uint64(30)
    mixed ^= words
    mixed *= np.uint64(MULTIPLIERS[0])
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(MULTIPLIERS[1])
    mixed ^= mixed >> np.uint64(31)
    return mixed
