"""What a mech perceives, block by block of `layout.py`."""

import math

import numpy as np
from mech_oracle.contacts import contact_slots, contact_values, mate_values
from mech_oracle.looking import ECCM, ECM
from mech_oracle.scoring import holds_zone, to_zone, way_to_centre
from mech_oracle.sensing import pack_paint
from mech_oracle.space import distance, to_frame, unit
from mech_oracle.state import NOBODY, Mech, State
from mech_oracle.surroundings import local_map, noise

from arena.environments.mech.config.chassis import CLASSES, STABILITY
from arena.environments.mech.config.constants import (
    AMS_TICKS,
    COMM_SIZE,
    CRITICAL_HEAT,
    QUALITY_RANGE,
    TARGETED_RANGE,
)
from arena.environments.mech.config.weapons import MISSILE, SMOKE, TIMERS, WEAPONS
from arena.environments.mech.observation_spec import SPEED_SCALE, observation_blocks


def observe(state: State, mech: Mech) -> dict[str, np.ndarray]:
    """Values of every block; all 0 for the dead. Fills in its contact slots."""
    config = state.world.config
    state.contacts[mech.hull.index] = contact_slots(state, mech) if mech.alive else [NOBODY] * config.contacts
    sizes = {block.name: block.size for block in observation_blocks(config)}
    if not mech.alive:
        return {name: np.zeros(size) for name, size in sizes.items()}
    blocks = {
        "condition": condition(state, mech),
        "heat": [min(mech.heat / mech.hull.type.heat_capacity, 2.0)],
        "hull": hull(mech),
        "motion": motion(state, mech),
        "zone": zone(state, mech),
        "edge": edge(state, mech),
        "score": score(state, mech),
        "sensors": sensors(state, mech),
        "panel": panel(state, mech),
        **contact_blocks(state, mech),
    }
    if config.mates:
        blocks |= pack_blocks(state, mech)
    if not state.world.flat:
        blocks["local_map"] = local_map(state, mech)
    return {name: np.asarray(blocks[name], dtype=float).reshape(size) for name, size in sizes.items()}


def condition(state: State, mech: Mech) -> list[float]:
    type_, i = mech.hull.type, mech.hull.index
    enemies = state.enemies(mech)
    inbound = any(
        shell is not None and WEAPONS[shell.weapon] is MISSILE and shell.target == i
        for other in state.mechs
        if other.hull.side != mech.hull.side
        for shell in other.shells
    )
    targeted = any(
        state.clear(i, enemy.hull.index)
        and state.edges.at_most(distance(mech.position, enemy.position), TARGETED_RANGE, "targeted")
        for enemy in enemies
    )
    return [
        mech.hp / type_.hp,
        mech.leg_hp / type_.leg_hp,
        mech.stability / STABILITY,
        mech.shut_down,
        state.edges.below(CRITICAL_HEAT * type_.heat_capacity, mech.heat, "critical heat"),
        mech.fallen,
        mech.legged,
        state.books.hurt[i] > 0.0,
        targeted,
        mech.painted_by != NOBODY,
        inbound,
        mech.suppressed,
        holds_zone(state, mech),
        mech.ewar == ECM,
        mech.ewar == ECCM,
        *(ticks / _longest_wait(state, mech, timer) for ticks, timer in zip(mech.timers, TIMERS, strict=True)),
        mech.ams_ticks / AMS_TICKS,
    ]


def _longest_wait(state: State, mech: Mech, timer: str) -> int:
    loadout = state.world.config.loadout(mech.hull.type.name, mech.hull.build)
    carried = [weapon for weapon in (*state.world.weapons, SMOKE) if weapon.name in loadout]
    return max([weapon.cooldown_ticks for weapon in carried if weapon.timer == timer], default=1)


def hull(mech: Mech) -> list[float]:
    suite = mech.hull.type.suite
    one_hot = [float(name == mech.hull.type.name) for name in CLASSES]
    return [*one_hot, suite.slots / 20.0, (suite.range_factor - 0.8) / 0.7, suite.fidelity]


