"""Shells in flight, and weapons that fire: what they do to whom is collected, and done in `resolving`."""

import math
from dataclasses import dataclass

from mech_oracle import chance
from mech_oracle.sensing import Shot, pack_paint
from mech_oracle.space import along, closest_fraction, distance, dot, ground_between, length, unit, way
from mech_oracle.state import NOBODY, Mech, Shell, State, single
from mech_oracle.world import Plane, Space

from arena.environments.mech.config.constants import (
    GRAVITY,
    LEG_HIT_BODY,
    LEG_HIT_CHANCE,
    MISSILE_BLEND,
    MISSILE_LOFT,
    PAINT_FACTOR,
    REAR_COSINE,
    REAR_FACTOR,
    TICK_S,
)
from arena.environments.mech.config.weapons import (
    AUTOCANNON,
    GAUSS,
    MISSILE,
    PAINTER,
    SHELL_SLOTS,
    TIMERS,
    WEAPONS,
    Weapon,
)


@dataclass
class Hit:
    """What one shot does to one mech."""

    shooter: Mech
    target: Mech
    weapon: int
    damage: float = 0.0
    leg_damage: float = 0.0
    shake: float = 0.0
    heat: float = 0.0
    pins: bool = False
    paints: bool = False


def fly(state: State) -> list[Hit]:
    """Move all shells through the tick."""
    hits = []
    for shooter in state.mechs:
        for slot, shell in enumerate(shooter.shells):
            if shell is not None:
                hits += _fly(state, shooter, slot, shell)
    return hits


def _fly(state: State, shooter: Mech, slot: int, shell: Shell) -> list[Hit]:
    _steer(state, shell)
    flight = tuple(part * TICK_S for part in shell.velocity)
    spent = state.edges.at_most(shell.reach, length(flight), "reach")
    share = min(1.0, shell.reach / length(flight))
    step = tuple(part * share for part in flight)
    start = shell.position
    shell.position = along(start, step, 1.0)
    shell.reach -= length(step)
    if spent:
        shooter.shells[slot] = None
    target, fraction = _first_in_the_way(state, shooter, start, step)
    stop = _stopped_by_ground(state, start, step)
    if target is not None and (stop is None or state.edges.at_most(fraction, stop, "mech or ground")):
        shooter.shells[slot] = None
        state.happened[f"{WEAPONS[shell.weapon].name} hits"] += 1
        direct = _direct_hit(state, shooter, target, shell.weapon, unit(step[:2]))
        return [direct, *_splash(state, shooter, shell.weapon, along(start, step, fraction), target)]
    if stop is not None:
        state.happened[f"{WEAPONS[shell.weapon].name} stopped"] += 1
        shooter.shells[slot] = None
        return _splash(state, shooter, shell.weapon, along(start, step, stop), None)
    return []


def _steer(state: State, shell: Shell) -> None:
    weapon = WEAPONS[shell.weapon]
    if weapon.name == MISSILE.name and state.mechs[shell.target].alive:
        direction, to_mark = unit(shell.velocity), unit(way(shell.position, state.mechs[shell.target].centre))
        blend = [(1.0 - MISSILE_BLEND) * a + MISSILE_BLEND * b for a, b in zip(direction, to_mark, strict=True)]
        shell.velocity = tuple(weapon.speed * part for part in unit(tuple(blend)))
    if weapon.name == GAUSS.name:
        x, y, z = shell.velocity
        shell.velocity = (x, y, z - GRAVITY * TICK_S)


def _first_in_the_way(state: State, shooter: Mech, start: Space, step: Space) -> tuple[Mech | None, float]:
    found = []
    for enemy in state.enemies(shooter):
        fraction = closest_fraction(start, step, enemy.centre)
        miss = distance(along(start, step, fraction), enemy.centre)
        if state.edges.at_most(miss, enemy.hull.type.hit_radius, "hit"):
            found.append((fraction, enemy.hull.index))
    first = state.edges.first(found, "first hit")
    return (None, 1.0) if first == NOBODY else (state.mechs[first], min(found)[0])


def _stopped_by_ground(state: State, start: Space, step: Space) -> float | None:
    """The first quarter of the way that ends in the ground or outside the map."""
    for quarter in (0.25, 0.5, 0.75, 1.0):
        x, y, z = along(start, step, quarter)
        inside = all(state.edges.at_most(abs(part), state.world.half, "edge of the map") for part in (x, y))
        if not inside or state.edges.below(z, state.solid(x, y), "shell in the ground"):
            return quarter
    return None


def _direct_hit(state: State, shooter: Mech, target: Mech, weapon: int, across: Plane) -> Hit:
    """Full damage; `across` is the unit way of the shot in the plane."""
    behind = state.edges.below(REAR_COSINE, dot(target.heading, across), "rear")
    state.happened["rear hit"] += behind
    factor = (REAR_FACTOR if behind else 1.0) * (PAINT_FACTOR if pack_paint(state, shooter, target) else 1.0)
    arm = state.world.weapons[weapon]
    return Hit(
        shooter, target, weapon, arm.damage * factor, 0.0, arm.shake, arm.target_heat, pins=arm.name == AUTOCANNON.name
    )


