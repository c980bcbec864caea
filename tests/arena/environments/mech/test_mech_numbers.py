"""Numbers of the mech arena, written down once more: rules and oracle read the same ones, and both follow a slip."""

import math

import pytest

from arena.environments.mech.config import constants as rules
from arena.environments.mech.config.chassis import CLASSES, STABILITY
from arena.environments.mech.config.scenario import PACK, PRESETS, Terrain
from arena.environments.mech.config.weapons import LOADOUTS, SMOKE, WEAPONS

CLASS_TABLE = {
    "width": (1.2, 1.5, 2.5, 3.5),
    "height": (1.8, 2.0, 3.0, 4.0),
    "max_speed": (7.0, 6.8, 5.5, 2.5),
    "max_yaw_rate": (1.8, 1.5, 1.0, 0.6),
    "jet_acceleration": (18.0, 16.0, 0.0, 0.0),
    "hp": (60.0, 80.0, 150.0, 200.0),
    "leg_hp": (30.0, 40.0, 75.0, 100.0),
    "heat_capacity": (75.0, 80.0, 100.0, 130.0),
    "dissipation": (13.0, 12.0, 11.0, 10.0),
    "tonnage": (20.0, 35.0, 55.0, 85.0),
    "acoustic_mass": (1.0, 1.5, 2.5, 4.0),
    "wreck_chance": (0.1, 0.3, 0.6, 0.9),
    "ewar": (True, False, False, False),
    "ams": (False, False, False, True),
}
SUITES = {"scout": (20, 1.5, 0.8), "light": (10, 1.2, 0.6), "medium": (8, 1.0, 0.7), "heavy": (5, 0.8, 1.0)}

# range, damage, shake, own heat, heat of the target, cooldown, timer, arc, speed, guidance, splash
WEAPON_TABLE = {
    "laser": (8.0, 14.0, 0.0, 22.0, 6.0, 0.6, "laser", 120.0, 0.0, "hitscan", 0.0, 0.0),
    "flamer": (4.5, 4.0, 0.0, 10.0, 15.0, 0.15, "kinetic", 90.0, 0.0, "hitscan", 0.0, 0.0),
    "missile": (50.0, 40.0, 15.0, 45.0, 0.0, 3.0, "missile", 180.0, 12.0, "homing", 2.5, 0.5),
    "gauss": (20.0, 50.0, 60.0, 15.0, 0.0, 4.0, "kinetic", 60.0, 40.0, "ballistic", 1.5, 0.5),
    "autocannon": (12.0, 8.0, 5.0, 6.0, 0.0, 0.2, "kinetic", 90.0, 25.0, "straight", 0.0, 0.0),
    "painter": (10.0, 0.0, 0.0, 5.0, 0.0, 1.0, "painter", 60.0, 0.0, "hitscan", 0.0, 0.0),
    "smoke": (20.0, 0.0, 0.0, 10.0, 0.0, 5.0, "missile", 180.0, 0.0, "straight", 0.0, 0.0),
}

