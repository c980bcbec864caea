"""Stages earn and share: the reward of every mech, and its mixture with the mean of the side."""

import warp as wp

from arena.environments.mech.config.constants import DECISION_S
from arena.environments.mech.config.rewards import COMPONENTS
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.geometry import plane
from arena.environments.mech.kernels.ground import path_length
from arena.environments.mech.kernels.state import Field, Hulls, Report, State, Terrain

wp.set_module_options(MODULE_OPTIONS)

ZONE, APPROACH, DAMAGE, HURT, KILL = (COMPONENTS.index(name) for name in ("zone", "approach", "damage", "hurt", "kill"))
ASSIST, DEATH, PAINT, WIN = (COMPONENTS.index(name) for name in ("assist", "death", "paint", "win"))

HIT_POINTS = 100.0
"""Hit points that count as 1."""


@device_function
def potential(state: State, hulls: Hulls, terrain: Terrain, field: Field, env: int, mech: int) -> float:
    """Potential of the approach in [0, 1]: 1 inside the zone, falling with the path length, 0 for destroyed mechs."""
    if state.hp[env, mech] <= 0.0:
        return 0.0
    outside = wp.max(path_length(state, terrain, env, plane(state.position[env, mech])) - state.zone_radius[env], 0.0)
    return wp.max(1.0 - outside / (4.0 * field.half_side), 0.0)


@device_function
def taken_from(state: State, field: Field, env: int, mech: int, first: int, taken: float) -> float:
    """Hit points lost to the mechs of a side, which begin at index `first`, added to a given sum."""
    total = wp.float32(taken)
    other = wp.int32(first)
    while other < first + field.team_size:
        if state.has_stats[env, other]:
            total += state.dealt[env, other, mech]
        other += 1
    return total


@device_function
def taken(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> float:
    """Hit points that the mech lost in the decision; enemies first, so that both sides get the same float sum."""
    own = hulls.side[mech] * field.team_size
    enemies = field.team_size - own
    return taken_from(
        state, field, env, mech, own, taken_from(state, field, env, mech, enemies, state.terrain_damage[env, mech])
    )


@device_function
def done(state: State, hulls: Hulls, field: Field, env: int, mech: int) -> wp.vec3:
    """Effects of a mech on enemies in the decision: hit points dealt, kills, assists."""
    enemies = field.team_size - hulls.side[mech] * field.team_size
    did = wp.vec3(0.0, 0.0, 0.0)
    if state.has_stats[env, mech]:
        for other in range(enemies, enemies + field.team_size):
            did += wp.vec3(
                state.dealt[env, mech, other], state.killed[env, mech, other], state.assists[env, mech, other]
            )
    return wp.vec3(did[0] / HIT_POINTS, did[1], did[2])


@device_function
def add_component(field: Field, report: Report, env: int, mech: int, component: int, amount: float) -> float:
    """Write one reward component, and return its weighted value."""
    earned = amount * field.weights[component]
    report.components[env, mech, component] = earned
    return earned


@device_function
def zone_lead(state: State, field: Field, env: int, side: int) -> float:
    """Share of the zone goal by which a side got ahead in this decision."""
    return (state.zone_tick[env, side] - state.zone_tick[env, 1 - side]) * DECISION_S / field.zone_goal_s


@device_function
def victory(state: State, report: Report, env: int, side: int) -> float:
    """1, 0 or -1 for a side that won, drew or lost; 0 while the match continues."""
    return (2.0 * float(report.score[env]) - 1.0) * float(1 - 2 * side)


@device_function
def earn_mech(state: State, hulls: Hulls, terrain: Terrain, field: Field, report: Report, env: int, mech: int) -> None:
    """Pay a mech that was alive when the decision began."""
    after = wp.float32(0.0)
    if not state.ended[env]:
        # The potential of a terminal state is 0, or shaping would change the best policy (Ng et al., 1999).
        after = potential(state, hulls, terrain, field, env, mech)
    own = wp.float32(0.0)
    if state.acted[env, mech]:
        side = hulls.side[mech]
        did = done(state, hulls, field, env, mech)
        own += add_component(field, report, env, mech, ZONE, zone_lead(state, field, env, side))
        own += add_component(field, report, env, mech, APPROACH, field.gamma * after - state.potential[env, mech])
        own += add_component(field, report, env, mech, DAMAGE, did[0])
        own += add_component(field, report, env, mech, HURT, -taken(state, hulls, field, env, mech) / HIT_POINTS)
        own += add_component(field, report, env, mech, KILL, did[1])
        own += add_component(field, report, env, mech, ASSIST, did[2])
        own += add_component(field, report, env, mech, DEATH, wp.where(state.hp[env, mech] > 0.0, 0.0, -1.0))
        own += add_component(field, report, env, mech, PAINT, float(state.paints[env, mech]))
        own += add_component(field, report, env, mech, WIN, victory(state, report, env, side))
    else:
        for component in range(report.components.shape[2]):
            report.components[env, mech, component] = 0.0
    state.own_reward[env, mech] = own
    state.potential[env, mech] = after


@device_function
def share_mech(state: State, hulls: Hulls, field: Field, report: Report, env: int, mech: int) -> None:
    """Mix a mech's own reward with the mean over the mechs of its side that acted."""
    if not state.acted[env, mech]:
        report.reward[env, mech] = 0.0
        return
    total = wp.float32(0.0)
    members = wp.int32(0)
    for rank in range(field.team_size):
        other = hulls.side[mech] * field.team_size + rank
        if state.acted[env, other]:
            total += state.own_reward[env, other]
            members += 1
    alpha = state.own_share[env]
    report.reward[env, mech] = alpha * state.own_reward[env, mech] + (1.0 - alpha) * total / float(members)
