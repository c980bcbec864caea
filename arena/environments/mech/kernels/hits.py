"""What a hit does: booked in the shooter's rows, to be taken in stage resolve."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import centre
from arena.environments.mech.kernels.ground import ground_between
from arena.environments.mech.kernels.state import Arms, Hulls, State, Terrain
from arena.environments.mech.kernels.targeting import painted_by_pack
from arena.environments.mech.rules import PAINT_FACTOR, REAR_COSINE, REAR_FACTOR

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def clear_hits(s: State, e: int, i: int) -> None:
    """Forget what mech i hit in the last tick."""
    j = wp.int32(0)
    while j < s.hp.shape[1]:
        s.damage[e, i, j] = 0.0
        s.leg_damage[e, i, j] = 0.0
        s.shake[e, i, j] = 0.0
        s.heating[e, i, j] = 0.0
        s.pinned[e, i, j] = False
        j += 1
    s.struck[e, i] = False


@wp.func(inline=True)
@no_type_check
def hurt(s: State, h: Hulls, e: int, i: int, j: int, w: int, damage: float, shake: float) -> None:
    """Book what mech i's weapon does to mech j's body."""
    s.struck[e, i] = True
    s.damage[e, i, j] = s.damage[e, i, j] + damage
    s.shake[e, i, j] = s.shake[e, i, j] + shake
    if h.side[j] != h.side[i]:
        s.offered[e, i, w] = s.offered[e, i, w] + damage


@wp.func(inline=True)
@no_type_check
def direct_damage(s: State, h: Hulls, a: Arms, e: int, i: int, j: int, w: int, direction: wp.vec2) -> float:
    """What mech i's weapon does to mech j when it hits it flying in that (unit) direction."""
    damage = wp.float32(a.damage[w])
    if wp.dot(s.heading[e, j], direction) > REAR_COSINE:
        damage *= REAR_FACTOR
    if painted_by_pack(s, h, e, i, j):
        damage *= PAINT_FACTOR
    return damage


@wp.func(inline=True)
@no_type_check
def burst(s: State, h: Hulls, a: Arms, t: Terrain, e: int, i: int, w: int, point: wp.vec3, spared: int) -> None:
    """Hurt whoever is near the point and not behind ground, on either side, but for the mech that was hit itself."""
    radius = a.splash_radius[w]
    if radius == 0.0:
        return
    for j in range(s.hp.shape[1]):
        if j != spared and s.hp[e, j] > 0.0:
            middle = centre(s, h, e, j)
            apart = wp.max(wp.length(middle - point) - h.hit_radius[j], 0.0)
            if apart < radius and not ground_between(s, t, e, point, middle):
                share = a.splash_scale[w] * (1.0 - apart / radius)
                hurt(s, h, e, i, j, w, share * a.damage[w], share * a.shake[w])
