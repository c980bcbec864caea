"""The batch against a scalar oracle that was written from the rule book."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from mech_oracle.following import Follower, FreeRunner, Tally
from mech_oracle.world import World
from mech_play import RandomOrders, brawl

from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.rules import Build
from arena.environments.mech.config.scenario import BUILDS, LONG_DUEL, PRESETS, MechConfig, ObservationMode, Terrain
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.maps.pool import build_pool

SCOUTS = (
    Build("spy", (("painter", "primary"),)),
    Build("raider", (("laser", "secondary"),), hp_factor=0.8, speed_factor=1.1),
    Build("guard", (("painter", "primary"), ("gauss", "tertiary")), hp_factor=1.3),
)
COMPOSITIONS = {
    **PRESETS,
    "uneven": MechConfig("uneven", (("scout", "heavy"), ("light",), ("heavy", "medium")), map_side=60, limit_s=30.0),
    "open-full": MechConfig(
        "open-full",
        (("heavy", "light", "scout"), ("heavy",)),
        map_side=60,
        limit_s=12.0,
        terrain=Terrain.OPEN,
        observation_mode=ObservationMode.FULL,
    ),
    "builds": MechConfig(
        "builds",
        (("medium", "scout"), ("medium",)),
        map_side=60,
        limit_s=12.0,
        rules=replace(LONG_DUEL, builds=(("medium", BUILDS), ("scout", SCOUTS)), speed_spread=0.1, heat_spread=0.5),
    ),
}
SCALE = {
    "mech-duel": (3, 200),
    "mech-duel-2": (3, 200),
    "mech-pack": (1, 200),
    "mech-company": (1, 200),
    "uneven": (3, 50),
    "open-full": (3, 50),
    "builds": (3, 60),
}
"""Matches and decisions of each composition."""


def make(name: str, rows: int) -> tuple[MechEnvironment, World]:
    config = COMPOSITIONS[name]
    env = MechEnvironment(config, RewardWeights(), num_envs=rows, device="cpu", seed=3)
    return env, World(config, build_pool(config))


def weaken(env: MechEnvironment) -> None:
    """In every other row some have no legs, most are hurt, hot and shaken, and not everybody's triggers are heeded."""
    arrays, rng = env.arrays, torch.Generator().manual_seed(8)
    share = torch.rand(arrays["hp"].shape, generator=rng)
    for name in ("hp", "leg_hp", "stability"):
        arrays[name][::2] *= 0.2 + 0.8 * share[::2]
    arrays["leg_hp"][::2, ::3] = 0.0
    arrays["heat"][::2] = 120.0 * share[::2]
    arrays["fire_probability"][::2, 0] = 0.7


def fight(name: str) -> Tally:
    rows, decisions = SCALE[name]
    env, world = make(name, rows)
    follower = Follower(env, world)
    env.reset()
    brawl(env, 0.2, 0.12, 0.5)
    weaken(env)
    play = RandomOrders(env.spec, list(range(rows)))
    for decision in range(decisions):
        actions = play.draw()
        actions["target"] = actions["target"].remainder(5)
        if decision == decisions // 2:
            env.arrays["mechs"].fill_(max(1, len(env.config.team) - 1))
            env.arrays["maps"].fill_(10)
            env.arrays["decision"][-1] = env.config.max_decisions - 9
            actions["move"][0, 0, 0] = torch.nan
        follower.step(actions)
    return follower.tally


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    return {}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_batch_plays_by_the_scalar_rules(name: str, tallies: dict[str, Tally]):
    tally = tallies[name] = fight(name)

    rows, decisions = SCALE[name]
    assert tally.decisions == rows * decisions
    assert tally.differences == []
    assert len(tally.excused) <= 1 + tally.decisions // 200, tally.excused


def test_oracle_fights_cover_all_rules(tallies: dict[str, Tally]):
    if tallies.keys() != COMPOSITIONS.keys():
        pytest.skip("counts over all fights; run them, too")
    seen = sum((tally.seen for tally in tallies.values()), Counter())
    rare = (
        *("elimination", "time", "deaths", "wrecks", "falls", "stands up", "shut down", "suppressed", "assists"),
        *("downed missiles", "airborne", "ceiling", "friendly fire", "splash", "shot beside"),
        *("lock by sight alone", "focus", "gun's focus", "rear hit", "leg hit"),
        *("laser hits", "flamer hits", "painter hits", "missile hits", "gauss hits", "autocannon hits"),
        *("build 0", "build 1", "build 2"),
        *("bump", "bump into a wreck", "wall", "cloud takes an old one's place", "legged"),
    )
    assert {what: seen[what] for what in rare if not seen[what]} == {}


@pytest.mark.parametrize("name", ["mech-duel", "mech-duel-2", "mech-pack"])
def test_batch_stays_with_an_oracle_that_knows_only_seed_and_actions(name: str):
    env, world = make(name, 2)
    env.arrays["maps"].fill_(4)
    env.reset()
    runner = FreeRunner(env, world)
    play = RandomOrders(env.spec, list(range(2)))
    for _ in range(200):
        actions = play.draw()
        actions["move"][..., 0].abs_()
        runner.step(actions)
        if not runner.running:
            break

    assert runner.differences == []
    assert runner.decisions > 30
