"""Counter-based random numbers in kernels, equal to `arena.environments.counter_rng`."""

import warp as wp

from arena.native.warp import MODULE_OPTIONS, device_function

wp.set_module_options(MODULE_OPTIONS)

ZONE, MAP, SIDEWAYS, DEPTH, HEADING, FIRE, SMOKE, LEG, AMS, WRECK = range(10)
AHEAD_NOISE, LEFT_NOISE, HP_NOISE, HEAT_NOISE, SPREAD = range(10, 15)
"""Purposes of random numbers."""


@device_function
def mix(word: wp.uint64) -> wp.uint64:
    """SplitMix64's finaliser."""
    first = (word ^ (word >> wp.uint64(30))) * wp.uint64(0xBF58476D1CE4E5B9)
    second = (first ^ (first >> wp.uint64(27))) * wp.uint64(0x94D049BB133111EB)
    return second ^ (second >> wp.uint64(31))


@device_function
def absorb(state: wp.uint64, key: wp.int64) -> wp.uint64:
    """Mix one integer key into the state."""
    return mix((state ^ mix(wp.uint64(key) + wp.uint64(1))) + wp.uint64(0x9E3779B97F4A7C15))


@device_function
def derive(seed: wp.int64, key: wp.int64) -> wp.int64:
    """Derive a seed from a parent seed and one key."""
    state = mix(wp.uint64(seed) + wp.uint64(0x9E3779B97F4A7C15))
    # 63 bits, because seeds are nonnegative 64-bit integers in databases and messages.
    return wp.int64(absorb(state, key) >> wp.uint64(1))


@device_function
def uniform(seed: wp.int64, purpose: int, tick: int, key: int) -> float:
    """Return a number in [0, 1) determined by a match's seed, the purpose, the tick and a key."""
    state = mix(wp.uint64(seed) + wp.uint64(0x9E3779B97F4A7C15))
    state = absorb(state, wp.int64(purpose))
    state = absorb(state, wp.int64(tick))
    state = absorb(state, wp.int64(key))
    # The 24 bits of a float32's significand, so that rounding never gives 1.
    return float(state >> wp.uint64(40)) * wp.static(2.0**-24)


@device_function
def pair_key(viewer_stream: int, other_stream: int) -> int:
    """Return the key of random numbers that depend on a pair of mechs."""
    return 64 * viewer_stream + other_stream
