"""Who holds the zone, who has won, and what everybody earns."""

from dataclasses import dataclass

import numpy as np
from mech_oracle.space import dot, length
from mech_oracle.state import Mech, State
from mech_oracle.world import Plane

from arena.environments.mech.config.constants import (
    CONTESTED_FLOOR,
    DECISION_S,
    SCORE_MARGIN,
    TICKS_PER_DECISION,
    ZONE_HEIGHT,
)
from arena.environments.mech.config.rewards import COMPONENTS, RewardWeights


@dataclass(frozen=True)
class Verdict:
    """How a match ended."""

    score: float
    reason: str
    truncated: bool


def way_to_centre(state: State, mech: Mech) -> tuple[Plane, float]:
    """First step, a unit vector, and length of the way on foot to the map's centre."""
    x, y, _ = mech.position
    world = state.world
    if world.flat:
        far = length((x, y))
        return ((-x / far, -y / far) if far > 0.0 else (0.0, 0.0)), far
    grid = world.pool.route[state.map]
    step_x, step_y, whole = (float(part) for part in grid[world.cell_index(y), world.cell_index(x)])
    if any(abs(part - round(part)) < 1e-5 for part in (x, y)):
        state.edges.met.append("route")
    off = (x - world.cell_centre(x), y - world.cell_centre(y))
    return (step_x, step_y), max(whole - dot((step_x, step_y), off), 0.0)


def to_zone(state: State, mech: Mech) -> float:
    """Length of the way on foot to the zone."""
    return max(way_to_centre(state, mech)[1] - state.zone_radius, 0.0)


def potential(state: State, mech: Mech) -> float:
    """How near the zone is, in [0, 1]."""
    return max(1.0 - to_zone(state, mech) / (2.0 * state.world.side), 0.0)


def holds_zone(state: State, mech: Mech) -> bool:
    """Whether a mech counts for the zone."""
    x, y, z = mech.position
    if not mech.alive or not state.edges.at_most(length((x, y)), state.zone_radius, "zone"):
        return False
    return state.edges.at_most(z - state.ground(mech, x, y), ZONE_HEIGHT, "height above the zone")


def score(state: State) -> Verdict | None:
    """Count the zone and say whether the match is over."""
    tons = [
        sum(mech.hull.type.tonnage for mech in state.mechs if mech.hull.side == side and holds_zone(state, mech))
        for side in (0, 1)
    ]
    state.zone_tick = [_zone_tick(tons[side], tons[1 - side]) for side in (0, 1)]
    state.zone_s = [seconds + tick * DECISION_S for seconds, tick in zip(state.zone_s, state.zone_tick, strict=True)]
    state.decision += 1
    state.tick += TICKS_PER_DECISION
    return _verdict(state)


def _zone_tick(own: float, other: float) -> float:
    if own == 0.0 or other == 0.0:
        return float(own > 0.0)
    return CONTESTED_FLOOR + (1.0 - CONTESTED_FLOOR) * max(0.0, (own - other) / (own + other))


def _verdict(state: State) -> Verdict | None:
    config = state.world.config
    hp = [sum(mech.hp for mech in state.mechs if mech.hull.side == side) for side in (0, 1)]
    if max(hp) <= 0.0:
        score = _leader(state, hp) if config.rules.zone_breaks_ties else 0.5
        return Verdict(score, "elimination", truncated=False)
    if min(hp) <= 0.0:
        return Verdict(float(hp[0] > 0.0), "elimination", truncated=False)
    if not state.edges.below(max(state.zone_s), config.zone_goal_s, "zone goal"):
        return Verdict(_leader(state, hp), "zone", truncated=False)
    if state.decision >= config.max_decisions:
        return Verdict(_leader(state, hp), "time", truncated=True)
    return None


def _leader(state: State, hp: list[float]) -> float:
    for home, away in (state.zone_s, hp):
        if state.edges.below(SCORE_MARGIN, abs(home - away), "lead"):
            return float(home > away)
    return 0.5


def earn(state: State, weights: RewardWeights, verdict: Verdict | None) -> np.ndarray:
    """Weighted components (N, C) of the decision; takes the potentials on to the next."""
    earned = np.array([_earned(state, mech, weights, verdict) for mech in state.mechs])
    return earned * [getattr(weights, name) for name in COMPONENTS]


def _earned(state: State, mech: Mech, weights: RewardWeights, verdict: Verdict | None) -> list[float]:
    books, i = state.books, mech.hull.index
    before, mech.potential = mech.potential, potential(state, mech) if mech.alive and verdict is None else 0.0
    if not mech.acted:
        return [0.0] * len(COMPONENTS)
    enemies = [other.hull.index for other in state.mechs if other.hull.side != mech.hull.side]
    own, other = (state.zone_tick[side] for side in (mech.hull.side, 1 - mech.hull.side))
    win = 0.0 if verdict is None else (2.0 * verdict.score - 1.0) * (-1.0 if mech.hull.side else 1.0)
    earned = {
        "zone": (own - other) * DECISION_S / state.world.config.zone_goal_s,
        "approach": weights.gamma * mech.potential - before,
        "damage": books.dealt[i, enemies].sum() / 100.0,
        "hurt": -books.hurt[i] / 100.0,
        "kill": books.killed[i, enemies].sum(),
        "assist": books.assists[i, enemies].sum(),
        "death": 0.0 if mech.alive else -1.0,
        "paint": float(books.paints[i]),
        "win": win,
    }
    return [earned[name] for name in COMPONENTS]


def share(state: State, earned: np.ndarray) -> np.ndarray:
    """Rewards (N,): own_share of the own, and the rest of the side's mean over who acted."""
    own, rewards = earned.sum(axis=1), np.zeros(len(state.mechs))
    for side in (0, 1):
        acted = [mech.hull.index for mech in state.mechs if mech.hull.side == side and mech.acted]
        if acted:
            rewards[acted] = state.own_share * own[acted] + (1.0 - state.own_share) * own[acted].mean()
    return rewards
