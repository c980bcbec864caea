"""Plane geometry that several stages share."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.state import State

wp.set_module_options(MODULE_OPTIONS)


@wp.func
@no_type_check
def to_frame(vector: wp.vec2, heading: wp.vec2) -> wp.vec2:
    """Components of a vector ahead of and to the left of a heading."""
    return wp.vec2(
        vector[0] * heading[0] + vector[1] * heading[1],
        vector[1] * heading[0] - vector[0] * heading[1],
    )


@wp.func
@no_type_check
def rotate(vector: wp.vec2, turn: wp.vec2) -> wp.vec2:
    """Turn a vector left by the angle whose cosine and sine are given."""
    return wp.vec2(
        vector[0] * turn[0] - vector[1] * turn[1],
        vector[0] * turn[1] + vector[1] * turn[0],
    )


@wp.func
@no_type_check
def in_zone(s: State, e: int, i: int) -> bool:
    """Whether a mech stands in the zone, whose centre is the origin."""
    return s.hp[e, i] > 0.0 and wp.length(s.position[e, i]) <= s.zone_radius[e]
