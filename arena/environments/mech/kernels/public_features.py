"""What of a mech is the same for whoever looks at it: noted once, then read by all who have it among their contacts."""

import warp as wp

from arena.environments.mech.config.chassis import CLASSES, STABILITY
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.columns import columns, flag, heat_share, share
from arena.environments.mech.kernels.geometry import alive, shut_down
from arena.environments.mech.kernels.ground import in_zone
from arena.environments.mech.kernels.state import Hulls, State, Terrain
from arena.environments.mech.observation_spec import CONTACT_FEATURES

wp.set_module_options(MODULE_OPTIONS)

FEATURES = len(CONTACT_FEATURES)
Contact = wp.types.vector(length=FEATURES, dtype=wp.float32)
HP, HEAT, STANDING, FALLEN, LEGGED, SHUTDOWN, FIRST_KIND, EWAR, IN_ZONE = columns(
    0, CONTACT_FEATURES, f"hp heat stability fallen legged shutdown {next(iter(CLASSES))} ewar in_zone"
)


@device_function
def aspect_of(state: State, env: int, mech: int) -> Contact:
    """The aspect of a mech as one vector."""
    return wp.array(ptr=state.aspect[env, mech].ptr, shape=(1,), dtype=Contact)[0]


@device_function
def note_aspect(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> None:
    """Write down the aspect of a mech, and how loud it is."""
    aspect = Contact()
    if alive(state, env, mech):
        aspect[HP] = share(state.hp[env, mech], hulls.hp[mech])
        aspect[HEAT] = heat_share(state, hulls, env, mech)
        aspect[STANDING] = share(state.stability[env, mech], STABILITY)
        aspect[FALLEN] = flag(state.fallen_ticks[env, mech] > 0)
        aspect[LEGGED] = flag(state.leg_hp[env, mech] <= 0.0)
        aspect[SHUTDOWN] = flag(shut_down(state, hulls, env, mech))
        aspect[FIRST_KIND + hulls.kind[mech]] = 1.0
        aspect[EWAR] = flag(state.ewar[env, mech] != 0)
        aspect[IN_ZONE] = flag(in_zone(state, hulls, terrain, env, mech))
    wp.array(ptr=state.aspect[env, mech].ptr, shape=(1,), dtype=Contact)[0] = aspect
    state.loudness[env, mech] = wp.length(state.velocity[env, mech]) * hulls.acoustic_mass[mech]
