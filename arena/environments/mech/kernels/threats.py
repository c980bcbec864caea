"""What a mech feels of those who are after it."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.armament import SHELL_SLOTS
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import alive, clear_sight
from arena.environments.mech.kernels.sight import apart_squared
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.kernels.targeting import MISSILE
from arena.environments.mech.rules import TARGETED_RANGE

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def under_fire(s: State, e: int, i: int) -> bool:
    """Whether a mech lost hit points in the last decision."""
    hurt = wp.bool(s.burnt[e, i] > 0.0)
    j = wp.int32(0)
    while j < s.hp.shape[1]:
        hurt = hurt or (s.booked[e, j] and s.dealt[e, j, i] > 0.0)
        j += 1
    return hurt


@wp.func(inline=True)
@no_type_check
def targeted(s: State, h: Hulls, f: Field, e: int, i: int) -> bool:
    """Whether a living enemy is near, in clear sight."""
    j = wp.int32(f.team_size * (1 - h.side[i]))
    end = j + f.team_size
    while j < end:
        near = clear_sight(s, e, i, j) and apart_squared(s, e, i, j) <= wp.static(TARGETED_RANGE**2)
        if near and alive(s, e, j):
            return True
        j += 1
    return False


@wp.func(inline=True)
@no_type_check
def hunted(s: State, h: Hulls, f: Field, e: int, i: int) -> bool:
    """Whether an enemy's missile is on its way to a mech."""
    j = wp.int32(f.team_size * (1 - h.side[i]))
    end = j + f.team_size
    while j < end:
        if h.trigger[j, MISSILE] >= 0:
            for slot in range(SHELL_SLOTS):
                flies = s.shell_reach[e, j, slot] > 0.0 and s.shell_kind[e, j, slot] == MISSILE
                if flies and s.shell_mark[e, j, slot] == i:
                    return True
        j += 1
    return False
