"""Stages score and reward: the zone, the outcome, what everybody earned."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.geometry import in_zone
from arena.environments.mech.kernels.state import Field, Hulls, Report, State
from arena.environments.mech.rules import COMPONENTS, CONTESTED_FLOOR, DECISION_S, REASONS, SCORE_MARGIN

wp.set_module_options(MODULE_OPTIONS)

ZONE, ELIMINATION, TIME = (REASONS.index(reason) for reason in ("zone", "elimination", "time"))
EARN_ZONE, EARN_APPROACH, EARN_DAMAGE = (COMPONENTS.index(name) for name in ("zone", "approach", "damage"))
EARN_KILL, EARN_DEATH, EARN_WIN = (COMPONENTS.index(name) for name in ("kill", "death", "win"))


@wp.func
@no_type_check
def zone_tick(mine: float, theirs: float) -> float:
    """What a side scores a second for the tonnage that both have in the zone."""
    lead = wp.max((mine - theirs) / wp.max(mine + theirs, 1.0), 0.0)
    contested = CONTESTED_FLOOR + (1.0 - CONTESTED_FLOOR) * lead
    return wp.where(mine > 0.0, wp.where(theirs > 0.0, contested, 1.0), 0.0)


@wp.func
@no_type_check
def side_sum(hulls: Hulls, values: wp.array2d[wp.float32], e: int, side: int) -> float:
    """Sum of a per-mech value over one side."""
    total = wp.float32(0.0)
    for i in range(values.shape[1]):
        if hulls.side[i] == side:
            total += values[e, i]
    return total


@wp.func
@no_type_check
def zone_tonnage(s: State, hulls: Hulls, e: int, side: int) -> float:
    """Tonnage that a side has in the zone."""
    total = wp.float32(0.0)
    for i in range(s.hp.shape[1]):
        if hulls.side[i] == side and in_zone(s, e, i):
            total += hulls.tonnage[i]
    return total


@wp.func
@no_type_check
def compare(home: float, away: float) -> float:
    """Home's score for a lead of more than the margin."""
    return wp.where(home > away + SCORE_MARGIN, 1.0, wp.where(away > home + SCORE_MARGIN, 0.0, 0.5))


@wp.func
@no_type_check
def survivor_score(home_hp: float, away_hp: float) -> float:
    """Home's score where a side is gone; a draw where both are."""
    return wp.where(home_hp > 0.0, 1.0, wp.where(away_hp > 0.0, 0.0, 0.5))


@wp.func
@no_type_check
def leader_score(s: State, home_hp: float, away_hp: float, e: int) -> float:
    """Home's score by zone seconds, and where these are equal by hit points."""
    by_zone = compare(s.zone_s[e, 0], s.zone_s[e, 1])
    return wp.where(by_zone == 0.5, compare(home_hp, away_hp), by_zone)


@wp.kernel
@no_type_check
def score(s: State, hulls: Hulls, field: Field, report: Report) -> None:
    """Score the zone, and decide whether and how the match ends. One thread a match."""
    e = wp.tid()
    home_tons = zone_tonnage(s, hulls, e, 0)
    away_tons = zone_tonnage(s, hulls, e, 1)
    s.zone_tick[e, 0] = zone_tick(home_tons, away_tons)
    s.zone_tick[e, 1] = zone_tick(away_tons, home_tons)
    s.zone_s[e, 0] = s.zone_s[e, 0] + s.zone_tick[e, 0] * DECISION_S
    s.zone_s[e, 1] = s.zone_s[e, 1] + s.zone_tick[e, 1] * DECISION_S
    s.decision[e] = s.decision[e] + 1

    home_hp = side_sum(hulls, s.hp, e, 0)
    away_hp = side_sum(hulls, s.hp, e, 1)
    eliminated = home_hp <= 0.0 or away_hp <= 0.0
    held = wp.max(s.zone_s[e, 0], s.zone_s[e, 1]) >= field.zone_goal_s
    late = s.decision[e] >= field.limit
    reason = wp.where(eliminated, ELIMINATION, wp.where(held, ZONE, TIME))
    result = wp.where(eliminated, survivor_score(home_hp, away_hp), leader_score(s, home_hp, away_hp, e))
    s.ended[e] = eliminated or held or late
    report.terminated[e] = eliminated or held
    report.truncated[e] = late and not (eliminated or held)
    report.score[e] = wp.float64(wp.where(s.ended[e], result, 0.5))
    report.reason[e] = wp.int64(wp.where(s.ended[e], reason, 0))
    report.decisions[e] = wp.int64(s.decision[e])


@wp.func
@no_type_check
def potential(s: State, field: Field, e: int, i: int) -> float:
    """How near the zone a mech is, in [0, 1]; 1 inside, 0 when destroyed."""
    outside = wp.max(wp.length(s.position[e, i]) - s.zone_radius[e], 0.0)
    return wp.where(s.hp[e, i] > 0.0, 1.0 - outside / (2.0 * field.half_side), 0.0)


@wp.kernel
@no_type_check
def reward(s: State, hulls: Hulls, field: Field, report: Report) -> None:
    """Pay every mech that was alive when the decision began."""
    e, i = wp.tid()
    for c in range(report.components.shape[2]):
        report.components[e, i, c] = 0.0
    dealt = wp.float32(0.0)
    taken = wp.float32(0.0)
    kills = wp.float32(0.0)
    for j in range(s.hp.shape[1]):
        dealt += s.dealt[e, i, j]
        taken += s.dealt[e, j, i]
        kills += s.killed[e, i, j]
    after = wp.where(report.terminated[e], 0.0, potential(s, field, e, i))
    if s.acted[e, i]:
        side = hulls.side[i]
        report.components[e, i, EARN_ZONE] = s.zone_tick[e, side] - s.zone_tick[e, 1 - side]
        report.components[e, i, EARN_APPROACH] = field.gamma * after - s.potential[e, i]
        report.components[e, i, EARN_DAMAGE] = dealt - taken
        report.components[e, i, EARN_KILL] = kills
        report.components[e, i, EARN_DEATH] = wp.where(s.hp[e, i] > 0.0, 0.0, -1.0)
        won = 2.0 * float(report.score[e]) - 1.0
        report.components[e, i, EARN_WIN] = won * float(1 - 2 * side)
    total = wp.float32(0.0)
    for c in range(report.components.shape[2]):
        report.components[e, i, c] = report.components[e, i, c] * field.weights[c]
        total += report.components[e, i, c]
    report.reward[e, i] = total
    s.under_fire[e, i] = taken > 0.0
    s.potential[e, i] = after
