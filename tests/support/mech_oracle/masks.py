"""Which actions a tick of the next decision can heed."""

import numpy as np
from mech_oracle.orders import SMOKE_TIMER, SPECIAL, VENT
from mech_oracle.sensing import SHELLS
from mech_oracle.state import NOBODY, Mech, State

from arena.environments.mech.config.constants import FOOT_CLEARANCE, HAZARD_HEAT, MOVES, TICK_S, TICKS_PER_DECISION
from arena.environments.mech.config.weapons import TIMERS, TRIGGERS, WEAPONS
from arena.environments.mech.observation_spec import action_heads


def masks(state: State, mech: Mech) -> dict[str, np.ndarray]:
    """Mask of every head of the composition."""
    sizes = {head.name: head.size for head in action_heads(state.world.config)}
    mask = {name: np.zeros(size, dtype=bool) for name, size in sizes.items()}
    for name in ("target", "ewar", "build"):
        if name in mask:
            mask[name][0] = True
    if mech.alive:
        _fill(state, mech, mask)
    return mask


def _fill(state: State, mech: Mech, mask: dict[str, np.ndarray]) -> None:
    awake = not _shut_down_throughout(state, mech)
    up = mech.fallen_ticks <= TICKS_PER_DECISION
    mask["move"][:] = awake and up
    mask["move"][MOVES.index("vertical")] &= mech.hull.type.jet_acceleration > 0.0
    mask["trigger"][:] = [awake and _matters(mech, trigger, up) for trigger in range(len(TRIGGERS))]
    mask["trigger"][SPECIAL] = mech.timers[SMOKE_TIMER] == 0 and not mech.shut_down and not mech.fallen
    for slot, other in enumerate(state.contacts[mech.hull.index]):
        hostile = other != NOBODY and state.mechs[other].hull.side != mech.hull.side
        mask["target"][1 + slot] = hostile and state.mechs[other].alive
    if "ewar" in mask:
        mask["ewar"][1:] = awake and mech.hull.type.ewar
    if "build" in mask:
        mask["build"][:] |= state.decision == 0
    if "comm" in mask:
        mask["comm"][:] = any(o.alive and o.hull.pack == mech.hull.pack and o is not mech for o in state.mechs)


def _shut_down_throughout(state: State, mech: Mech) -> bool:
    """Whether it is too hot even in the last tick; who is in the air may fall into water, but not into lava."""
    if not mech.shut_down:
        return False
    x, y, z = mech.position
    hazard = HAZARD_HEAT[state.material(x, y)]
    if hazard > 0.0 and z - state.ground(mech, x, y) > FOOT_CLEARANCE:
        hazard = 0.0
    cooled = mech.heat + (TICKS_PER_DECISION - 1) * TICK_S * (hazard - mech.hull.type.dissipation)
    return not state.edges.at_most(cooled, mech.hull.type.heat_capacity, "shut down throughout")


def _matters(mech: Mech, trigger: int, up: bool) -> bool:
    return trigger == VENT or any(
        fires == trigger
        and mech.timers[TIMERS.index(WEAPONS[w].timer)] <= TICKS_PER_DECISION
        and (up or WEAPONS[w].name not in SHELLS)
        for w, fires in mech.hull.triggers.items()
    )
