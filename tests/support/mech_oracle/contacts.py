"""Contacts and pack mates as a mech perceives them."""

import math

from mech_oracle import chance
from mech_oracle.scoring import holds_zone
from mech_oracle.sensing import pack_paint
from mech_oracle.space import distance, dot, length, to_frame, unit, way
from mech_oracle.state import NOBODY, Mech, State

from arena.environments.mech.config.chassis import CLASSES, STABILITY
from arena.environments.mech.config.constants import CONDITION_NOISE, POSITION_NOISE
from arena.environments.mech.observation_spec import CONTACT_FEATURES, MATE_FEATURES, SPEED_SCALE


def contact_slots(state: State, mech: Mech) -> list[int]:
    """Mechs in the contact slots: seen enemies, then friends of other packs, each by distance."""
    config = state.world.config
    seen = [state.mechs[j] for j in sorted(state.seen[mech.hull.index])]
    friends = [
        other
        for other in state.mechs
        if other.alive and other.hull.side == mech.hull.side and other.hull.pack != mech.hull.pack
    ]
    order = [
        index
        for group in (seen, friends)
        for index in state.edges.ranked(
            [(distance(mech.position, other.position), other.hull.index) for other in group], "order of contacts"
        )
    ]
    room = min(config.contacts, mech.hull.type.suite.slots)
    return (order[:room] + [NOBODY] * config.contacts)[: config.contacts]


def contact_values(state: State, mech: Mech, index: int) -> list[float]:
    """One contact's features."""
    if index == NOBODY:
        return [0.0] * len(CONTACT_FEATURES)
    other = state.mechs[index]
    type_, hostile = other.hull.type, other.hull.side != mech.hull.side
    diagonal = state.world.side * math.sqrt(2.0)
    ahead, left, up = _place(state, mech, other)
    far = length((ahead, left, up))
    relative = [theirs - own for theirs, own in zip(other.velocity, mech.velocity, strict=True)]
    velocity = (*to_frame(relative, mech.heading), relative[2])
    closing = -dot(unit(way(mech.position, other.position)), relative)
    hp = other.hp / type_.hp + _error(state, mech, other, chance.HP_NOISE, CONDITION_NOISE)
    heat = min(other.heat / type_.heat_capacity, 2.0) + _error(state, mech, other, chance.HEAT_NOISE, CONDITION_NOISE)
    return [
        *(part / diagonal for part in (ahead, left, up, far)),
        *(_clip(part / SPEED_SCALE, -1.0, 1.0) for part in (*velocity, closing)),
        *to_frame(other.heading, mech.heading),
        _clip(hp, 0.0, 1.0),
        _clip(heat, 0.0, 2.0),
        other.stability / STABILITY,
        other.fallen,
        other.legged,
        other.shut_down,
        hostile,
        *(name == type_.name for name in CLASSES),
        pack_paint(state, mech, other),
        state.clear(mech.hull.index, index),
        other.ewar != 0,
        holds_zone(state, other),
        mech.focus == index,
    ]


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _error(state: State, mech: Mech, other: Mech, purpose: int, size: float) -> float:
    """Noise of what is perceived of an enemy in partial mode."""
    if state.world.full_sight or mech.hull.side == other.hull.side:
        return 0.0
    key = chance.pair(mech.hull.stream, other.hull.stream)
    lack = 1.0 - mech.hull.type.suite.fidelity
    return size * lack * chance.either_way(state.seed, purpose, state.tick, key)


def _place(state: State, mech: Mech, other: Mech) -> tuple[float, float, float]:
    x, y, up = (there - here for there, here in zip(other.position, mech.position, strict=True))
    ahead, left = to_frame((x, y), mech.heading)
    size = POSITION_NOISE * length((x, y, up))
    ahead += _error(state, mech, other, chance.AHEAD_NOISE, size)
    left += _error(state, mech, other, chance.LEFT_NOISE, size)
    return ahead, left, up


def mate_values(state: State, mech: Mech, mate: Mech | None) -> list[float]:
    """One pack mate's features."""
    if mate is None:
        return [0.0] * len(MATE_FEATURES)
    diagonal = state.world.side * math.sqrt(2.0)
    x, y, up = (there - here for there, here in zip(mate.position, mech.position, strict=True))
    ahead, left = to_frame((x, y), mech.heading)
    return [
        *(part / diagonal for part in (ahead, left, up)),
        *to_frame(mate.heading, mech.heading),
        mate.hp / mate.hull.type.hp,
        min(mate.heat / mate.hull.type.heat_capacity, 2.0),
        mate.fallen,
        mate.shut_down,
        *(name == mate.hull.type.name for name in CLASSES),
    ]