NUMBERS = {
    "TICK_S": 0.05,
    "TICKS_PER_DECISION": 5,
    "DRAG": 0.98,
    "GRAVITY": 9.81,
    "STEP_UP": 1.1,
    "STEP_UP_SPEED": 1.0,
    "LEGGED_SPEED": 0.4,
    "LEGGED_JETS": 0.5,
    "VENT_FACTOR": 3.0,
    "CRITICAL_HEAT": 0.85,
    "EWAR_HEAT": (0.0, 3.0, 2.0),
    "STABILITY_REGENERATION": 10.0,
    "LEAST_REGENERATION": 0.1,
    "LEGGED_PENALTY": 0.5,
    "MOVING_PENALTY": 0.5,
    "SUPPRESSED_PENALTY": 0.75,
    "MOVING_SPEED": 1.0,
    "LEGGED_STABILITY": 0.5,
    "FALLEN_TICKS": 60,
    "STANDING_STABILITY": 50.0,
    "SUPPRESSED_TICKS": 24,
    "WATER_SPEED": 0.6,
    "HAZARD_HEAT": (0.0, -30.0, 40.0, 20.0, 0.0, 0.0),
    "HAZARD_DAMAGE": (0.0, 0.0, 5.0, 1.25, 0.0, 0.0),
    "REAR_COSINE": 0.707,
    "REAR_FACTOR": 1.5,
    "LEG_HIT_CHANCE": 0.1,
    "LEG_HIT_BODY": 0.5,
    "FOCUS_CONE_RAD": 0.2,
    "NEAREST_CONE_RAD": 0.1,
    "MISSILE_SIGHT_RANGE": 12.0,
    "MISSILE_LOFT": 0.5,
    "MISSILE_BLEND": 0.2,
    "PAINT_TICKS": 100,
    "PAINT_FACTOR": 1.1,
    "LOCK_QUALITY": 0.70,
    "AMS_RANGE": 5.5,
    "AMS_CHANCE": 0.60,
    "AMS_TICKS": 20,
    "SMOKE_SLOTS": 4,
    "SMOKE_RADIUS": 4.0,
    "SMOKE_DECISIONS": 40,
    "SMOKE_DISTANCE": (15.0, 20.0),
    "EWAR_RANGE": 50.0,
    "JAM_WEIGHT": 0.85,
    "ECCM_WEIGHT": 0.65,
    "QUALITY_RANGE": (0.25, 1.5),
    "RADAR_RANGE": 14.0,
    "HOT_HEAT": 0.8,
    "TARGETED_RANGE": 8.0,
    "HIDDEN_NOISE": 0.2,
    "ZONE_RADIUS": 7.5,
    "ZONE_RADIUS_RANGE": (0.5, 1.5),
    "CONTESTED_FLOOR": 0.25,
    "ZONE_GOAL_SHARE": 0.5,
    "SCORE_MARGIN": 1e-3,
    "SPAWN_COLUMNS": 5,
    "SPAWN_PITCH": 3.5,
    "SPAWN_JITTER": 0.25,
    "SPAWN_JITTER_RAD": 0.15,
    "COMM_SIZE": 8,
    "LOCAL_MAP_CELLS": 11,
}


def test_classes_are_as_they_were_set():
    assert list(CLASSES) == ["scout", "light", "medium", "heavy"]
    for field, row in CLASS_TABLE.items():
        assert {field: tuple(getattr(each, field) for each in CLASSES.values())} == {field: row}
    for name, each in CLASSES.items():
        assert (each.suite.slots, each.suite.range_factor, each.suite.fidelity) == SUITES[name]
    assert STABILITY == 100.0


def test_weapons_are_as_they_were_set():
    assert [each.name for each in (*WEAPONS, SMOKE)] == list(WEAPON_TABLE)
    for each in (*WEAPONS, SMOKE):
        arc = pytest.approx(math.degrees(2.0 * each.half_arc_rad))
        row = (
            *(each.range, each.damage, each.shake, each.heat, each.target_heat, each.cooldown_s, each.timer, arc),
            *(each.speed, each.guidance, each.splash_radius, each.splash_scale),
        )
        assert {each.name: row} == {each.name: WEAPON_TABLE[each.name]}


def test_loadouts_match_their_specification():
    assert LOADOUTS == {
        "scout": {"painter": "primary", "smoke": "special"},
        "light": {"flamer": "primary", "laser": "secondary", "painter": "tertiary", "smoke": "special"},
        "medium": {"laser": "primary", "autocannon": "tertiary", "painter": "tertiary", "smoke": "special"},
        "heavy": {"laser": "primary", "missile": "secondary", "gauss": "tertiary", "smoke": "special"},
    }


def test_other_numbers_are_as_they_were_set():
    assert {name: pytest.approx(getattr(rules, name)) for name in NUMBERS} == NUMBERS


def test_presets_are_as_they_were_set():
    assert PACK == ("heavy", "medium", "medium", "light", "scout")
    assert {name: (each.packs, each.map_side, each.limit_s, each.terrain) for name, each in PRESETS.items()} == {
        "mech-duel": ((("medium",),), 40, 60.0, Terrain.OPEN),
        "mech-duel-2": ((("medium",),), 40, 60.0, Terrain.OPEN),
        "mech-pack": ((PACK,), 60, 60.0, Terrain.BROKEN),
        "mech-company": ((PACK, PACK), 100, 125.0, Terrain.BROKEN),
    }
