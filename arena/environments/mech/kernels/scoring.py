"""Stage score: holder of the zone, and end and outcome of the match. One thread per match."""

import warp as wp

from arena.environments.mech.config.constants import (
    CONTESTED_FLOOR,
    DECISION_S,
    REASONS,
    SCORE_MARGIN,
    TICKS_PER_DECISION,
)
from arena.environments.mech.kernels import MODULE_OPTIONS, device_function
from arena.environments.mech.kernels.ground import in_zone
from arena.environments.mech.kernels.state import Field, Hulls, Report, State, Terrain

wp.set_module_options(MODULE_OPTIONS)

ZONE, ELIMINATION, TIME = (REASONS.index(reason) for reason in ("zone", "elimination", "time"))


@device_function
def zone_tick(own: float, other: float) -> float:
    """Score per second of a side, from the tonnage of both sides in the zone."""
    # At least a ton below the line: an empty zone is 0 / 1, not 0 / 0.
    lead = wp.max((own - other) / wp.max(own + other, 1.0), 0.0)
    contested = CONTESTED_FLOOR + (1.0 - CONTESTED_FLOOR) * lead
    return wp.where(own > 0.0, wp.where(other > 0.0, contested, 1.0), 0.0)


@device_function
def side_hp(state: State, field: Field, env: int, side: int) -> float:
    """Hit points that a side has left."""
    total = wp.float32(0.0)
    for rank in range(field.team_size):
        total += state.hp[env, side * field.team_size + rank]
    return total


@device_function
def zone_tonnage(state: State, hulls: Hulls, terrain: Terrain, field: Field, env: int, side: int) -> float:
    """Tonnage with which a side holds the zone."""
    total = wp.float32(0.0)
    for rank in range(field.team_size):
        mech = side * field.team_size + rank
        if in_zone(state, hulls, terrain, env, mech):
            total += hulls.tonnage[mech]
    return total


@device_function
def score_zone(state: State, hulls: Hulls, terrain: Terrain, field: Field, env: int) -> None:
    """Add the zone seconds of this decision for both sides."""
    home = zone_tonnage(state, hulls, terrain, field, env, 0)
    away = zone_tonnage(state, hulls, terrain, field, env, 1)
    state.zone_tick[env, 0] = zone_tick(home, away)
    state.zone_tick[env, 1] = zone_tick(away, home)
    for side in range(2):
        state.zone_s[env, side] = state.zone_s[env, side] + state.zone_tick[env, side] * DECISION_S


@device_function
def compare(home: float, away: float) -> float:
    """Home's score for a lead of more than the margin."""
    return wp.where(home > away + SCORE_MARGIN, 1.0, wp.where(away > home + SCORE_MARGIN, 0.0, 0.5))


@device_function
def survivor_score(home_hp: float, away_hp: float) -> float:
    """Score of home if a side is eliminated; a draw if both are."""
    return wp.where(home_hp > 0.0, 1.0, wp.where(away_hp > 0.0, 0.0, 0.5))


@device_function
def leader_score(state: State, home_hp: float, away_hp: float, env: int) -> float:
    """Home's score by zone seconds, and where these are equal by hit points."""
    by_zone = compare(state.zone_s[env, 0], state.zone_s[env, 1])
    return wp.where(by_zone == 0.5, compare(home_hp, away_hp), by_zone)


@device_function
def score_match(state: State, hulls: Hulls, terrain: Terrain, field: Field, report: Report, env: int) -> None:
    """Score the zone, advance the clock, and decide whether and how the match ends."""
    score_zone(state, hulls, terrain, field, env)
    state.decision[env] = state.decision[env] + 1
    state.tick[env] = state.tick[env] + TICKS_PER_DECISION

    home_hp = side_hp(state, field, env, 0)
    away_hp = side_hp(state, field, env, 1)
    eliminated = home_hp <= 0.0 or away_hp <= 0.0
    held = wp.max(state.zone_s[env, 0], state.zone_s[env, 1]) >= field.zone_goal_s
    decided = eliminated or held
    # A match that is decided in its last decision is terminated, not truncated.
    late = state.decision[env] >= field.limit
    reason = wp.where(eliminated, ELIMINATION, wp.where(held, ZONE, TIME))
    by_survival = eliminated and not (field.zone_breaks_ties and home_hp <= 0.0 and away_hp <= 0.0)
    result = wp.where(by_survival, survivor_score(home_hp, away_hp), leader_score(state, home_hp, away_hp, env))

    state.ended[env] = decided or late
    report.terminated[env] = decided
    report.truncated[env] = late and not decided
    # Matches that go on report a draw and reason 0, as the environment contract requires.
    report.score[env] = wp.float64(wp.where(state.ended[env], result, 0.5))
    report.reason[env] = wp.int64(wp.where(state.ended[env], reason, 0))
    report.decisions[env] = wp.int64(state.decision[env])
