"""Geometry that several stages share."""

import warp as wp

from arena.environments.mech.config.constants import EYE_SHARE
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.state import CLEAR, Hulls, State

wp.set_module_options(MODULE_OPTIONS)


@device_function
def plane(vector: wp.vec3) -> wp.vec2:
    """Projection of a vector to the plane."""
    return wp.vec2(vector[0], vector[1])


@device_function
def to_frame(vector: wp.vec2, heading: wp.vec2) -> wp.vec2:
    """Components of a vector ahead of and to the left of a heading."""
    return wp.vec2(
        vector[0] * heading[0] + vector[1] * heading[1],
        vector[1] * heading[0] - vector[0] * heading[1],
    )


@device_function
def rotate(vector: wp.vec2, turn: wp.vec2) -> wp.vec2:
    """Rotate a vector left by the angle with the given cosine and sine."""
    return wp.vec2(
        vector[0] * turn[0] - vector[1] * turn[1],
        vector[0] * turn[1] + vector[1] * turn[0],
    )


@device_function
def centre(state: State, hulls: Hulls, env: int, mech: int) -> wp.vec3:
    """Middle of a mech's box."""
    return state.position[env, mech] + wp.vec3(0.0, 0.0, 0.5 * hulls.height[mech])


@device_function
def eyes(state: State, hulls: Hulls, env: int, mech: int) -> wp.vec3:
    """Position of a mech's eyes: the end point of lines of sight."""
    return state.position[env, mech] + wp.vec3(0.0, 0.0, EYE_SHARE * hulls.height[mech])


@device_function
def alive(state: State, env: int, mech: int) -> bool:
    """Whether a mech has hit points left."""
    return state.hp[env, mech] > 0.0


@device_function
def shut_down(state: State, hulls: Hulls, env: int, mech: int) -> bool:
    """Whether heat is over the capacity."""
    return state.heat[env, mech] > hulls.heat_capacity[mech]


@device_function
def hostile(state: State, hulls: Hulls, env: int, mech: int, other: int) -> bool:
    """Whether the other mech is a living enemy of the mech."""
    return hulls.side[other] != hulls.side[mech] and state.hp[env, other] > 0.0


@device_function
def clear_sight(state: State, env: int, mech: int, other: int) -> bool:
    """Whether the line between the eyes of two enemies was free when the decision began."""
    return state.sight[env, mech, other] == wp.uint8(CLEAR)


@device_function
def enemies_first(hulls: Hulls, mechs: int, mech: int, k: int) -> int:
    """Index of the k-th mech, enemies first and then the own side: both sides count in the same order."""
    other = k + wp.where(hulls.side[mech] == 0, mechs // 2, 0)
    return wp.where(other >= mechs, other - mechs, other)
