"""Blocks contacts and contact_mask: the mechs outside the own pack that a mech knows of."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.composition import MAX_CONTACTS
from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.aspect import FEATURES, HEAT, HP, Contact, aspect_of
from arena.environments.mech.kernels.geometry import alive, clear_sight, enemies_first, plane, to_frame
from arena.environments.mech.kernels.noise import Streams, draw_errors, open_streams
from arena.environments.mech.kernels.randomness import pair_key
from arena.environments.mech.kernels.rows import address, columns, flag, signed
from arena.environments.mech.kernels.sight import apart_squared
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.kernels.targeting import painted_by_pack
from arena.environments.mech.layout import CONTACT_FEATURES, SPEED_SCALE
from arena.environments.mech.rules import CONDITION_NOISE, POSITION_NOISE

wp.set_module_options(MODULE_OPTIONS)

PER_SPEED = 1.0 / SPEED_SCALE
Distances = wp.types.vector(length=MAX_CONTACTS, dtype=wp.float32)
AHEAD, LEFT, UP, DISTANCE, VELOCITY_AHEAD, VELOCITY_LEFT, VELOCITY_UP, CLOSING, FACING_AHEAD, FACING_LEFT = columns(
    0,
    CONTACT_FEATURES,
    "ahead left up distance velocity_ahead velocity_left velocity_up closing facing_ahead facing_left",
)
HOSTILE, PAINTED, IN_SIGHT, FOCUS = columns(0, CONTACT_FEATURES, "hostile painted in_sight focus")


@wp.func(inline=True)
@no_type_check
def is_contact(s: State, h: Hulls, e: int, i: int, j: int) -> bool:
    """Whether mech i follows mech j: a seen enemy, or a living friend of another pack."""
    if h.side[j] != h.side[i]:
        return s.seen[e, i, j]
    return h.pack[j] != h.pack[i] and alive(s, e, j)


@wp.func(inline=True)
@no_type_check
def clear_contacts(s: State, e: int, i: int) -> None:
    """Leave all contact slots empty."""
    slots = s.contact.shape[2]
    table = wp.array(ptr=s.contact[e, i].ptr, shape=(slots,), dtype=wp.int32)
    slot = wp.int32(0)
    while slot < slots:
        table[slot] = -1
        slot += 1


@wp.func(inline=True)
@no_type_check
def list_contacts(s: State, h: Hulls, e: int, i: int) -> int:
    """Fill the contact slots: enemies, then friends, each by distance; how many are used.

    Equally far ones keep their order; who is farther than everybody finds no slot when all are used.
    """
    mechs = s.hp.shape[1]
    slots = wp.min(h.slots[i], s.contact.shape[2])
    table = wp.array(ptr=s.contact[e, i].ptr, shape=(slots,), dtype=wp.int32)
    far = Distances()
    used = wp.int32(0)
    first = wp.int32(0)
    k = wp.int32(0)
    while k < mechs:
        if k == mechs // 2:
            first = used
        j = enemies_first(h, mechs, i, k)
        if is_contact(s, h, e, i, j):
            distance = apart_squared(s, e, i, j)
            slot = wp.int32(used)
            while slot > first and far[slot - 1] > distance:
                if slot < slots:
                    table[slot] = table[slot - 1]
                    far[slot] = far[slot - 1]
                slot -= 1
            if slot < slots:
                table[slot] = j
                far[slot] = distance
            used = wp.min(used + 1, slots)
        k += 1
    return used


@wp.func(inline=True)
@no_type_check
def write_place(contact: wp.array[wp.float32], f: Field, place: wp.vec3) -> None:
    """Features ahead, left, up and distance of a place in the own frame."""
    scaled = place * (wp.static(0.5 * 0.5**0.5) / f.half_side)
    contact[AHEAD] = signed(scaled[0])
    contact[LEFT] = signed(scaled[1])
    contact[UP] = signed(scaled[2])
    contact[DISTANCE] = wp.min(wp.length(scaled), 1.0)


@wp.func(inline=True)
@no_type_check
def write_course(
    contact: wp.array[wp.float32], s: State, e: int, i: int, j: int, apart: wp.vec3, distance: float
) -> None:
    """Features of the relative velocity, of how fast it closes in, and of where it faces."""
    heading = s.heading[e, i]
    velocity = (s.velocity[e, j] - s.velocity[e, i]) * PER_SPEED
    motion = to_frame(plane(velocity), heading)
    facing = to_frame(s.heading[e, j], heading)
    contact[VELOCITY_AHEAD] = signed(motion[0])
    contact[VELOCITY_LEFT] = signed(motion[1])
    contact[VELOCITY_UP] = signed(velocity[2])
    contact[CLOSING] = signed(-wp.dot(velocity, apart) / wp.max(distance, 1.0e-6))
    contact[FACING_AHEAD] = signed(facing[0])
    contact[FACING_LEFT] = signed(facing[1])


@wp.func(inline=True)
@no_type_check
def write_errors(contact: wp.array[wp.float32], s: State, e: int, j: int, errors: wp.vec4) -> None:
    """Hit points and heat with their noise."""
    contact[HP] = wp.clamp(s.aspect[e, j, HP] + CONDITION_NOISE * errors[2], 0.0, 1.0)
    contact[HEAT] = wp.clamp(s.aspect[e, j, HEAT] + CONDITION_NOISE * errors[3], 0.0, 2.0)


@wp.func(inline=True)
@no_type_check
def write_contact(
    contact: wp.array[wp.float32], s: State, h: Hulls, f: Field, e: int, i: int, j: int, streams: Streams, blur: float
) -> None:
    """What mech i perceives of mech j beside its aspect; an enemy is off by `blur`, 1 - fidelity."""
    apart = s.position[e, j] - s.position[e, i]
    distance = wp.length(apart)
    place = to_frame(plane(apart), s.heading[e, i])
    if h.side[j] != h.side[i]:
        contact[HOSTILE] = 1.0
        contact[IN_SIGHT] = flag(clear_sight(s, e, i, j))
        contact[PAINTED] = flag(painted_by_pack(s, h, e, i, j))
        contact[FOCUS] = flag(s.focus[e, i] == j)
        if blur > 0.0:
            errors = draw_errors(streams, pair_key(h.stream[i], h.stream[j])) * blur
            place += wp.vec2(errors[0], errors[1]) * (POSITION_NOISE * distance)
            write_errors(contact, s, e, j, errors)
    write_place(contact, f, wp.vec3(place[0], place[1], apart[2]))
    write_course(contact, s, e, i, j, apart, distance)


@wp.func(inline=True)
@no_type_check
def write_contacts(s: State, h: Hulls, f: Field, row: wp.array[wp.float32], e: int, i: int) -> None:
    """Both blocks, into a row of zeros, and the table of contacts."""
    used = list_contacts(s, h, e, i)
    blur = wp.where(f.full_sight, 0.0, 1.0 - h.fidelity[i])
    streams = open_streams(s.seeds[e], s.tick[e])
    contacts = wp.array(ptr=address(row, f.column_contacts), shape=(used,), dtype=Contact)
    for slot in range(used):
        j = s.contact[e, i, slot]
        contacts[slot] = aspect_of(s, e, j)
        column = f.column_contacts + FEATURES * slot
        contact = wp.array(ptr=address(row, column), shape=(FEATURES,), dtype=wp.float32)
        write_contact(contact, s, h, f, e, i, j, streams, blur)
        row[f.column_contact_mask + slot] = 1.0
