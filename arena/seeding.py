"""Seeds derived from seeds: the same on every platform, in every process, one by one or as arrays.

A derived seed depends on the parent seed and on every key in order. Keys name the purpose of the seed, so that two uses
of one parent never share a stream: `derive(seed, "rollout", 3)`.

Each key becomes a 64-bit word, integers as they are and strings as the first 8 bytes of their BLAKE2b hash, and is
absorbed by one round of SplitMix64's finaliser:

    state = mix(seed + GAMMA)
    state = mix((state XOR mix(word + kind)) + GAMMA)       for each key; kind keeps the integer 1 from the string "1"
    derived = state >> 1                                    63 bits: fits a signed 64-bit database column

Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014); constants of Java's
SplittableRandom.
"""

import functools
import hashlib
import operator

import numpy as np
from numpy.typing import NDArray

WORD_LIMIT = 2**64

_MASK = WORD_LIMIT - 1
_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_INTEGER_KEY = 0x1
_STRING_KEY = 0x5851F42D4C957F2D

Key = int | str
KeyArray = int | str | NDArray[np.integer]


def derive(seed: int, *keys: Key) -> int:
    """Derive a seed from a parent seed and the keys that name its use.

    Args:
        seed: Parent seed, in [0, 2^64).
        keys: Integers in [0, 2^64) or strings, order matters.

    Returns:
        The derived seed, in [0, 2^63).

    Raises:
        ValueError: The seed or an integer key is out of range.
    """
    state = _mix((_word("seed", seed) + _GAMMA) & _MASK)
    for key in keys:
        state = _mix(((state ^ _mix(_keyed_word(key))) + _GAMMA) & _MASK)
    return state >> 1


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
    gamma = np.uint64(_GAMMA)
    with np.errstate(over="ignore"):
        state = _mix_array(_words("seed", seed) + gamma)
        for key in keys:
            if isinstance(key, str):
                words = np.asarray(_keyed_word(key), dtype=np.uint64)
            else:
                words = _words("key", key) + np.uint64(_INTEGER_KEY)
            state = _mix_array((state ^ _mix_array(words)) + gamma)
        return (state >> np.uint64(1)).astype(np.int64)


def match_seed(lease_seed: int, sequence: int) -> int:
    """Return the seed of a lease's match number `sequence` (from 0), in [0, 2^63)."""
    return derive(lease_seed, "match", sequence)


def _word(name: str, value: int) -> int:
    word = operator.index(value)
    if not 0 <= word < WORD_LIMIT:
        raise ValueError(f"{name} is {word}: an integer must be in [0, 2^64); derive larger ones from a string")
    return word


def _keyed_word(key: Key) -> int:
    return _string_word(key) if isinstance(key, str) else (_word("key", key) + _INTEGER_KEY) & _MASK


@functools.lru_cache(maxsize=256)  # a few names are used over and over
def _string_word(key: str) -> int:
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") + _STRING_KEY) & _MASK


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * _MULTIPLIERS[0]) & _MASK
    word = ((word ^ (word >> 27)) * _MULTIPLIERS[1]) & _MASK
    return word ^ (word >> 31)


def _words(name: str, values: int | NDArray[np.integer]) -> NDArray[np.uint64]:
    if not isinstance(values, np.ndarray):
        return np.asarray(_word(name, values), dtype=np.uint64)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{name} has type {values.dtype}: pass whole numbers of an integer type")
    if values.dtype.kind == "i" and (values < 0).any():
        raise ValueError(f"{name} is {values.min()}: an integer must be in [0, 2^64)")
    return values.astype(np.uint64)


def _mix_array(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = words >> np.uint64(30)
    mixed ^= words
    mixed *= np.uint64(_MULTIPLIERS[0])
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(_MULTIPLIERS[1])
    mixed ^= mixed >> np.uint64(31)
    return mixed
