"""Stages admit and smoke: what everybody wants to do in this decision."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import SMOKE, TIMERS, TRIGGERS
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import hostile, plane
from arena.environments.mech.kernels.ground import solid_height
from arena.environments.mech.kernels.randomness import FIRE as FIRE_DRAW
from arena.environments.mech.kernels.randomness import SMOKE as SMOKE_DRAW
from arena.environments.mech.kernels.randomness import uniform
from arena.environments.mech.kernels.state import Commands, Field, Hulls, State, Terrain
from arena.environments.mech.rules import (
    COMM_SIZE,
    EWAR_OPTIONS,
    MOVES,
    SMOKE_DECISIONS,
    SMOKE_DISTANCE,
    SMOKE_HEIGHT,
    SMOKE_SLOTS,
    TICK_S,
)

wp.set_module_options(MODULE_OPTIONS)

FORWARD, STRAFE, VERTICAL, YAW = (MOVES.index(name) for name in ("forward", "strafe", "vertical", "yaw_rate"))
SPECIAL = TRIGGERS.index("special")
LAST_EWAR = len(EWAR_OPTIONS) - 1
SMOKE_TIMER, SMOKE_WAIT, SMOKE_HEAT = TIMERS.index(SMOKE.timer), SMOKE.cooldown_ticks, SMOKE.heat
NEAREST, FARTHEST = SMOKE_DISTANCE


@wp.func(inline=True)
@no_type_check
def clear_books(s: State, e: int, i: int) -> None:
    """Forget whom mech i hurt in the last decision."""
    j = wp.int32(0)
    while j < s.hp.shape[1]:
        s.dealt[e, i, j] = 0.0
        s.killed[e, i, j] = 0.0
        s.assists[e, i, j] = 0.0
        j += 1
    s.booked[e, i] = False


@wp.func(inline=True)
@no_type_check
def open_books(s: State, e: int, i: int) -> None:
    """Nobody has done anything to anybody in this decision yet."""
    if s.booked[e, i]:
        clear_books(s, e, i)
    for w in range(s.offered.shape[2]):
        s.offered[e, i, w] = 0.0
        s.beams[e, i, w] = -1
    s.burnt[e, i] = 0.0
    s.downed[e, i] = 0
    s.paints[e, i] = 0
    s.hurt_from[e, i] = wp.vec2(0.0, 0.0)


@wp.func(inline=True)
@no_type_check
def admitted(s: State, value: float, e: int, i: int) -> float:
    """An action float within [-1, 1]; NaN is counted, and 0."""
    if value != value:
        s.nan_actions[e, i] = s.nan_actions[e, i] + wp.int64(1)
        return 0.0
    return wp.clamp(value, -1.0, 1.0)


@wp.func(inline=True)
@no_type_check
def admit_move(s: State, h: Hulls, c: Commands, e: int, i: int) -> None:
    """Take in where a mech wants to go and turn."""
    throttle = wp.vec2(
        admitted(s, c.move[e, i, FORWARD], e, i),
        admitted(s, c.move[e, i, STRAFE], e, i),
    )
    s.throttle[e, i] = throttle / wp.max(wp.length(throttle), 1.0)
    s.lift[e, i] = wp.max(admitted(s, c.move[e, i, VERTICAL], e, i), 0.0)
    angle = admitted(s, c.move[e, i, YAW], e, i) * h.max_yaw_rate[i] * TICK_S
    s.turn[e, i] = wp.vec2(wp.cos(angle), wp.sin(angle))


@wp.func(inline=True)
@no_type_check
def admitted_focus(s: State, h: Hulls, c: Commands, e: int, i: int) -> int:
    """Living enemy in the contact slot that a mech chose; -1 nobody."""
    option = c.target[e, i]
    if option < wp.int64(1) or option > wp.int64(s.contact.shape[2]):
        return -1
    j = s.contact[e, i, int(option) - 1]
    if j >= 0 and hostile(s, h, e, i, j):
        return j
    return -1


@wp.func(inline=True)
@no_type_check
def admitted_ewar(h: Hulls, c: Commands, e: int, i: int) -> int:
    """Electronic warfare that a living mech wants and can; 0 off."""
    option = c.ewar[e, i]
    if not h.ewar[i] or option < wp.int64(0) or option > wp.int64(LAST_EWAR):
        return 0
    return int(option)


@wp.func(inline=True)
@no_type_check
def heeds_triggers(s: State, h: Hulls, e: int, i: int) -> bool:
    """Whether a mech's triggers count in this decision."""
    probability = s.fire_probability[e, h.side[i]]
    if probability >= 1.0:
        return True
    return uniform(s.seeds[e], FIRE_DRAW, s.tick[e], h.stream[i]) < probability


