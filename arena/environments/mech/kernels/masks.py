"""Which actions matter: those that a tick of the next decision can heed."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import TIMERS, TRIGGERS
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import alive, hostile, plane
from arena.environments.mech.kernels.ground import grounded, material
from arena.environments.mech.kernels.movement import HAZARD_GAIN
from arena.environments.mech.kernels.rows import shut_down
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain, View
from arena.environments.mech.rules import COMM_SIZE, EWAR_OPTIONS, MOVES, TICK_S, TICKS_PER_DECISION

wp.set_module_options(MODULE_OPTIONS)

VERTICAL = MOVES.index("vertical")
VENT, SPECIAL = TRIGGERS.index("vent"), TRIGGERS.index("special")
SMOKE_TIMER = TIMERS.index("missile")
LATER_TICKS = float(TICKS_PER_DECISION - 1)
"""Ticks after the first one of a decision."""


@wp.func(inline=True)
@no_type_check
def most_cooling(s: State, h: Hulls, t: Terrain, e: int, i: int) -> float:
    """Heat that a mech without power can lose in a tick."""
    cooling = wp.float32(h.dissipation[i] * TICK_S)
    if not t.flat:
        gain = HAZARD_GAIN[material(s, t, e, plane(s.position[e, i]))]
        if gain < 0.0 or grounded(s, h, t, e, i):
            cooling -= gain
    return cooling


@wp.func(inline=True)
@no_type_check
def gets_power(s: State, h: Hulls, t: Terrain, e: int, i: int) -> bool:
    """Whether a mech lives and can be powered in a tick of the next decision."""
    if not alive(s, e, i):
        return False
    over = s.heat[e, i] - h.heat_capacity[i]
    return over <= 0.0 or over <= LATER_TICKS * most_cooling(s, h, t, e, i)


@wp.func(inline=True)
@no_type_check
def write_move_mask(h: Hulls, v: View, e: int, i: int, steers: bool) -> None:
    """Head move."""
    for k in range(wp.static(len(MOVES))):
        v.move[e, i, k] = steers and (k != VERTICAL or h.jet_acceleration[i] > 0.0)


@wp.func(inline=True)
@no_type_check
def write_trigger_mask(s: State, h: Hulls, a: Arms, v: View, e: int, i: int, powered: bool, stands: bool) -> None:
    """Head trigger."""
    for k in range(wp.static(len(TRIGGERS))):
        v.trigger[e, i, k] = powered and k == VENT
    if powered:
        slot = wp.int32(0)
        w = wp.int32(h.carried[i, 0])
        while w >= 0:
            k = h.trigger[i, w]
            if k >= 0 and s.timers[e, i, a.timer[w]] <= TICKS_PER_DECISION and (stands or a.speed[w] == 0.0):
                v.trigger[e, i, k] = True
            slot += 1
            w = h.carried[i, slot]
        now = not shut_down(s, h, e, i) and s.fallen_ticks[e, i] == 0
        v.trigger[e, i, SPECIAL] = now and s.timers[e, i, SMOKE_TIMER] == 0


@wp.func(inline=True)
@no_type_check
def write_target_mask(s: State, h: Hulls, v: View, e: int, i: int) -> None:
    """Head target: nobody, and the contacts that are living enemies."""
    v.target[e, i, 0] = True
    for slot in range(s.contact.shape[2]):
        j = s.contact[e, i, slot]
        v.target[e, i, slot + 1] = j >= 0 and hostile(s, h, e, i, j)


@wp.func(inline=True)
@no_type_check
def heard(s: State, h: Hulls, f: Field, e: int, i: int) -> bool:
    """Whether a mech lives and has a living pack mate."""
    if alive(s, e, i):
        first = f.team_size * h.side[i]
        for j in range(first, first + f.team_size):
            if j != i and h.pack[j] == h.pack[i] and alive(s, e, j):
                return True
    return False


@wp.func(inline=True)
@no_type_check
def write_masks(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, v: View, e: int, i: int) -> None:
    """The masks of all heads that the composition has."""
    powered = gets_power(s, h, t, e, i)
    stands = s.fallen_ticks[e, i] <= TICKS_PER_DECISION
    write_move_mask(h, v, e, i, powered and stands)
    write_trigger_mask(s, h, a, v, e, i, powered, stands)
    write_target_mask(s, h, v, e, i)
    if f.has_ewar:
        for option in range(wp.static(len(EWAR_OPTIONS))):
            v.ewar[e, i, option] = option == 0 or (powered and h.ewar[i])
    if f.has_comms:
        talks = heard(s, h, f, e, i)
        for k in range(COMM_SIZE):
            v.comm[e, i, k] = talks