def scaled(speed: float) -> float:
    return min(max(speed / SPEED_SCALE, -1.0), 1.0)


def motion(state: State, mech: Mech) -> list[float]:
    ahead, left = to_frame(mech.velocity, mech.heading)
    hurt_from = unit(tuple(state.books.hurt_from[mech.hull.index]))
    return [scaled(ahead), scaled(left), scaled(mech.velocity[2]), *to_frame(hurt_from, mech.heading)]


def zone(state: State, mech: Mech) -> list[float]:
    side, (x, y, _) = state.world.side, mech.position
    ahead, left = to_frame((-x, -y), mech.heading)
    first, _ = way_to_centre(state, mech)
    route = min(to_zone(state, mech) / (2.0 * side), 1.0)
    return [ahead / side, left / side, state.zone_radius / side, *to_frame(first, mech.heading), route]


def edge(state: State, mech: Mech) -> list[float]:
    (hx, hy), (x, y, _) = mech.heading, mech.position
    values = []
    for way_x, way_y in ((hx, hy), (-hy, hx), (-hx, -hy), (hy, -hx)):
        reach = [
            (state.world.half - math.copysign(1.0, part) * place) / abs(part)
            for part, place in ((way_x, x), (way_y, y))
            if part != 0.0
        ]
        values.append(min(min(reach) / state.world.side, 1.0))
    return values


def score(state: State, mech: Mech) -> list[float]:
    own, other = mech.hull.side, 1 - mech.hull.side
    config = state.world.config
    return [
        state.zone_tick[own],
        state.zone_tick[other],
        min(state.zone_s[own] / config.zone_goal_s, 1.0),
        min(state.zone_s[other] / config.zone_goal_s, 1.0),
        state.decision / config.max_decisions,
    ]


def sensors(state: State, mech: Mech) -> list[float]:
    i = mech.hull.index
    return [state.quality[i] / QUALITY_RANGE[1], state.jam[i], state.eccm[i], *noise(state, mech)]


def panel(state: State, mech: Mech) -> list[float]:
    size = len(state.world.config.team)
    friends = [other for other in state.mechs if other.alive and other.hull.side == mech.hull.side]
    mates = [other for other in friends if other.hull.pack == mech.hull.pack and other is not mech]
    enemies = state.enemies(mech)
    return [
        len(mates) / max(state.world.config.mates, 1),
        len(friends) / size,
        len(enemies) / size,
        len(state.seen[mech.hull.index]) / size,
        sum(pack_paint(state, mech, enemy) for enemy in enemies) / size,
        sum(holds_zone(state, friend) for friend in friends) / size,
    ]


def contact_blocks(state: State, mech: Mech) -> dict[str, list]:
    slots = state.contacts[mech.hull.index]
    return {
        "contacts": [contact_values(state, mech, other) for other in slots],
        "contact_mask": [other != NOBODY for other in slots],
        "build": shown_build(state, mech, mech),
        "contact_builds": [shown_build(state, mech, None if o == NOBODY else state.mechs[o]) for o in slots],
    }


def shown_build(state: State, mech: Mech, other: Mech | None) -> list[bool]:
    """The build of a mech, as far as another one knows it."""
    known = other is not None and state.decision > 0
    if known and other.hull.side != mech.hull.side:
        known = (mech.hull.index, other.hull.index) in state.recognised
    return [known and other.hull.build == build for build in range(state.world.config.builds)]


def pack_blocks(state: State, mech: Mech) -> dict[str, list]:
    mates = [o for o in state.mechs if o.hull.pack == mech.hull.pack and o is not mech]
    slots = [*mates, *[None] * (state.world.config.mates - len(mates))]
    living = [mate if mate is not None and mate.alive else None for mate in slots]
    return {
        "pack": [mate_values(state, mech, mate) for mate in living],
        "pack_mask": [mate is not None for mate in living],
        "pack_builds": [shown_build(state, mech, mate) for mate in living],
        "comms": [mate.comm if mate is not None else [0.0] * COMM_SIZE for mate in living],
    }
