"""Blocks contacts and contact_mask: the mechs outside the own pack that a mech knows of."""

import warp as wp

from arena.environments.mech.config.constants import CONDITION_NOISE, POSITION_NOISE
from arena.environments.mech.config.scenario import MAX_CONTACTS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.columns import address, columns, flag, signed
from arena.environments.mech.kernels.combat.targeting import painted_by_pack
from arena.environments.mech.kernels.geometry import alive, clear_sight, enemies_first, plane, to_frame
from arena.environments.mech.kernels.public_features import FEATURES, HEAT, HP, Contact, public_features_of
from arena.environments.mech.kernels.state import Field, Hulls, State
from arena.environments.mech.kernels.vision import apart_squared
from arena.environments.mech.observation_spec import CONTACT_FEATURES, SPEED_SCALE
from arena.native.rng_kernels import AHEAD_NOISE, absorb, mix, pair_key

wp.set_module_options(MODULE_OPTIONS)

Streams = wp.types.vector(length=4, dtype=wp.uint64)
"""One state of the generator for each of AHEAD_NOISE, LEFT_NOISE, HP_NOISE and HEAT_NOISE."""


@device_function
def open_streams(seed: wp.int64, tick: int) -> Streams:
    """State of `uniform` before the key is absorbed: the same for all pairs of a tick."""
    streams = Streams()
    state = mix(wp.uint64(seed) + wp.uint64(0x9E3779B97F4A7C15))
    for k in range(4):
        streams[k] = absorb(absorb(state, wp.int64(AHEAD_NOISE + k)), wp.int64(tick))
    return streams


@device_function
def draw_errors(streams: Streams, key: int) -> wp.vec4:
    """Four numbers in [-1, 1) for a pair: 2 u - 1 with the u of `uniform`."""
    errors = wp.vec4()
    for k in range(4):
        # 24 bits fill the mantissa of a float32, so u is never rounded up to 1.
        u = float(absorb(streams[k], wp.int64(key)) >> wp.uint64(40)) * wp.static(2.0**-24)
        errors[k] = 2.0 * u - 1.0
    return errors


PER_SPEED = 1.0 / SPEED_SCALE
Distances = wp.types.vector(length=MAX_CONTACTS, dtype=wp.float32)
AHEAD, LEFT, UP, DISTANCE, VELOCITY_AHEAD, VELOCITY_LEFT, VELOCITY_UP, CLOSING, FACING_AHEAD, FACING_LEFT = columns(
    0,
    CONTACT_FEATURES,
    "ahead left up distance velocity_ahead velocity_left velocity_up closing facing_ahead facing_left",
)
HOSTILE, PAINTED, IN_SIGHT, FOCUS = columns(0, CONTACT_FEATURES, "hostile painted in_sight focus")


@device_function
def is_contact(state: State, hulls: Hulls, env: int, mech: int, other: int) -> bool:
    """Whether the mech follows the other mech: a seen enemy, or a living friend of another pack."""
    if hulls.side[other] != hulls.side[mech]:
        return state.seen[env, mech, other]
    return hulls.pack[other] != hulls.pack[mech] and alive(state, env, other)


@device_function
def clear_contacts(state: State, env: int, mech: int) -> None:
    """Leave all contact slots empty."""
    slots = state.contact.shape[2]
    table = wp.array(ptr=state.contact[env, mech].ptr, shape=(slots,), dtype=wp.int32)
    slot = wp.int32(0)
    while slot < slots:
        table[slot] = -1
        slot += 1


@device_function
def list_contacts(state: State, hulls: Hulls, env: int, mech: int) -> int:
    """Fill the contact slots with enemies, then friends, each by distance; return the number of used slots.

    Mechs at equal distance keep their order. If all slots are used, the farthest mechs are left out.
    """
    mechs = state.hp.shape[1]
    slots = wp.min(hulls.slots[mech], state.contact.shape[2])
    table = wp.array(ptr=state.contact[env, mech].ptr, shape=(slots,), dtype=wp.int32)
    far = Distances()
    used = wp.int32(0)
    first = wp.int32(0)
    k = wp.int32(0)
    while k < mechs:
        if k == mechs // 2:
            first = used
        other = enemies_first(hulls, mechs, mech, k)
        if is_contact(state, hulls, env, mech, other):
            distance = apart_squared(state, env, mech, other)
            # Insertion sort: the lists are short, and equal distances must keep their order on every device.
            slot = wp.int32(used)
            while slot > first and far[slot - 1] > distance:
                if slot < slots:
                    table[slot] = table[slot - 1]
                    far[slot] = far[slot - 1]
                slot -= 1
            if slot < slots:
                table[slot] = other
                far[slot] = distance
            used = wp.min(used + 1, slots)
        k += 1
    return used


