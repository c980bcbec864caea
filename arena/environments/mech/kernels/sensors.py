"""Blocks sensors and panel: what a mech hears and is told."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.aspect import IN_ZONE
from arena.environments.mech.kernels.geometry import alive, clear_sight, plane, to_frame
from arena.environments.mech.kernels.rows import PANEL, SENSORS, share
from arena.environments.mech.kernels.sight import BEST_QUALITY, apart_squared
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.kernels.targeting import painted_by_pack
from arena.environments.mech.rules import HIDDEN_NOISE

wp.set_module_options(MODULE_OPTIONS)

LOUDEST = 5.0
"""Logarithm of the noise that reads as 1."""


@wp.func(inline=True)
@no_type_check
def quarter(place: wp.vec2) -> int:
    """0 ahead, 1 left, 2 behind, 3 right, of a place in the own frame."""
    if wp.abs(place[1]) <= wp.abs(place[0]):
        return wp.where(place[0] >= 0.0, 0, 2)
    return wp.where(place[1] >= 0.0, 1, 3)


@wp.func(inline=True)
@no_type_check
def noise_of(s: State, e: int, i: int, j: int) -> float:
    """How loud enemy j is at mech i."""
    noise = s.loudness[e, j] / (1.0 + apart_squared(s, e, i, j))
    return noise * wp.where(clear_sight(s, e, i, j), 1.0, HIDDEN_NOISE)


@wp.func(inline=True)
@no_type_check
def write_sensors(s: State, h: Hulls, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Block sensors, into a row of zeros."""
    row[SENSORS] = share(s.quality[e, i], BEST_QUALITY)
    row[SENSORS + 1] = s.jam[e, i]
    row[SENSORS + 2] = s.eccm[e, i]
    noise = wp.vec4(0.0, 0.0, 0.0, 0.0)
    j = wp.int32(f.team_size * (1 - h.side[i]))
    end = j + f.team_size
    while j < end:
        if alive(s, e, j):
            place = to_frame(plane(s.position[e, j] - s.position[e, i]), s.heading[e, i])
            noise[quarter(place)] += noise_of(s, e, i, j)
        j += 1
    for k in range(4):
        if noise[k] > 0.0:
            row[SENSORS + 3 + k] = wp.min(wp.log(1.0 + noise[k]) / LOUDEST, 1.0)


@wp.func(inline=True)
@no_type_check
def write_panel(s: State, h: Hulls, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Block panel."""
    mates = wp.int32(0)
    friends = wp.int32(0)
    enemies = wp.int32(0)
    seen = wp.int32(0)
    painted = wp.int32(0)
    holding = wp.int32(0)
    own = f.team_size * h.side[i]
    other = f.team_size - own
    rank = wp.int32(0)
    while rank < f.team_size:
        if alive(s, e, own + rank):
            friends += 1
            mates += wp.where(h.pack[own + rank] == h.pack[i] and own + rank != i, 1, 0)
            holding += wp.where(s.aspect[e, own + rank, IN_ZONE] > 0.0, 1, 0)
        if alive(s, e, other + rank):
            enemies += 1
            seen += wp.where(s.seen[e, i, other + rank], 1, 0)
            painted += wp.where(painted_by_pack(s, h, e, i, other + rank), 1, 0)
        rank += 1
    team = float(f.team_size)
    row[PANEL] = share(float(mates), float(wp.max(f.mates, 1)))
    row[PANEL + 1] = float(friends) / team
    row[PANEL + 2] = float(enemies) / team
    row[PANEL + 3] = float(seen) / team
    row[PANEL + 4] = float(painted) / team
    row[PANEL + 5] = float(holding) / team
