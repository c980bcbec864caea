"""One match, decision by decision."""

from dataclasses import dataclass

import numpy as np
from mech_oracle.firing import fire, fly
from mech_oracle.looking import look
from mech_oracle.masks import masks
from mech_oracle.movement import collide, integrate
from mech_oracle.observing import observe
from mech_oracle.opening import open_match
from mech_oracle.orders import Order, admit, launch_smoke
from mech_oracle.resolving import resolve
from mech_oracle.scoring import Verdict, earn, potential, score, share
from mech_oracle.sensing import aim, intercept
from mech_oracle.state import NOBODY, State
from mech_oracle.world import World

from arena.environments.mech.config.constants import TICKS_PER_DECISION
from arena.environments.mech.config.rewards import RewardWeights


@dataclass(frozen=True)
class Decided:
    """What came of a decision."""

    components: np.ndarray
    rewards: np.ndarray
    verdict: Verdict | None


@dataclass(frozen=True)
class Perceived:
    """What everybody perceives: blocks (N, ...), masks (N, ...) and who acts (N,)."""

    blocks: dict[str, np.ndarray]
    masks: dict[str, np.ndarray]
    active: np.ndarray


def start(world: World, seed: int, *, maps: int, mechs: int) -> State:
    """Open a match; nobody has looked yet."""
    state = open_match(world, seed, maps=maps, mechs=mechs)
    state.contacts = [[NOBODY] * world.config.contacts for _ in state.mechs]
    for mech in state.mechs:
        mech.potential = potential(state, mech) if mech.alive else 0.0
    return state


def decide(state: State, orders: list[Order], weights: RewardWeights) -> Decided:
    """Play one decision, up to where everybody looks again."""
    admit(state, orders)
    launch_smoke(state)
    first = state.tick
    for tick in range(TICKS_PER_DECISION):
        state.tick = first + tick
        play_tick(state)
    state.tick = first
    verdict = score(state)
    components = earn(state, weights, verdict)
    return Decided(components, share(state, components), verdict)


def play_tick(state: State) -> None:
    """Play one tick."""
    integrate(state)
    collide(state)
    shots = aim(state)
    intercept(state)
    hits = fly(state)
    hits += fire(state, shots)
    resolve(state, hits)


def perceive(state: State) -> Perceived:
    """Let everybody look, and write down what they perceive."""
    look(state)
    rows = [observe(state, mech) for mech in state.mechs]
    masked = [masks(state, mech) for mech in state.mechs]
    return Perceived(
        {name: np.stack([row[name] for row in rows]) for name in rows[0]},
        {name: np.stack([row[name] for row in masked]) for name in masked[0]},
        np.array([mech.alive for mech in state.mechs]),
    )
