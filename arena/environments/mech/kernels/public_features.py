"""Public features of a mech, the same for every viewer: written once, then read by all that have it as a contact."""

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
HP, HEAT, STANDING, FALLEN, LEGGED, SHUTDOWN, FIRST_CHASSIS, EWAR, IN_ZONE = columns(
    0, CONTACT_FEATURES, f"hp heat stability fallen legged shutdown {next(iter(CLASSES))} ewar in_zone"
)


@device_function
def public_features_of(state: State, env: int, mech: int) -> Contact:
    """Public features of a mech as one vector."""
    return wp.array(ptr=state.public_features[env, mech].ptr, shape=(1,), dtype=Contact)[0]


@device_function
def write_public_features(state: State, hulls: Hulls, terrain: Terrain, env: int, mech: int) -> None:
    """Write the public features of a mech, and its loudness."""
    features = Contact()
    if alive(state, env, mech):
        features[HP] = share(state.hp[env, mech], hulls.hp[state.built[env, mech]])
        features[HEAT] = heat_share(state, hulls, env, mech)
        features[STANDING] = share(state.stability[env, mech], STABILITY)
        features[FALLEN] = flag(state.fallen_ticks[env, mech] > 0)
        features[LEGGED] = flag(state.leg_hp[env, mech] <= 0.0)
        features[SHUTDOWN] = flag(shut_down(state, hulls, env, mech))
        features[FIRST_CHASSIS + hulls.chassis[mech]] = 1.0
        features[EWAR] = flag(state.ewar[env, mech] != 0)
        features[IN_ZONE] = flag(in_zone(state, hulls, terrain, env, mech))
    wp.array(ptr=state.public_features[env, mech].ptr, shape=(1,), dtype=Contact)[0] = features
    state.loudness[env, mech] = wp.length(state.velocity[env, mech]) * hulls.acoustic_mass[mech]
