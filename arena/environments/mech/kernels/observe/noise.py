"""How far off a contact looks: four random numbers for every pair of mechs."""

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.native.rng_kernels import AHEAD_NOISE, absorb, mix

wp.set_module_options(MODULE_OPTIONS)

Streams = wp.types.vector(length=4, dtype=wp.uint64)
"""One state of the generator for each of AHEAD_NOISE, LEFT_NOISE, HP_NOISE and HEAT_NOISE."""


@device_function
def open_streams(seed: wp.int64, tick: int) -> Streams:
    """What `uniform` has absorbed before the key: the same for all pairs of a tick."""
    streams = Streams()
    state = mix(wp.uint64(seed) + wp.uint64(0x9E3779B97F4A7C15))
    for k in range(4):
        streams[k] = absorb(absorb(state, wp.int64(AHEAD_NOISE + k)), wp.int64(tick))
    return streams


@device_function
def draw_errors(streams: Streams, key: int) -> wp.vec4:
    """Four numbers in [-1, 1) for a pair: 2 u - 1 with the u of `uniform`."""
    errors = wp.vec4()
    for k in range(4):
        u = float(absorb(streams[k], wp.int64(key)) >> wp.uint64(40)) * wp.static(2.0**-24)
        errors[k] = 2.0 * u - 1.0
    return errors