@wp.func(inline=True)
@no_type_check
def admit_words(s: State, c: Commands, e: int, i: int, acted: bool) -> None:
    """Take in what a mech says; the dead say nothing."""
    for k in range(COMM_SIZE):
        word = admitted(s, c.comm[e, i, k], e, i)
        s.comm[e, i, k] = wp.where(acted, word, 0.0)


@wp.func(inline=True)
@no_type_check
def admit_mech(s: State, h: Hulls, f: Field, c: Commands, e: int, i: int) -> None:
    """Take in the decision's actions, and open its books."""
    acted = s.hp[e, i] > 0.0
    open_books(s, e, i)
    s.acted[e, i] = acted
    admit_move(s, h, c, e, i)
    if f.has_comms:
        admit_words(s, c, e, i, acted)
    s.focus[e, i] = -1
    s.ewar[e, i] = 0
    if acted:
        s.heeded[e, i] = heeds_triggers(s, h, e, i)
        s.focus[e, i] = admitted_focus(s, h, c, e, i)
        s.ewar[e, i] = admitted_ewar(h, c, e, i)


@wp.func(inline=True)
@no_type_check
def launches_smoke(s: State, h: Hulls, c: Commands, e: int, i: int) -> bool:
    """Whether a mech wants a cloud of smoke and can have it."""
    if not c.trigger[e, i, SPECIAL] or s.hp[e, i] <= 0.0 or not s.heeded[e, i]:
        return False
    return s.heat[e, i] <= h.heat_capacity[i] and s.fallen_ticks[e, i] == 0 and s.timers[e, i, SMOKE_TIMER] == 0


@wp.func(inline=True)
@no_type_check
def launch_cloud(s: State, h: Hulls, t: Terrain, e: int, i: int) -> None:
    """Hang a cloud ahead of mech i, in place of its side's oldest."""
    side = h.side[i]
    slot = s.smoke_count[e, side] % SMOKE_SLOTS
    distance = NEAREST + (FARTHEST - NEAREST) * uniform(s.seeds[e], SMOKE_DRAW, s.tick[e], h.stream[i])
    place = plane(s.position[e, i]) + s.heading[e, i] * distance
    s.smoke_centre[e, side, slot] = wp.vec3(place[0], place[1], solid_height(s, t, e, place) + SMOKE_HEIGHT)
    s.smoke_left[e, side, slot] = SMOKE_DECISIONS
    s.smoke_count[e, side] = s.smoke_count[e, side] + 1
    s.heat[e, i] = s.heat[e, i] + SMOKE_HEAT
    s.timers[e, i, SMOKE_TIMER] = SMOKE_WAIT


@wp.func(inline=True)
@no_type_check
def launch_smoke(s: State, h: Hulls, t: Terrain, c: Commands, e: int) -> None:
    """Let clouds hang one decision less, and hang those that are asked for."""
    for side in range(2):
        for slot in range(SMOKE_SLOTS):
            s.smoke_left[e, side, slot] = wp.max(s.smoke_left[e, side, slot] - 1, 0)
    for i in range(s.hp.shape[1]):
        if launches_smoke(s, h, c, e, i):
            launch_cloud(s, h, t, e, i)
