"""Rules in which presets differ: spread of shots, ties broken by the zone, hit points and damage."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from mech_play import idle
from refused import refused

from arena.environments import declare
from arena.environments.base import StepResult
from arena.environments.mech.config.constants import MOVES, REASONS
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.rules import Build, MechRules
from arena.environments.mech.config.scenario import PRESETS, MechConfig
from arena.environments.mech.config.weapons import AUTOCANNON, GAUSS, LASER, MISSILE, TRIGGERS, WEAPONS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.observation_spec import make_spec

ROWS = 512
DUEL = PRESETS["mech-duel"]
DISTANCE = 7.0
SPREAD = MechRules(heat_spread=0.4, speed_spread=0.03)


def duel(rules: MechRules, rows: int = ROWS, distance: float = DISTANCE) -> MechEnvironment:
    """Two mechs that look at each other, in every row with a seed of its own."""
    env = MechEnvironment(replace(DUEL, rules=rules), RewardWeights(), num_envs=rows, device="cpu", seed=1)
    env.reset(torch.arange(rows))
    for mech, x, ahead in ((0, -distance / 2, 1.0), (1, distance / 2, -1.0)):
        env.arrays["position"][:, mech] = torch.tensor([x, 0.0, 0.0])
        env.arrays["heading"][:, mech] = torch.tensor([ahead, 0.0])
    env.step(idle(env.spec, rows))  # look once
    return env


def fire(env: MechEnvironment, trigger: str, *mechs: int) -> StepResult:
    actions = idle(env.spec, env.num_envs)
    for mech in mechs:
        actions["trigger"][:, mech, TRIGGERS.index(trigger)] = True
    return env.step(actions)


def shell_angles(env: MechEnvironment) -> np.ndarray:
    """Angles to the left of the home mechs' newest shells."""
    velocity, weapon = env.arrays["shell_velocity"][:, 0, 0], env.arrays["shell_weapon"][:, 0, 0]
    assert (weapon == WEAPONS.index(AUTOCANNON)).all()
    return torch.atan2(velocity[:, 1], velocity[:, 0]).numpy()


@pytest.mark.parametrize("rules", [MechRules(), MechRules(heat_spread=0.4), MechRules(speed_spread=0.03), SPREAD])
@pytest.mark.parametrize("heat", [0.0, 50.0])
@pytest.mark.parametrize("throttle", [0.0, -1.0])
def test_shots_spread_by_the_heat_and_the_speed_of_the_shooter(rules: MechRules, heat: float, throttle: float) -> None:
    env = duel(rules)
    retreat = idle(env.spec, ROWS)
    retreat["move"][:, 0, MOVES.index("forward")] = throttle
    env.step(retreat)
    env.arrays["heat"][:, 0] = heat
    retreat["trigger"][:, 0, TRIGGERS.index("tertiary")] = True

    env.step(retreat)

    angles, speed = shell_angles(env), env.arrays["velocity"][0, 0].norm().item()
    assert (speed > 1.0) == (throttle < 0.0)
    by_heat = rules.heat_spread * heat / env.config.team[0].heat_capacity
    largest = by_heat + rules.speed_spread * speed
    # Heat and speed change a little before the shot.
    assert np.abs(angles).max() == pytest.approx(largest, abs=0.1 * largest + 1e-6)
    assert abs(angles.mean()) <= 4.0 * largest / math.sqrt(3.0 * ROWS) + 1e-6
    assert angles.std() == pytest.approx(largest / math.sqrt(3.0), abs=0.15 * largest + 1e-6), "uniform"


def test_a_laser_misses_by_the_share_of_angles_beside_the_target() -> None:
    spread, heat = 0.4, 80.0
    env = duel(MechRules(heat_spread=spread, weapons=(replace(AUTOCANNON, damage=0.0),)))
    env.arrays["heat"][:, 0] = heat
    radius = env.config.team[0].hit_radius

    fire(env, "primary", 0)

    hit = (env.arrays["hp"][:, 1] < env.config.team[0].hp).double().mean().item()
    largest = spread * (heat - 0.25 * env.config.team[0].dissipation) / env.config.team[0].heat_capacity
    assert hit == pytest.approx(min(1.0, radius / DISTANCE / largest), abs=0.07)
    assert (env.arrays["timers"][:, 0, 0] > 0).all(), "a shot that misses costs its cooldown"


