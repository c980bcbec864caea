"""Stage resolve: everybody takes what hit them in this tick, all at once."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import centre, enemies_first, plane
from arena.environments.mech.kernels.randomness import WRECK, uniform
from arena.environments.mech.kernels.state import Arms, Hulls, State
from arena.environments.mech.kernels.targeting import PAINTER, first_enemy
from arena.environments.mech.rules import FALLEN_TICKS, PAINT_TICKS, SUPPRESSED_TICKS

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def credit_assists(s: State, h: Hulls, e: int, j: int) -> None:
    """Credit whose paint is on mech j, just destroyed, with what the rest of its pack had in that."""
    painter = s.painted_by[e, j]
    if painter < 0:
        return
    first = first_enemy(s, h, j)
    share = wp.float32(0.0)
    for i in range(first, first + s.hp.shape[1] // 2):
        if i != painter and h.pack[i] == h.pack[painter]:
            share += s.killed[e, i, j]
    s.booked[e, painter] = True
    s.assists[e, painter, j] = share


@wp.func(inline=True)
@no_type_check
def destroy(s: State, h: Hulls, tick: int, e: int, j: int) -> None:
    """What becomes of mech j, just destroyed."""
    credit_assists(s, h, e, j)
    s.wreck[e, j] = uniform(s.seeds[e], WRECK, tick, h.stream[j]) < h.wreck_chance[j]
    s.velocity[e, j] = wp.vec3(0.0, 0.0, 0.0)


@wp.func(inline=True)
@no_type_check
def wound(s: State, h: Hulls, tick: int, e: int, j: int, total: float) -> None:
    """Take that much damage off mech j, as far as it has it, and book each shooter's share."""
    mechs = s.hp.shape[1]
    hp = s.hp[e, j]
    taken = wp.min(total, hp)
    for k in range(mechs):
        i = enemies_first(h, mechs, j, k)
        damage = s.damage[e, i, j]
        if damage > 0.0:
            share = damage / total
            s.booked[e, i] = True
            s.dealt[e, i, j] = s.dealt[e, i, j] + taken * share
            s.hurt_from[e, j] = s.hurt_from[e, j] + damage * wp.normalize(plane(s.position[e, i] - s.position[e, j]))
            if total >= hp:
                s.killed[e, i, j] = share
    s.burnt[e, j] = s.burnt[e, j] + taken * (s.burn[e, j] / total)
    s.hp[e, j] = hp - taken
    if total >= hp:
        destroy(s, h, tick, e, j)


@wp.func(inline=True)
@no_type_check
def rock(s: State, e: int, j: int, shake: float) -> None:
    """Take stability off mech j; it falls when nothing is left."""
    if s.fallen_ticks[e, j] > 0:
        return
    s.stability[e, j] = wp.max(s.stability[e, j] - shake, 0.0)
    if s.stability[e, j] == 0.0:
        s.fallen_ticks[e, j] = FALLEN_TICKS
        s.velocity[e, j] = wp.vec3(0.0, 0.0, 0.0)


@wp.func(inline=True)
@no_type_check
def paint(s: State, h: Hulls, e: int, j: int) -> None:
    """Put the paint of the nearest enemy whose painter hit mech j in this tick on it."""
    first = first_enemy(s, h, j)
    painter = wp.int32(-1)
    shortest = wp.float32(0.0)
    place = centre(s, h, e, j)
    for i in range(first, first + s.hp.shape[1] // 2):
        if s.shot[e, i, PAINTER] == j:
            apart = wp.length_sq(centre(s, h, e, i) - place)
            if painter < 0 or apart < shortest:
                painter = i
                shortest = apart
    if painter < 0:
        return
    if s.painted_by[e, j] < 0:
        wp.atomic_add(s.paints, e, painter, 1)
        wp.atomic_add(s.paints, e, j, -1)
    s.painted_by[e, j] = painter
    s.painted_ticks[e, j] = PAINT_TICKS


@wp.func(inline=True)
@no_type_check
def was_hit(s: State, e: int, j: int) -> bool:
    """Whether anybody hit mech j in this tick, with paint or with what hurts."""
    i = wp.int32(0)
    while i < s.hp.shape[1]:
        if s.struck[e, i] and (s.damage[e, i, j] > 0.0 or s.shot[e, i, PAINTER] == j):
            return True
        i += 1
    return False


@wp.func(inline=True)
@no_type_check
def resolve_mech(s: State, h: Hulls, a: Arms, tick: int, e: int, j: int) -> None:
    """Take what everybody and the ground did to mech j in this tick."""
    if s.hp[e, j] <= 0.0 or (s.burn[e, j] == 0.0 and not was_hit(s, e, j)):
        return
    damage = wp.float32(s.burn[e, j])
    legs = wp.float32(0.0)
    shake = wp.float32(0.0)
    painted = wp.bool(False)
    k = wp.int32(0)
    while k < s.hp.shape[1]:
        i = enemies_first(h, s.hp.shape[1], j, k)
        if s.struck[e, i]:
            damage += s.damage[e, i, j]
            legs += s.leg_damage[e, i, j]
            shake += s.shake[e, i, j]
            s.heat[e, j] = s.heat[e, j] + s.heating[e, i, j]
            painted = painted or s.shot[e, i, PAINTER] == j
            if s.pinned[e, i, j]:
                s.suppressed_ticks[e, j] = SUPPRESSED_TICKS
        k += 1
    if damage > 0.0:
        wound(s, h, tick, e, j, damage)
    if legs > 0.0:
        s.leg_hp[e, j] = wp.max(s.leg_hp[e, j] - legs, 0.0)
    if shake > 0.0:
        rock(s, e, j, shake)
    if painted:
        paint(s, h, e, j)
