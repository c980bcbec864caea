"""Observation blocks sensors and panel: noise, jamming and team statistics."""

import warp as wp

from arena.environments.mech.config.constants import HIDDEN_NOISE
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.columns import PANEL, SENSORS, share
from arena.environments.mech.kernels.combat.targeting import painted_by_pack
from arena.environments.mech.kernels.geometry import alive, clear_sight, plane, to_frame
from arena.environments.mech.kernels.public_features import IN_ZONE
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.kernels.vision import BEST_QUALITY, apart_squared

wp.set_module_options(MODULE_OPTIONS)

LOUDEST = 5.0
"""Logarithm of the noise that reads as 1."""


@device_function
def quarter(place: wp.vec2) -> int:
    """Quarter of a position in the own frame: 0 ahead, 1 left, 2 behind, 3 right."""
    if wp.abs(place[1]) <= wp.abs(place[0]):
        return wp.where(place[0] >= 0.0, 0, 2)
    return wp.where(place[1] >= 0.0, 1, 3)


@device_function
def noise_of(state: State, env: int, mech: int, other: int) -> float:
    """Noise of an enemy at the mech."""
    noise = state.loudness[env, other] / (1.0 + apart_squared(state, env, mech, other))
    return noise * wp.where(clear_sight(state, env, mech, other), 1.0, HIDDEN_NOISE)


@device_function
def write_sensors(state: State, hulls: Hulls, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Block sensors, into a row of zeros."""
    row[SENSORS] = share(state.quality[env, mech], BEST_QUALITY)
    row[SENSORS + 1] = state.jam[env, mech]
    row[SENSORS + 2] = state.eccm[env, mech]
    noise = wp.vec4(0.0, 0.0, 0.0, 0.0)
    other = wp.int32(field.team_size * (1 - hulls.side[mech]))
    end = other + field.team_size
    while other < end:
        if alive(state, env, other):
            place = to_frame(plane(state.position[env, other] - state.position[env, mech]), state.heading[env, mech])
            noise[quarter(place)] += noise_of(state, env, mech, other)
        other += 1
    for k in range(4):
        if noise[k] > 0.0:
            row[SENSORS + 3 + k] = wp.min(wp.log(1.0 + noise[k]) / LOUDEST, 1.0)


@device_function
def write_panel(state: State, hulls: Hulls, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Block panel."""
    mates = wp.int32(0)
    friends = wp.int32(0)
    enemies = wp.int32(0)
    seen = wp.int32(0)
    painted = wp.int32(0)
    holding = wp.int32(0)
    own = field.team_size * hulls.side[mech]
    other = field.team_size - own
    rank = wp.int32(0)
    while rank < field.team_size:
        if alive(state, env, own + rank):
            friends += 1
            mates += wp.where(hulls.pack[own + rank] == hulls.pack[mech] and own + rank != mech, 1, 0)
            holding += wp.where(state.public_features[env, own + rank, IN_ZONE] > 0.0, 1, 0)
        if alive(state, env, other + rank):
            enemies += 1
            seen += wp.where(state.seen[env, mech, other + rank], 1, 0)
            painted += wp.where(painted_by_pack(state, hulls, env, mech, other + rank), 1, 0)
        rank += 1
    team = float(field.team_size)
    row[PANEL] = share(float(mates), float(wp.max(field.mates, 1)))
    row[PANEL + 1] = float(friends) / team
    row[PANEL + 2] = float(enemies) / team
    row[PANEL + 3] = float(seen) / team
    row[PANEL + 4] = float(painted) / team
    row[PANEL + 5] = float(holding) / team