def fall_together(rules: MechRules, home_zone_s: float) -> float:
    """Let both mechs shoot each other down in one tick; return home's score."""
    env = duel(rules, rows=1)
    env.arrays["hp"].fill_(1.0)
    env.arrays["zone_s"].copy_(torch.tensor([[home_zone_s, 0.0]]))
    outcome = fire(env, "primary", 0, 1).outcome
    assert REASONS[outcome.reason.item()] == "elimination"
    return outcome.score.item()


def test_zone_seconds_break_a_tie_only_by_the_rule() -> None:
    breaks_ties = MechRules(zone_breaks_ties=True)
    assert fall_together(MechRules(), 3.0) == 0.5
    assert fall_together(breaks_ties, 3.0) == 1.0
    assert fall_together(breaks_ties, 0.0) == 0.5


def test_hit_points_and_damage_follow_the_rules() -> None:
    env = duel(MechRules(hp_factor=2.0, weapons=(replace(LASER, damage=33.0),)), rows=1)
    assert env.arrays["hp"].tolist() == [[300.0, 300.0]]
    assert env.arrays["leg_hp"].tolist() == [[150.0, 150.0]]

    fire(env, "primary", 0)

    taken = 300.0 - env.arrays["hp"][0, 1].item()
    assert taken in (33.0, 16.5), "the whole damage, or half of it for a hit on the legs"


def test_mechs_carry_and_fire_the_weapons_of_the_rules() -> None:
    slow = replace(GAUSS, cooldown_s=5.0, heat=30.0)
    env = duel(MechRules(weapons=(slow,), builds=(("medium", (Build("sniper", (("gauss", "secondary"),)),)),)), rows=1)

    for trigger in ("primary", "tertiary"):
        fire(env, trigger, 0)
        assert not env.arrays["shell_reach"].any()
    fire(env, "secondary", 0)

    assert env.arrays["shell_weapon"][0, 0, 2] == WEAPONS.index(GAUSS)
    assert env.arrays["timers"][0, 0].tolist() == [0, 0, slow.cooldown_ticks - 4, 0]
    assert env.arrays["heat"][0, 0].item() == pytest.approx(30.0 - 0.2 * env.config.team[0].dissipation, abs=1e-3)


def test_rules_are_part_of_the_signature() -> None:
    assert make_spec(DUEL).signature == declare("mech-duel").signature
    assert make_spec(replace(DUEL, rules=SPREAD)).signature != make_spec(DUEL).signature


@pytest.mark.parametrize(
    ("rules", "values"),
    [
        (MechRules(hp_factor=0.0), ("rules.hp_factor", 0.0)),
        (MechRules(weapons=(replace(LASER, name="lazer"),)), ("'lazer'", "laser")),
        (MechRules(weapons=(replace(LASER, damage=-3.0),)), ("'laser'", "damage", -3.0)),
        (MechRules(weapons=(replace(LASER, cooldown_s=0.0),)), ("'laser'", "cooldown_s", 0.0)),
        (MechRules(weapons=(replace(MISSILE, speed=3.0),)), ("'missile'", "cooldown_s", "splash_scale")),
        (MechRules(zone_goal_share=0.0), ("rules.zone_goal_share", 0.0)),
        (MechRules(speed_spread=-0.1), ("rules.speed_spread", -0.1)),
        (MechRules(heat_spread=math.nan), ("rules.heat_spread", "nan")),
    ],
)
def test_rules_that_cannot_be_played_are_rejected(rules: MechRules, values: tuple[object, ...]) -> None:
    with refused("invalid-composition", "mine", *values):
        MechConfig("mine", (("medium",),), map_side=40, limit_s=60.0, rules=rules)
