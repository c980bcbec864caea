"""Observation blocks pack, pack_mask and comms: mates of the own pack and their messages."""

import warp as wp

from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import COMM_SIZE
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.columns import address, columns, signed
from arena.environments.mech.kernels.geometry import alive, plane, to_frame
from arena.environments.mech.kernels.public_features import FALLEN, FIRST_CHASSIS, HEAT, HP, SHUTDOWN
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.observation_spec import MATE_FEATURES

wp.set_module_options(MODULE_OPTIONS)

FEATURES = len(MATE_FEATURES)
Words = wp.types.vector(length=COMM_SIZE, dtype=wp.float32)
AHEAD, LEFT, UP, FACING_AHEAD, FACING_LEFT, MATE_HP, MATE_HEAT, MATE_FALLEN, MATE_SHUTDOWN, MATE_KIND = columns(
    0, MATE_FEATURES, f"ahead left up facing_ahead facing_left hp heat fallen shutdown {next(iter(CLASSES))}"
)


@device_function
def write_mate(mate: wp.array[wp.float32], state: State, field: Field, env: int, mech: int, other: int) -> None:
    """Write the features of a pack mate in the frame of the mech."""
    apart = state.position[env, other] - state.position[env, mech]
    place = to_frame(plane(apart), state.heading[env, mech])
    facing = to_frame(state.heading[env, other], state.heading[env, mech])
    per_diagonal = wp.static(0.5 * 0.5**0.5) / field.half_side
    mate[AHEAD] = signed(place[0] * per_diagonal)
    mate[LEFT] = signed(place[1] * per_diagonal)
    mate[UP] = signed(apart[2] * per_diagonal)
    mate[FACING_AHEAD] = signed(facing[0])
    mate[FACING_LEFT] = signed(facing[1])
    mate[MATE_HP] = state.public_features[env, other, HP]
    mate[MATE_HEAT] = state.public_features[env, other, HEAT]
    mate[MATE_FALLEN] = state.public_features[env, other, FALLEN]
    mate[MATE_SHUTDOWN] = state.public_features[env, other, SHUTDOWN]
    for k in range(wp.static(len(CLASSES))):
        mate[MATE_KIND + k] = state.public_features[env, other, FIRST_CHASSIS + k]


@device_function
def message_of(state: State, env: int, other: int) -> Words:
    """Last message of the other mech."""
    return wp.array(ptr=state.comm[env, other].ptr, shape=(1,), dtype=Words)[0]


@device_function
def write_pack(state: State, hulls: Hulls, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Write all three blocks, if the composition has them, into a row of zeros: mates in the order of the pack."""
    if field.mates == 0:
        return
    words = wp.array(ptr=address(row, field.column_comms), shape=(field.mates,), dtype=Words)
    slot = wp.int32(0)
    for rank in range(field.team_size):
        other = field.team_size * hulls.side[mech] + rank
        if other != mech and hulls.pack[other] == hulls.pack[mech]:
            if alive(state, env, other):
                column = field.column_pack + FEATURES * slot
                write_mate(
                    wp.array(ptr=address(row, column), shape=(FEATURES,), dtype=wp.float32),
                    state,
                    field,
                    env,
                    mech,
                    other,
                )
                words[slot] = message_of(state, env, other)
                row[field.column_pack_mask + slot] = 1.0
                if field.column_pack_builds >= 0 and state.decision[env] > 0:
                    first = field.column_pack_builds + field.builds * slot
                    row[first + state.built[env, other] // state.hp.shape[1]] = 1.0
            slot += 1
