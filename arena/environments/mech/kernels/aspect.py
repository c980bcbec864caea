"""What of a mech is the same for whoever looks at it: noted once, then read by all who have it among their contacts."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.classes import CLASSES, STABILITY
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import alive
from arena.environments.mech.kernels.ground import in_zone
from arena.environments.mech.kernels.rows import columns, flag, heat_share, share, shut_down
from arena.environments.mech.kernels.state import Hulls, State, Terrain
from arena.environments.mech.layout import CONTACT_FEATURES

wp.set_module_options(MODULE_OPTIONS)

FEATURES = len(CONTACT_FEATURES)
Contact = wp.types.vector(length=FEATURES, dtype=wp.float32)
HP, HEAT, STANDING, FALLEN, LEGGED, SHUTDOWN, FIRST_KIND, EWAR, IN_ZONE = columns(
    0, CONTACT_FEATURES, f"hp heat stability fallen legged shutdown {next(iter(CLASSES))} ewar in_zone"
)


@wp.func(inline=True)
@no_type_check
def aspect_of(s: State, e: int, i: int) -> Contact:
    """The aspect of a mech as one vector."""
    return wp.array(ptr=s.aspect[e, i].ptr, shape=(1,), dtype=Contact)[0]


@wp.func(inline=True)
@no_type_check
def note_aspect(s: State, h: Hulls, t: Terrain, e: int, i: int) -> None:
    """Write down the aspect of a mech, and how loud it is."""
    aspect = Contact()
    if alive(s, e, i):
        aspect[HP] = share(s.hp[e, i], h.hp[i])
        aspect[HEAT] = heat_share(s, h, e, i)
        aspect[STANDING] = share(s.stability[e, i], STABILITY)
        aspect[FALLEN] = flag(s.fallen_ticks[e, i] > 0)
        aspect[LEGGED] = flag(s.leg_hp[e, i] <= 0.0)
        aspect[SHUTDOWN] = flag(shut_down(s, h, e, i))
        aspect[FIRST_KIND + h.kind[i]] = 1.0
        aspect[EWAR] = flag(s.ewar[e, i] != 0)
        aspect[IN_ZONE] = flag(in_zone(s, h, t, e, i))
    wp.array(ptr=s.aspect[e, i].ptr, shape=(1,), dtype=Contact)[0] = aspect
    s.loudness[e, i] = wp.length(s.velocity[e, i]) * h.acoustic_mass[i]
