"""Stage score: who holds the zone, and whether and how the match ends. One thread a match."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.ground import in_zone
from arena.environments.mech.kernels.state import Field, Hulls, Report, State, Terrain
from arena.environments.mech.rules import CONTESTED_FLOOR, DECISION_S, REASONS, SCORE_MARGIN, TICKS_PER_DECISION

wp.set_module_options(MODULE_OPTIONS)

ZONE, ELIMINATION, TIME = (REASONS.index(reason) for reason in ("zone", "elimination", "time"))


@wp.func(inline=True)
@no_type_check
def zone_tick(own: float, other: float) -> float:
    """What a side scores a second for the tonnage that both have in the zone."""
    lead = wp.max((own - other) / wp.max(own + other, 1.0), 0.0)
    contested = CONTESTED_FLOOR + (1.0 - CONTESTED_FLOOR) * lead
    return wp.where(own > 0.0, wp.where(other > 0.0, contested, 1.0), 0.0)


@wp.func(inline=True)
@no_type_check
def side_hp(s: State, f: Field, e: int, side: int) -> float:
    """Hit points that a side has left."""
    total = wp.float32(0.0)
    for rank in range(f.team_size):
        total += s.hp[e, side * f.team_size + rank]
    return total


@wp.func(inline=True)
@no_type_check
def zone_tonnage(s: State, h: Hulls, t: Terrain, f: Field, e: int, side: int) -> float:
    """Tonnage with which a side holds the zone."""
    total = wp.float32(0.0)
    for rank in range(f.team_size):
        i = side * f.team_size + rank
        if in_zone(s, h, t, e, i):
            total += h.tonnage[i]
    return total


@wp.func(inline=True)
@no_type_check
def score_zone(s: State, h: Hulls, t: Terrain, f: Field, e: int) -> None:
    """Give both sides what the zone pays for this decision."""
    home = zone_tonnage(s, h, t, f, e, 0)
    away = zone_tonnage(s, h, t, f, e, 1)
    s.zone_tick[e, 0] = zone_tick(home, away)
    s.zone_tick[e, 1] = zone_tick(away, home)
    for side in range(2):
        s.zone_s[e, side] = s.zone_s[e, side] + s.zone_tick[e, side] * DECISION_S


@wp.func(inline=True)
@no_type_check
def compare(home: float, away: float) -> float:
    """Home's score for a lead of more than the margin."""
    return wp.where(home > away + SCORE_MARGIN, 1.0, wp.where(away > home + SCORE_MARGIN, 0.0, 0.5))


@wp.func(inline=True)
@no_type_check
def survivor_score(home_hp: float, away_hp: float) -> float:
    """Home's score where a side is gone; a draw where both are."""
    return wp.where(home_hp > 0.0, 1.0, wp.where(away_hp > 0.0, 0.0, 0.5))


@wp.func(inline=True)
@no_type_check
def leader_score(s: State, home_hp: float, away_hp: float, e: int) -> float:
    """Home's score by zone seconds, and where these are equal by hit points."""
    by_zone = compare(s.zone_s[e, 0], s.zone_s[e, 1])
    return wp.where(by_zone == 0.5, compare(home_hp, away_hp), by_zone)


@wp.func(inline=True)
@no_type_check
def score_match(s: State, h: Hulls, t: Terrain, f: Field, r: Report, e: int) -> None:
    """Score the zone, let time pass, and decide whether and how the match ends."""
    score_zone(s, h, t, f, e)
    s.decision[e] = s.decision[e] + 1
    s.tick[e] = s.tick[e] + TICKS_PER_DECISION

    home_hp = side_hp(s, f, e, 0)
    away_hp = side_hp(s, f, e, 1)
    eliminated = home_hp <= 0.0 or away_hp <= 0.0
    held = wp.max(s.zone_s[e, 0], s.zone_s[e, 1]) >= f.zone_goal_s
    decided = eliminated or held
    late = s.decision[e] >= f.limit
    reason = wp.where(eliminated, ELIMINATION, wp.where(held, ZONE, TIME))
    result = wp.where(eliminated, survivor_score(home_hp, away_hp), leader_score(s, home_hp, away_hp, e))

    s.ended[e] = decided or late
    r.terminated[e] = decided
    r.truncated[e] = late and not decided
    r.score[e] = wp.float64(wp.where(s.ended[e], result, 0.5))
    r.reason[e] = wp.int64(wp.where(s.ended[e], reason, 0))
    r.decisions[e] = wp.int64(s.decision[e])
