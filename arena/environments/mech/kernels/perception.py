"""Stage observe: what every mech perceives, and which actions matter."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.contacts import clear_contacts, write_contacts
from arena.environments.mech.kernels.ego import write_ego
from arena.environments.mech.kernels.geometry import alive
from arena.environments.mech.kernels.masks import write_masks
from arena.environments.mech.kernels.mates import write_pack
from arena.environments.mech.kernels.rows import clear
from arena.environments.mech.kernels.sensors import write_panel, write_sensors
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain, View
from arena.environments.mech.kernels.surroundings import write_local_map

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def observe_mech(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, v: View, e: int, i: int) -> None:
    """Write everything that a mech perceives, which is nothing for the dead; every float of its row is written."""
    row = wp.array(ptr=v.values[e, i].ptr, shape=(v.values.shape[2],), dtype=wp.float32)
    clear(row)
    lives = alive(s, e, i)
    v.active[e, i] = lives
    clear_contacts(s, e, i)
    if lives:
        write_ego(s, h, t, f, row, e, i)
        write_sensors(s, h, f, row, e, i)
        write_panel(s, h, f, row, e, i)
        write_contacts(s, h, f, row, e, i)
        write_pack(s, h, f, row, e, i)
        write_local_map(s, h, t, f, row, e, i)
    write_masks(s, h, a, t, f, v, e, i)
