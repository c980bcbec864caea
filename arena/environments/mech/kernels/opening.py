"""Opening the next match on a CPU, where one has ended."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.spawning import reopen_match, spawn_mech
from arena.environments.mech.kernels.state import Field, Hulls, State, Terrain

wp.set_module_options(MODULE_OPTIONS)


@wp.kernel
@no_type_check
def open_matches(s: State, h: Hulls, t: Terrain, f: Field) -> None:
    """Move every match that has ended on to its next seed, and place its mechs."""
    for e in range(s.hp.shape[0]):
        if s.ended[e]:
            reopen_match(s, t, e)
            for i in range(s.hp.shape[1]):
                spawn_mech(s, h, t, f, e, i)
