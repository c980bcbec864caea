"""Geometry that several stages share."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.state import CLEAR, Hulls, State
from arena.environments.mech.rules import EYE_SHARE

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def plane(vector: wp.vec3) -> wp.vec2:
    """The part of a vector that lies in the plane."""
    return wp.vec2(vector[0], vector[1])


@wp.func(inline=True)
@no_type_check
def to_frame(vector: wp.vec2, heading: wp.vec2) -> wp.vec2:
    """Components of a vector ahead of and to the left of a heading."""
    return wp.vec2(
        vector[0] * heading[0] + vector[1] * heading[1],
        vector[1] * heading[0] - vector[0] * heading[1],
    )


@wp.func(inline=True)
@no_type_check
def rotate(vector: wp.vec2, turn: wp.vec2) -> wp.vec2:
    """Turn a vector left by the angle whose cosine and sine are given."""
    return wp.vec2(
        vector[0] * turn[0] - vector[1] * turn[1],
        vector[0] * turn[1] + vector[1] * turn[0],
    )


@wp.func(inline=True)
@no_type_check
def centre(s: State, h: Hulls, e: int, i: int) -> wp.vec3:
    """Middle of a mech's box."""
    return s.position[e, i] + wp.vec3(0.0, 0.0, 0.5 * h.height[i])


@wp.func(inline=True)
@no_type_check
def eyes(s: State, h: Hulls, e: int, i: int) -> wp.vec3:
    """Where a mech looks from, and what of it is looked at."""
    return s.position[e, i] + wp.vec3(0.0, 0.0, EYE_SHARE * h.height[i])


@wp.func(inline=True)
@no_type_check
def alive(s: State, e: int, i: int) -> bool:
    """Whether a mech has hit points left."""
    return s.hp[e, i] > 0.0


@wp.func(inline=True)
@no_type_check
def hostile(s: State, h: Hulls, e: int, i: int, j: int) -> bool:
    """Whether mech j is a living enemy of mech i."""
    return h.side[j] != h.side[i] and s.hp[e, j] > 0.0


@wp.func(inline=True)
@no_type_check
def clear_sight(s: State, e: int, i: int, j: int) -> bool:
    """Whether nothing lay between the eyes of two enemies when the decision began."""
    return s.sight[e, i, j] == wp.uint8(CLEAR)


@wp.func(inline=True)
@no_type_check
def enemies_first(h: Hulls, mechs: int, i: int, k: int) -> int:
    """Mech number k of all when mech i counts its enemies first, then its own side: the same order from either side."""
    j = k + wp.where(h.side[i] == 0, mechs // 2, 0)
    return wp.where(j >= mechs, j - mechs, j)
