"""At whom weapons fire, and which missiles are shot down."""

import math

from mech_oracle import chance
from mech_oracle.space import distance, dot, length, way
from mech_oracle.state import NOBODY, Mech, State

from arena.environments.mech.config.constants import (
    AMS_CHANCE,
    AMS_RANGE,
    AMS_TICKS,
    FOCUS_CONE_RAD,
    LOCK_QUALITY,
    MISSILE_SIGHT_RANGE,
    NEAREST_CONE_RAD,
)
from arena.environments.mech.config.weapons import AUTOCANNON, GAUSS, MISSILE, SHELL_SLOTS, TIMERS, WEAPONS, Weapon

GUNS = (GAUSS.name, AUTOCANNON.name)
SHELLS = (MISSILE.name, *GUNS)
Shot = tuple[Mech, int, int]
"""Shooter, weapon, and mech that it fires at; NOBODY straight ahead."""


def aim(state: State) -> list[Shot]:
    """Shots of this tick."""
    shots = []
    for mech in state.mechs:
        for w, trigger in mech.hull.triggers.items():
            weapon = state.world.weapons[w]
            ready = (
                mech.powered and mech.heeded and mech.pulled[trigger] and not mech.timers[TIMERS.index(weapon.timer)]
            )
            if ready and not (mech.fallen and weapon.name in SHELLS):
                target = _target(state, mech, weapon)
                if target != NOBODY or weapon.name in GUNS:
                    shots.append((mech, w, target))
    return shots


def _target(state: State, mech: Mech, weapon: Weapon) -> int:
    if weapon.name in GUNS:
        return _gun_target(state, mech, weapon)
    fits = [enemy for enemy in state.enemies(mech) if _fits(state, mech, weapon, enemy)]
    if any(enemy.hull.index == mech.focus for enemy in fits):
        state.happened["focus"] += 1
        return mech.focus
    return _nearest(state, mech, fits)


def _gun_target(state: State, mech: Mech, weapon: Weapon) -> int:
    within = [
        enemy
        for enemy in state.enemies(mech)
        if state.clear(mech.hull.index, enemy.hull.index) and _in_range(state, mech, enemy, weapon.range)
    ]
    if any(enemy.hull.index == mech.focus and _ahead(state, mech, enemy, FOCUS_CONE_RAD) for enemy in within):
        state.happened["gun's focus"] += 1
        return mech.focus
    return _nearest(state, mech, [enemy for enemy in within if _ahead(state, mech, enemy, NEAREST_CONE_RAD)])


def _fits(state: State, mech: Mech, weapon: Weapon, enemy: Mech) -> bool:
    if not _ahead(state, mech, enemy, weapon.half_arc_rad):
        return False
    clear = state.clear(mech.hull.index, enemy.hull.index)
    if weapon.name != MISSILE.name:
        return clear and _in_range(state, mech, enemy, weapon.range)
    lock = pack_paint(state, mech, enemy) and state.edges.at_most(
        LOCK_QUALITY, state.quality[mech.hull.index], "quality of a lock"
    )
    by_lock = lock and _in_range(state, mech, enemy, weapon.range)
    by_sight = clear and _in_range(state, mech, enemy, MISSILE_SIGHT_RANGE)
    state.happened["lock by paint alone"] += by_lock and not by_sight
    state.happened["lock by sight alone"] += by_sight and not by_lock
    return by_lock or by_sight


def pack_paint(state: State, mech: Mech, other: Mech) -> bool:
    """Whether somebody of a mech's pack painted the other."""
    painter = other.painted_by
    return painter != NOBODY and state.mechs[painter].hull.pack == mech.hull.pack


def _in_range(state: State, mech: Mech, enemy: Mech, reach: float) -> bool:
    return state.edges.at_most(distance(mech.centre, enemy.centre), reach, "range")


def _ahead(state: State, mech: Mech, enemy: Mech, angle: float) -> bool:
    across = way(mech.centre, enemy.centre)[:2]
    return state.edges.at_most(math.cos(angle) * length(across), dot(mech.heading, across), "arc")


def _nearest(state: State, mech: Mech, enemies: list[Mech]) -> int:
    far = [(distance(mech.centre, enemy.centre), enemy.hull.index) for enemy in enemies]
    return state.edges.first(far, "nearest")


def intercept(state: State) -> None:
    """Let anti-missile systems try for missiles; those that are hit are gone after all have tried."""
    gone = []
    for mech in state.mechs:
        if mech.alive and mech.hull.type.ams and mech.powered and mech.ams_ticks == 0:
            missile = _nearest_missile(state, mech)
            if missile != NOBODY:
                mech.ams_ticks = AMS_TICKS
                if chance.uniform(state.seed, chance.AMS, state.tick, mech.hull.stream) < AMS_CHANCE:
                    gone.append(missile)
                    state.books.intercepted[mech.hull.index] += 1
    state.happened["missile downed twice"] += len(gone) > len(set(gone))
    for missile in gone:
        owner, slot = divmod(missile, SHELL_SLOTS)
        state.mechs[owner].shells[slot] = None


def _nearest_missile(state: State, mech: Mech) -> int:
    found = []
    for owner in state.mechs:
        for slot, shell in enumerate(owner.shells):
            if owner.hull.side != mech.hull.side and shell is not None and WEAPONS[shell.weapon] is MISSILE:
                far = distance(mech.centre, shell.position)
                if state.edges.at_most(far, AMS_RANGE, "range of a missile"):
                    found.append((far, owner.hull.index * SHELL_SLOTS + slot))
    return state.edges.first(found, "nearest missile")