@device_function
def write_place(contact: wp.array[wp.float32], field: Field, place: wp.vec3) -> None:
    """Write ahead, left, up and distance of a position in the own frame."""
    scaled = place * (wp.static(0.5 * 0.5**0.5) / field.half_side)
    contact[AHEAD] = signed(scaled[0])
    contact[LEFT] = signed(scaled[1])
    contact[UP] = signed(scaled[2])
    contact[DISTANCE] = wp.min(wp.length(scaled), 1.0)


@device_function
def write_course(
    contact: wp.array[wp.float32], state: State, env: int, mech: int, other: int, apart: wp.vec3, distance: float
) -> None:
    """Write relative velocity, closing speed and facing."""
    heading = state.heading[env, mech]
    velocity = (state.velocity[env, other] - state.velocity[env, mech]) * PER_SPEED
    motion = to_frame(plane(velocity), heading)
    facing = to_frame(state.heading[env, other], heading)
    contact[VELOCITY_AHEAD] = signed(motion[0])
    contact[VELOCITY_LEFT] = signed(motion[1])
    contact[VELOCITY_UP] = signed(velocity[2])
    # The bound keeps mechs at the same place from a division by 0.
    contact[CLOSING] = signed(-wp.dot(velocity, apart) / wp.max(distance, 1.0e-6))
    contact[FACING_AHEAD] = signed(facing[0])
    contact[FACING_LEFT] = signed(facing[1])


@device_function
def write_errors(contact: wp.array[wp.float32], state: State, env: int, other: int, errors: wp.vec4) -> None:
    """Hit points and heat with their noise."""
    contact[HP] = wp.clamp(state.public_features[env, other, HP] + CONDITION_NOISE * errors[2], 0.0, 1.0)
    contact[HEAT] = wp.clamp(state.public_features[env, other, HEAT] + CONDITION_NOISE * errors[3], 0.0, 2.0)


@device_function
def write_contact(
    contact: wp.array[wp.float32],
    state: State,
    hulls: Hulls,
    field: Field,
    env: int,
    mech: int,
    other: int,
    streams: Streams,
    blur: float,
) -> None:
    """Write the viewer-dependent features of another mech; for enemies, noise is scaled by `blur`, 1 - fidelity."""
    apart = state.position[env, other] - state.position[env, mech]
    distance = wp.length(apart)
    place = to_frame(plane(apart), state.heading[env, mech])
    if hulls.side[other] != hulls.side[mech]:
        contact[HOSTILE] = 1.0
        contact[IN_SIGHT] = flag(clear_sight(state, env, mech, other))
        contact[PAINTED] = flag(painted_by_pack(state, hulls, env, mech, other))
        contact[FOCUS] = flag(state.focus[env, mech] == other)
        if blur > 0.0:
            errors = draw_errors(streams, pair_key(hulls.rng_id[mech], hulls.rng_id[other])) * blur
            place += wp.vec2(errors[0], errors[1]) * (POSITION_NOISE * distance)
            write_errors(contact, state, env, other, errors)
    write_place(contact, field, wp.vec3(place[0], place[1], apart[2]))
    write_course(contact, state, env, mech, other, apart, distance)


@device_function
def knows_build(state: State, hulls: Hulls, env: int, mech: int, other: int) -> bool:
    """Whether a mech knows the build of another: that of a friend once it is chosen, and that of a recognised enemy."""
    if hulls.side[other] == hulls.side[mech]:
        return state.decision[env] > 0
    return state.recognised[env, mech, other]


@device_function
def write_contacts(state: State, hulls: Hulls, field: Field, row: wp.array[wp.float32], env: int, mech: int) -> None:
    """Both blocks, into a row of zeros, and the table of contacts."""
    used = list_contacts(state, hulls, env, mech)
    blur = wp.where(field.full_sight, 0.0, 1.0 - hulls.fidelity[mech])
    streams = open_streams(state.seeds[env], state.tick[env])
    contacts = wp.array(ptr=address(row, field.column_contacts), shape=(used,), dtype=Contact)
    for slot in range(used):
        other = state.contact[env, mech, slot]
        contacts[slot] = public_features_of(state, env, other)
        column = field.column_contacts + FEATURES * slot
        contact = wp.array(ptr=address(row, column), shape=(FEATURES,), dtype=wp.float32)
        write_contact(contact, state, hulls, field, env, mech, other, streams, blur)
        row[field.column_contact_mask + slot] = 1.0
        if field.column_contact_builds >= 0 and knows_build(state, hulls, env, mech, other):
            first = field.column_contact_builds + field.builds * slot
            row[first + state.built[env, other] // state.hp.shape[1]] = 1.0