def _splash(state: State, shooter: Mech, weapon: int, point: Space, struck: Mech | None) -> list[Hit]:
    arm, hits = state.world.weapons[weapon], []
    if arm.splash_radius == 0.0:
        return []
    for mech in state.mechs:
        off = max(distance(point, mech.centre) - mech.hull.type.hit_radius, 0.0)
        if mech is struck or not mech.alive or not state.edges.below(off, arm.splash_radius, "splash"):
            continue
        blocked = ground_between(state, point, mech.centre, state.world.pool.solid)
        state.happened["splash blocked" if blocked else "splash"] += 1
        if not blocked:
            scale = arm.splash_scale * (1.0 - off / arm.splash_radius)
            hits.append(Hit(shooter, mech, weapon, arm.damage * scale, shake=arm.shake * scale))
    return hits


def fire(state: State, shots: list[Shot]) -> list[Hit]:
    """Fire the weapons of this tick."""
    hits = []
    for shooter, w, target in shots:
        weapon, error = state.world.weapons[w], _aim_error(state, shooter, w)
        shooter.heat = single(shooter.heat + weapon.heat)
        shooter.timers[TIMERS.index(weapon.timer)] = weapon.cooldown_ticks
        if weapon.speed > 0.0:
            _launch(state, shooter, w, target, error)
        elif _is_on_target(state, shooter, state.mechs[target], error):
            hits.append(_beam(state, shooter, w, state.mechs[target]))
    return hits


def _aim_error(state: State, shooter: Mech, w: int) -> float:
    """Angle by which a shot misses its aim to the left."""
    if WEAPONS[w] in (MISSILE, PAINTER):
        return 0.0
    rules = state.world.config.rules
    by_heat = rules.heat_spread * shooter.heat / shooter.hull.type.heat_capacity
    spread = rules.speed_spread * length(shooter.velocity[:2]) + by_heat
    return spread * chance.either_way(state.seed, chance.SPREAD, state.tick, 8 * shooter.hull.stream + w)


def _is_on_target(state: State, shooter: Mech, target: Mech, error: float) -> bool:
    beside = abs(error) * length(way(shooter.position, target.position)[:2])
    on_target = state.edges.at_most(beside, target.hull.type.hit_radius, "spread")
    state.happened["shot beside"] += not on_target
    return on_target


def _beam(state: State, shooter: Mech, w: int, target: Mech) -> Hit:
    across = unit(way(shooter.centre, target.centre)[:2])
    hit = _direct_hit(state, shooter, target, w, across)
    state.happened[f"{WEAPONS[w].name} hits"] += 1
    hit.paints = WEAPONS[w] is PAINTER
    if chance.uniform(state.seed, chance.LEG, state.tick, 8 * shooter.hull.stream + w) < LEG_HIT_CHANCE:
        state.happened["leg hit"] += hit.damage > 0.0
        hit.leg_damage, hit.damage = hit.damage, LEG_HIT_BODY * hit.damage
    state.books.hitscan_hits[shooter.hull.index, w] = target.hull.index
    return hit


def _launch(state: State, shooter: Mech, w: int, target: int, error: float) -> None:
    weapon = state.world.weapons[w]
    x, y, z = _muzzle_velocity(state, shooter, weapon, target)
    cosine, sine = math.cos(error), math.sin(error)
    velocity = (cosine * x - sine * y, sine * x + cosine * y, z)
    shooter.shells[_slot(state, shooter, weapon)] = Shell(shooter.centre, velocity, weapon.range, w, target)


def _muzzle_velocity(state: State, shooter: Mech, weapon: Weapon, target: int) -> Space:
    if target == NOBODY:
        x, y = shooter.heading
        return weapon.speed * x, weapon.speed * y, 0.0
    there = state.mechs[target].centre
    direction = unit(way(shooter.centre, there))
    if weapon.name == MISSILE.name:
        direction = unit((direction[0], direction[1], direction[2] + MISSILE_LOFT))
    x, y, z = (weapon.speed * part for part in direction)
    drop = 0.5 * GRAVITY * distance(shooter.centre, there) / weapon.speed if weapon.name == GAUSS.name else 0.0
    return x, y, z + drop


def _slot(state: State, shooter: Mech, weapon: Weapon) -> int:
    slots = {MISSILE.name: [0, 1], GAUSS.name: [2]}.get(weapon.name, list(range(SHELL_SLOTS)))
    free = [slot for slot in slots if shooter.shells[slot] is None]
    reaches = [(shell.reach, slot) for slot in slots if (shell := shooter.shells[slot]) is not None]
    state.happened["shell lost"] += not free
    return free[0] if free else state.edges.first(reaches, "shell to lose")
