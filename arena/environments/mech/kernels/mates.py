"""Blocks pack, pack_mask and comms: the mates of the own pack and what they said."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.classes import CLASSES
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.aspect import FALLEN, FIRST_KIND, HEAT, HP, SHUTDOWN
from arena.environments.mech.kernels.geometry import alive, plane, to_frame
from arena.environments.mech.kernels.rows import address, columns, signed
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.layout import MATE_FEATURES
from arena.environments.mech.rules import COMM_SIZE

wp.set_module_options(MODULE_OPTIONS)

FEATURES = len(MATE_FEATURES)
Words = wp.types.vector(length=COMM_SIZE, dtype=wp.float32)
AHEAD, LEFT, UP, FACING_AHEAD, FACING_LEFT, MATE_HP, MATE_HEAT, MATE_FALLEN, MATE_SHUTDOWN, MATE_KIND = columns(
    0, MATE_FEATURES, f"ahead left up facing_ahead facing_left hp heat fallen shutdown {next(iter(CLASSES))}"
)


@wp.func(inline=True)
@no_type_check
def write_mate(mate: wp.array[wp.float32], s: State, f: Field, e: int, i: int, j: int) -> None:
    """Features of pack mate j in the frame of mech i."""
    apart = s.position[e, j] - s.position[e, i]
    place = to_frame(plane(apart), s.heading[e, i])
    facing = to_frame(s.heading[e, j], s.heading[e, i])
    per_diagonal = wp.static(0.5 * 0.5**0.5) / f.half_side
    mate[AHEAD] = signed(place[0] * per_diagonal)
    mate[LEFT] = signed(place[1] * per_diagonal)
    mate[UP] = signed(apart[2] * per_diagonal)
    mate[FACING_AHEAD] = signed(facing[0])
    mate[FACING_LEFT] = signed(facing[1])
    mate[MATE_HP] = s.aspect[e, j, HP]
    mate[MATE_HEAT] = s.aspect[e, j, HEAT]
    mate[MATE_FALLEN] = s.aspect[e, j, FALLEN]
    mate[MATE_SHUTDOWN] = s.aspect[e, j, SHUTDOWN]
    for k in range(wp.static(len(CLASSES))):
        mate[MATE_KIND + k] = s.aspect[e, j, FIRST_KIND + k]


@wp.func(inline=True)
@no_type_check
def words_of(s: State, e: int, j: int) -> Words:
    """What mech j said last."""
    return wp.array(ptr=s.comm[e, j].ptr, shape=(1,), dtype=Words)[0]


@wp.func(inline=True)
@no_type_check
def write_pack(s: State, h: Hulls, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """All three blocks, where the composition has them, into a row of zeros: mates in the order of the pack."""
    if f.mates == 0:
        return
    words = wp.array(ptr=address(row, f.column_comms), shape=(f.mates,), dtype=Words)
    slot = wp.int32(0)
    for rank in range(f.team_size):
        j = f.team_size * h.side[i] + rank
        if j != i and h.pack[j] == h.pack[i]:
            if alive(s, e, j):
                column = f.column_pack + FEATURES * slot
                write_mate(wp.array(ptr=address(row, column), shape=(FEATURES,), dtype=wp.float32), s, f, e, i, j)
                words[slot] = words_of(s, e, j)
                row[f.column_pack_mask + slot] = 1.0
            slot += 1
