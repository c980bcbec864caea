"""Stages earn and share: what every mech is paid for a decision, and what it gives its side of that."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import plane
from arena.environments.mech.kernels.ground import way
from arena.environments.mech.kernels.state import Field, Hulls, Report, State, Terrain
from arena.environments.mech.rewards import COMPONENTS
from arena.environments.mech.rules import DECISION_S

wp.set_module_options(MODULE_OPTIONS)

ZONE, APPROACH, DAMAGE, HURT, KILL = (COMPONENTS.index(name) for name in ("zone", "approach", "damage", "hurt", "kill"))
ASSIST, DEATH, PAINT, WIN = (COMPONENTS.index(name) for name in ("assist", "death", "paint", "win"))

HIT_POINTS = 100.0
"""Hit points that count as 1."""


@wp.func(inline=True)
@no_type_check
def potential(s: State, h: Hulls, t: Terrain, f: Field, e: int, i: int) -> float:
    """How near the zone a mech is on foot, in [0, 1]; 1 inside, 0 when destroyed."""
    if s.hp[e, i] <= 0.0:
        return 0.0
    outside = wp.max(way(s, t, e, plane(s.position[e, i])) - s.zone_radius[e], 0.0)
    return wp.max(1.0 - outside / (4.0 * f.half_side), 0.0)


@wp.func(inline=True)
@no_type_check
def taken_from(s: State, f: Field, e: int, i: int, first: int, taken: float) -> float:
    """Hit points that a side, whose mechs begin at `first`, took off mech i, on top of those already taken."""
    total = wp.float32(taken)
    j = wp.int32(first)
    while j < first + f.team_size:
        if s.booked[e, j]:
            total += s.dealt[e, j, i]
        j += 1
    return total


@wp.func(inline=True)
@no_type_check
def taken(s: State, h: Hulls, f: Field, e: int, i: int) -> float:
    """Hit points that mech i lost in the decision; enemies' first, so that both sides add up alike."""
    own = h.side[i] * f.team_size
    other = f.team_size - own
    return taken_from(s, f, e, i, own, taken_from(s, f, e, i, other, s.burnt[e, i]))


@wp.func(inline=True)
@no_type_check
def done(s: State, h: Hulls, f: Field, e: int, i: int) -> wp.vec3:
    """What a mech did to enemies in the decision: hit points dealt, kills, assists."""
    other = f.team_size - h.side[i] * f.team_size
    did = wp.vec3(0.0, 0.0, 0.0)
    if s.booked[e, i]:
        for j in range(other, other + f.team_size):
            did += wp.vec3(s.dealt[e, i, j], s.killed[e, i, j], s.assists[e, i, j])
    return wp.vec3(did[0] / HIT_POINTS, did[1], did[2])


@wp.func(inline=True)
@no_type_check
def pay(f: Field, r: Report, e: int, i: int, component: int, amount: float) -> float:
    """Book one component; its weighted amount."""
    earned = amount * f.weights[component]
    r.components[e, i, component] = earned
    return earned


@wp.func(inline=True)
@no_type_check
def zone_lead(s: State, f: Field, e: int, side: int) -> float:
    """Share of the zone goal by which a side got ahead in this decision."""
    return (s.zone_tick[e, side] - s.zone_tick[e, 1 - side]) * DECISION_S / f.zone_goal_s


@wp.func(inline=True)
@no_type_check
def victory(s: State, r: Report, e: int, side: int) -> float:
    """1, 0 or -1 for a side that won, drew or lost; 0 while the match goes on."""
    return (2.0 * float(r.score[e]) - 1.0) * float(1 - 2 * side)


@wp.func(inline=True)
@no_type_check
def earn_mech(s: State, h: Hulls, t: Terrain, f: Field, r: Report, e: int, i: int) -> None:
    """Pay a mech that was alive when the decision began."""
    after = wp.float32(0.0)
    if not s.ended[e]:
        after = potential(s, h, t, f, e, i)
    own = wp.float32(0.0)
    if s.acted[e, i]:
        side = h.side[i]
        did = done(s, h, f, e, i)
        own += pay(f, r, e, i, ZONE, zone_lead(s, f, e, side))
        own += pay(f, r, e, i, APPROACH, f.gamma * after - s.potential[e, i])
        own += pay(f, r, e, i, DAMAGE, did[0])
        own += pay(f, r, e, i, HURT, -taken(s, h, f, e, i) / HIT_POINTS)
        own += pay(f, r, e, i, KILL, did[1])
        own += pay(f, r, e, i, ASSIST, did[2])
        own += pay(f, r, e, i, DEATH, wp.where(s.hp[e, i] > 0.0, 0.0, -1.0))
        own += pay(f, r, e, i, PAINT, float(s.paints[e, i]))
        own += pay(f, r, e, i, WIN, victory(s, r, e, side))
    else:
        for component in range(r.components.shape[2]):
            r.components[e, i, component] = 0.0
    s.own_reward[e, i] = own
    s.potential[e, i] = after


@wp.func(inline=True)
@no_type_check
def share_mech(s: State, h: Hulls, f: Field, r: Report, e: int, i: int) -> None:
    """Mix what a mech earned with the mean over those of its side who acted."""
    if not s.acted[e, i]:
        r.reward[e, i] = 0.0
        return
    total = wp.float32(0.0)
    members = wp.int32(0)
    for rank in range(f.team_size):
        j = h.side[i] * f.team_size + rank
        if s.acted[e, j]:
            total += s.own_reward[e, j]
            members += 1
    alpha = s.own_share[e]
    r.reward[e, i] = alpha * s.own_reward[e, i] + (1.0 - alpha) * total / float(members)
