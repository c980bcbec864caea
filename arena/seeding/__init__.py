"""Seeds derived from seeds: the same on every platform, in every process, one by one or as arrays (`arrays`).

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

WORD_LIMIT = 2**64

_MASK = WORD_LIMIT - 1
GAMMA = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, odd
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
INTEGER_KEY = 0x1
_STRING_KEY = 0x5851F42D4C957F2D  # any other constant than INTEGER_KEY keeps "1" apart from 1

Key = int | str


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
    state = _mix((seed_word("seed", seed) + GAMMA) & _MASK)
    for key in keys:
        state = _mix(((state ^ _mix(keyed_word(key))) + GAMMA) & _MASK)
    return state >> 1


def match_seed(lease_seed: int, sequence: int) -> int:
    """Return the seed of a lease's match number `sequence` (from 0), in [0, 2^63)."""
    return derive(lease_seed, "match", sequence)


def seed_word(name: str, value: int) -> int:
    """Check that a seed or an integer key, called `name` in the error, is in [0, 2^64)."""
    word = operator.index(value)
    if not 0 <= word < WORD_LIMIT:
        raise ValueError(f"{name} is {word}: an integer must be in [0, 2^64); derive larger ones from a string")
    return word


def keyed_word(key: Key) -> int:
    """Return the 64-bit word of a key."""
    return _string_word(key) if isinstance(key, str) else (seed_word("key", key) + INTEGER_KEY) & _MASK


@functools.lru_cache(maxsize=256)  # a few names are used over and over
def _string_word(key: str) -> int:
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") + _STRING_KEY) & _MASK


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * MULTIPLIERS[0]) & _MASK
    word = ((word ^ (word >> 27)) * MULTIPLIERS[1]) & _MASK
    return word ^ (word >> 31)
