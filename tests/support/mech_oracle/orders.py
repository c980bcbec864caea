"""What mechs are told to do, and the smoke that they launch."""

import math
from dataclasses import dataclass

import numpy as np
from mech_oracle import chance
from mech_oracle.space import length
from mech_oracle.state import NOBODY, Books, Cloud, Mech, State, single
from mech_oracle.world import with_build

from arena.environments.mech.config.constants import (
    SMOKE_DECISIONS,
    SMOKE_DISTANCE,
    SMOKE_HEIGHT,
    SMOKE_SLOTS,
    TICK_S,
)
from arena.environments.mech.config.weapons import SMOKE, TIMERS, TRIGGERS

VENT, SPECIAL = TRIGGERS.index("vent"), TRIGGERS.index("special")
SMOKE_TIMER = TIMERS.index(SMOKE.timer)


@dataclass(frozen=True)
class Order:
    """One mech's action; heads that the composition has not are 0."""

    move: list[float]
    trigger: list[bool]
    target: int
    ewar: int
    build: int
    comm: list[float]

    @property
    def nan(self) -> int:
        """NaN floats in it."""
        return sum(math.isnan(value) for value in (*self.move, *self.comm))


def admit(state: State, orders: list[Order]) -> None:
    """Take everybody's orders."""
    state.books = Books(len(state.mechs))
    for mech, order in zip(state.mechs, orders, strict=True):
        mech.acted = mech.alive
        if state.world.config.builds > 1 and state.decision == 0 and mech.alive:
            _equip(state, mech, order.build)
        forward, strafe, vertical, yaw_rate = (_clean(value) for value in order.move)
        shrink = max(length((forward, strafe)), 1.0)
        mech.throttle = (forward / shrink, strafe / shrink)
        mech.lift = max(vertical, 0.0)
        mech.yaw = yaw_rate * mech.hull.type.max_yaw_rate * TICK_S
        mech.pulled = tuple(order.trigger)
        heed = chance.uniform(state.seed, chance.FIRE, state.tick, mech.hull.stream)
        mech.heeded = heed < state.fire_probability[mech.hull.side]
        mech.focus = _focus(state, mech, order.target)
        mech.ewar = order.ewar if mech.alive and mech.hull.type.ewar and 0 <= order.ewar <= 2 else 0
        mech.comm = [_clean(value) if mech.alive else 0.0 for value in order.comm]


def _equip(state: State, mech: Mech, option: int) -> None:
    config = state.world.config
    mech.hull = with_build(mech.hull, config, option if 0 <= option < config.builds else 0)
    mech.hp, mech.leg_hp = mech.hull.type.hp, mech.hull.type.leg_hp
    state.happened[f"build {mech.hull.build}"] += 1


def _clean(value: float) -> float:
    return 0.0 if math.isnan(value) else float(np.clip(value, -1.0, 1.0))


def _focus(state: State, mech: Mech, option: int) -> int:
    slots = state.contacts[mech.hull.index]
    if not 1 <= option <= len(slots):
        return NOBODY
    other = slots[option - 1]
    hostile = other != NOBODY and state.mechs[other].alive and state.mechs[other].hull.side != mech.hull.side
    return other if hostile else NOBODY


def launch_smoke(state: State) -> None:
    """Let clouds age, and launch new ones."""
    for clouds in state.smoke:
        for cloud in clouds:
            cloud.left = max(cloud.left - 1, 0)
    for mech in state.mechs:
        wants = mech.pulled[SPECIAL] and mech.heeded
        if mech.alive and not mech.shut_down and not mech.fallen and wants and mech.timers[SMOKE_TIMER] == 0:
            _launch(state, mech)


def _launch(state: State, mech: Mech) -> None:
    near, far = SMOKE_DISTANCE
    reach = near + (far - near) * chance.uniform(state.seed, chance.SMOKE, state.tick, mech.hull.stream)
    x, y = (mech.position[axis] + reach * mech.heading[axis] for axis in (0, 1))
    side = mech.hull.side
    slot = state.smoke_count[side] % SMOKE_SLOTS
    state.happened["cloud takes an old one's place"] += state.smoke[side][slot].left > 0
    state.smoke[side][slot] = Cloud((x, y, state.solid(x, y) + SMOKE_HEIGHT), SMOKE_DECISIONS)
    state.smoke_count[side] += 1
    mech.heat = single(mech.heat + SMOKE.heat)
    mech.timers[SMOKE_TIMER] = SMOKE.cooldown_ticks
