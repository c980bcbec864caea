"""Rules that fights seldom show, in scenes set by hand; the oracle looks on in every one of them."""

import pytest
import torch
from mech_scene import EAST, NORTH, SOUTH, WEST, Scene, built_scene, open_scene

from arena.environments.mech.config.chassis import HEAVY, LIGHT, MEDIUM, SCOUT
from arena.environments.mech.config.constants import (
    AMS_TICKS,
    CEILING,
    DEBRIS,
    DRAG,
    FALLEN_TICKS,
    FOLIAGE,
    GLASS,
    LAVA,
    LEGGED_SPEED,
    PLAIN,
    REAR_FACTOR,
    SMOKE_DECISIONS,
    STANDING_STABILITY,
    WATER,
    WATER_SPEED,
)
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.weapons import MISSILE, SMOKE, WEAPONS

WEIGHTS = RewardWeights()
DUEL = [("medium",)]
HEAVIES = [("heavy", "scout")]
EVERYWHERE = (range(-30, 30), range(-30, 30))


def at(x: float, y: float, heading: tuple[float, float] = EAST, z: float = 0.0, **arrays: float) -> dict:
    return {"position": (x, y, z), "heading": heading, **arrays}


def speed(scene: Scene, mech: int) -> float:
    return float(scene["velocity"][mech, :2].norm())


def test_two_that_fire_in_one_tick_kill_each_other():
    scene = open_scene(DUEL, {0: at(-2, 0), 1: at(2, 0, WEST)})
    scene["hp"][:] = 5.0

    step = scene.play(trigger={0: ["primary"], 1: ["primary"]})

    assert bool(step.terminated[0])
    assert step.outcome.score[0] == 0.5
    assert step.final_observation.active[0].tolist() == [False, False]


@pytest.mark.parametrize("distance", [6.0, 12.0, 19.0])
def test_gauss_slug_hits_its_target_and_knocks_it_down(distance: float):
    scene = open_scene([("heavy",)], {0: at(0, 0), 1: at(distance, 0, NORTH, stability=40.0)})
    scene.play(trigger={0: ["tertiary"]})
    scene.play(3)

    assert scene["hp"].tolist() == [200.0, 150.0]
    assert scene["fallen_ticks"][1] > 0
    assert scene.happened["gauss hits"] == 1


def test_gun_without_a_target_fires_level_along_the_heading():
    scene = open_scene([("heavy",)], {0: at(0, 0), 1: at(0, 9, NORTH)})

    scene.play(trigger={0: ["tertiary"]})

    assert scene["shell_velocity"][0, 2, 1] == 0.0
    assert scene["timers"][0].tolist() == [0, 0, 76, 0]


def placed_round_a_wall() -> dict[int, dict]:
    """A heavy north of two mediums of which the first is its target; column 7 is between the two."""
    return {0: at(5.9, 9, SOUTH), 4: at(5.9, 0, NORTH), 5: at(9.1, 0, NORTH)}


@pytest.mark.parametrize(
    ("height", "material", "hurt"), [(0, PLAIN, True), (9, PLAIN, False), (9, GLASS, False), (0, FOLIAGE, True)]
)
def test_splash_is_blocked_by_ground_and_glass(monkeypatch, height: int, material: int, hurt: bool):
    wall, packs = (range(7, 8), range(-10, 4)), [("heavy", "medium", "medium")]
    scene = built_scene(
        monkeypatch, packs, placed_round_a_wall(), heights=[(wall, height)], materials=[(wall, material)]
    )

    scene.play(trigger={0: ["secondary"]}, target={0: 1 + scene["contact"][0].tolist().index(4)})
    scene.play(5)

    assert MISSILE.damage <= MEDIUM.hp - float(scene["hp"][4]) <= MISSILE.damage * REAR_FACTOR
    assert bool(scene["hp"][5] < MEDIUM.hp) == hurt
    assert bool(scene.happened["splash blocked"]) != hurt


def missile_flies(scene: Scene) -> bool:
    scene.play(trigger={0: ["secondary"]})
    return bool(scene["timers"][0, 1])


@pytest.mark.parametrize(
    ("distance", "painter", "flies"), [(11.9, -1, True), (12.2, -1, False), (20.0, 1, True), (20.0, 2, False)]
)
def test_missile_locks_by_sight_nearby_and_by_paint_of_the_own_pack_far_away(
    distance: float, painter: int, flies: bool
):
    packs = [("heavy", "scout"), ("scout",)]
    scene = open_scene(packs, {0: at(0, 0), 1: at(0, -20), 2: at(0, -25), 3: at(distance, 0, NORTH)})
    scene["painted_by"][3], scene["painted_ticks"][3] = painter, 90 if painter >= 0 else 0

    assert missile_flies(scene) == flies


@pytest.mark.parametrize(("option", "flies"), [("off", True), ("ecm", False)])
def test_jammed_launcher_gets_no_lock_from_paint(option: str, flies: bool):
    scene = open_scene(HEAVIES, {0: at(0, 0), 1: at(0, -20), 3: at(15, 0, NORTH)})
    scene["painted_by"][3], scene["painted_ticks"][3] = 1, 90
    scene.play(ewar={3: option})

    assert missile_flies(scene) == flies


def test_missile_locks_through_a_wall_by_paint_only(monkeypatch):
    wall = [((range(4, 5), range(-10, 10)), 9)]
    scene = built_scene(monkeypatch, HEAVIES, {0: at(0, 0), 1: at(0, -20), 3: at(9, 0, NORTH)}, heights=wall)
    assert not missile_flies(scene)
    scene["painted_by"][3], scene["painted_ticks"][3] = 1, 90

    assert missile_flies(scene)


def test_two_anti_missile_systems_may_try_for_the_same_missile():
    downed = set()
    for tick in range(40):
        scene = open_scene([("heavy", "heavy")], {0: at(-9, 0), 2: at(5, 2, WEST), 3: at(5, -2, WEST)})
        scene["tick"].fill_(tick)
        scene["shell_position"][0, 0] = torch.tensor([0.0, 0.0, 2.0])
        scene["shell_velocity"][0, 0] = torch.tensor([12.0, 0.0, 0.0])
        scene["shell_reach"][0, 0] = 20.0
        scene["shell_weapon"][0, 0], scene["shell_target"][0, 0] = WEAPONS.index(MISSILE), 2
        scene.play()
        assert bool((scene["ams_ticks"][2:] == AMS_TICKS - 4).all())
        downed.add(tuple(scene["intercepted"][2:].tolist()))
        if len(downed) == 4:
            break

    assert downed == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_fifth_cloud_takes_the_place_of_the_first():
    scene = open_scene(DUEL, {0: at(-20, 0, NORTH), 1: at(20, 0, NORTH)})
    centres = []
    for _ in range(5):
        scene["timers"][0] = 0
        scene.play(trigger={0: ["special"]})
        centres.append(scene["smoke_centre"][0, (len(centres)) % 4].clone())

    assert scene["smoke_count"].tolist() == [5, 0]
    assert scene["smoke_left"][0].tolist() == [SMOKE_DECISIONS, *range(SMOKE_DECISIONS - 3, SMOKE_DECISIONS)]
    assert torch.equal(scene["smoke_centre"][0, 0], centres[4])
    assert not torch.equal(centres[0], centres[4])
    assert scene["timers"][0, 1] == SMOKE.cooldown_ticks - 5


def test_smoke_hides_for_as_long_as_it_hangs():
    scene = open_scene(DUEL, {0: at(-14, 0), 1: at(14, 0, WEST)})
    seen = scene.env.spec.layout["panel"].start + 3
    scene.play(trigger={0: ["special"]})
    hidden = [float(scene.play().observation.values[0, 0, seen]) for _ in range(SMOKE_DECISIONS)]

    assert hidden == [0.0] * (SMOKE_DECISIONS - 1) + [1.0]


def test_mech_without_legs_is_slow_unsteady_and_stays_on_the_ground():
    placed = {0: at(0, 0, leg_hp=0.0), 1: at(0, 9), 2: at(20, 0)}
    scene = open_scene([("light", "light")], placed)
    start = scene["position"][:2, 0].clone()

    scene.play(4, move={0: {"forward": 1.0, "vertical": 1.0}, 1: {"forward": 1.0, "vertical": 1.0}})

    assert speed(scene, 0) == pytest.approx(LEGGED_SPEED * LIGHT.max_speed * DRAG, rel=1e-5)
    assert scene["position"][:2, 0] - start == pytest.approx([0.4 * 6.664, 6.664], rel=1e-4)
    assert scene["position"][0, 2] == 0.0
    assert scene["position"][1, 2] > 1.0
    assert scene["stability"].tolist()[:2] == [50.0, 100.0]


def test_fallen_mech_lies_for_three_seconds_and_rises_unstable():
    scene = open_scene(DUEL, {0: at(-4, 0), 1: at(4, 0, WEST)})
    scene["stability"][1] = 1.0
    scene.play(2, trigger={0: ["tertiary"]})
    assert scene["fallen_ticks"][1] == pytest.approx(FALLEN_TICKS - 2, abs=4)
    assert scene["stability"][1] == 0.0

    scene.play(10, move={1: {"forward": 1.0}}, trigger={1: ["tertiary"]})
    assert speed(scene, 1) == 0.0
    assert scene["timers"][1, 2] == 0, "guns cannot fire while fallen"

    scene.play(2, move={1: {"forward": 1.0}})
    assert scene["fallen_ticks"][1] == 0
    assert STANDING_STABILITY < float(scene["stability"][1]) <= STANDING_STABILITY + 2.5
    assert speed(scene, 1) > 5.0


def test_fallen_mech_still_fires_its_laser():
    scene = open_scene(DUEL, {0: at(-3, 0, fallen_ticks=40), 1: at(3, 0, WEST)})

    scene.play(trigger={0: ["primary", "tertiary"]})

    assert scene["hp"][1] < MEDIUM.hp
    assert scene["timers"][0].tolist() == [8, 0, 0, 16], "laser and painter, not the autocannon"


@pytest.mark.parametrize("wreck", [True, False])
def test_wreck_blocks_the_way(wreck: bool):
    scene = open_scene([("medium", "medium")], {0: at(-6, 0), 1: at(0, 0.5), 2: at(20, 0)})
    scene["hp"][1], scene["wreck"][1] = 0.0, wreck

    scene.play(9, move={0: {"forward": 1.0}})

    assert float(scene["position"][0, 0]) == (pytest.approx(-2.64, abs=0.14) if wreck else pytest.approx(6.1, abs=0.2))
    assert bool(scene.happened["bump into a wreck"]) == wreck
    assert scene["position"][1].tolist() == [0.0, 0.5, 0.0]


@pytest.mark.parametrize(("height", "passes"), [(2, True), (1, False)])
def test_wreck_is_half_as_high_as_the_mech(monkeypatch, height: int, passes: bool):
    """A scout walks along a ledge under which a medium, 3 m high, lies."""
    ledge = [((range(12), range(-12, 12)), height)]
    placed = {0: at(0.7, -4, NORTH), 2: at(20, 20)}
    scene = built_scene(monkeypatch, [("scout", "medium")], placed, heights=ledge)
    scene["position"][1] = torch.tensor([-0.9, 0.0, 0.0])
    scene["wreck"][1] = True

    scene.play(6, move={0: {"forward": 1.0}})

    assert scene["position"][0, 2] == height
    assert bool(scene["position"][0, 1] > 4.0) == passes


@pytest.mark.parametrize(
    ("material", "pace", "heat", "hurt"),
    [(WATER, WATER_SPEED, 30.0 - 2.5 - 7.5, 0.0), (LAVA, 1.0, 30.0 - 2.5 + 10.0, 1.25), (DEBRIS, 1.0, 32.5, 0.3125)],
)
def test_ground_slows_cools_heats_and_burns(monkeypatch, material: int, pace: float, heat: float, hurt: float):
    """Of a heavy, in one decision of a quarter of a second."""
    placed = {0: at(0, 0), 1: at(20, 0)}
    scene = built_scene(monkeypatch, [("heavy",)], placed, materials=[((range(-9, 9), range(-9, 9)), material)])
    scene["heat"][0], scene["hp"][0] = 30.0, 100.0

    scene.play(move={0: {"forward": 1.0}})

    assert speed(scene, 0) == pytest.approx(HEAVY.max_speed * DRAG * pace, rel=1e-5)
    assert float(scene["heat"][0]) == pytest.approx(heat, abs=1e-3)
    assert float(scene["hp"][0]) == pytest.approx(100.0 - hurt, abs=1e-4)
    assert float(scene["terrain_damage"][0]) == pytest.approx(hurt, abs=1e-4)


def test_hazards_do_not_affect_flying_mechs(monkeypatch):
    placed = {0: at(0, 0, z=5.0), 1: at(20, 0)}
    scene = built_scene(monkeypatch, [("scout",)], placed, materials=[(EVERYWHERE, LAVA)])

    scene["hp"][1] = 1e6
    scene.play(3, move={0: {"vertical": 1.0}})

    assert scene["hp"][0] == SCOUT.hp
    assert scene["heat"][0] == 0.0


def test_jets_climb_to_the_ceiling_and_no_higher():
    scene = open_scene([("scout",)], {0: at(0, 0), 1: at(20, 0)})
    heights = []
    for _ in range(16):
        scene.play(move={0: {"vertical": 1.0}})
        heights.append(float(scene["position"][0, 2]))

    assert heights == sorted(heights)
    assert heights[-1] == CEILING
    assert scene["velocity"][0, 2] == 0.0
    scene.play(8)
    assert scene["position"][0, 2] == 0.0


@pytest.mark.parametrize(("height", "passes"), [(1, True), (2, False)])
def test_mechs_walk_up_a_metre_and_no_more(monkeypatch, height: int, passes: bool):
    placed = {0: at(-6, 0), 1: at(20, 20)}
    scene = built_scene(monkeypatch, DUEL, placed, heights=[((range(8), range(-9, 9)), height)])

    scene.play(7, move={0: {"forward": 1.0}})

    x, _, z = scene["position"][0].tolist()
    assert (x > 2.0, z) == ((True, 1.0) if passes else (False, 0.0))
    assert x > 2.0 or -1.3 <= x < -1.0, "the whole footprint stays before the wall"


@pytest.mark.parametrize(
    ("material", "height", "sees", "hits"), [(GLASS, 6, True, False), (FOLIAGE, 0, False, True), (0, 6, False, False)]
)
def test_glass_stops_shells_and_foliage_stops_looks(monkeypatch, material: int, height: int, sees: bool, hits: bool):
    cells = (range(2), range(-9, 9))
    placed = {0: at(-4, 0), 1: at(5, 0, NORTH)}
    scene = built_scene(monkeypatch, DUEL, placed, heights=[(cells, height)], materials=[(cells, material)])

    scene.play(4, trigger={0: ["tertiary"]})

    assert bool(scene["sight"][0, 1] == 3) == sees
    assert bool(scene["hp"][1] < MEDIUM.hp) == hits
    assert bool(scene["painted_ticks"][1] > 0) == sees


@pytest.mark.holds("T14")
def test_focus_is_hit_although_another_is_nearer():
    placed = {0: at(0, 0), 1: at(0, -20), 2: at(3, 1, NORTH), 3: at(5, -1, NORTH)}
    scene = open_scene([("medium", "medium")], placed)
    slots = scene["contact"][0].tolist()
    assert slots[:2] == [2, 3]

    scene.play(trigger={0: ["primary"]}, target={0: 2})

    assert scene["hp"][2] == MEDIUM.hp
    assert scene["hp"][3] < MEDIUM.hp


def test_painter_earns_the_assist_of_its_pack_only():
    placed = {0: at(0, 0), 1: at(2, -8), 2: at(0, 5), 3: at(6, 0, NORTH)}
    scene = open_scene([("medium", "scout"), ("medium",)], {**placed, 4: at(20, 20)})
    scene["painted_by"][3], scene["painted_ticks"][3], scene["hp"][3] = 1, 90, 20.0

    scene.play(trigger={0: ["primary"], 2: ["primary"]})

    assert scene["killed"][:3, 3].tolist() == pytest.approx([15.4 / 29.4, 0.0, 14.0 / 29.4], abs=1e-4)
    assert scene["assists"][1, 3] == pytest.approx(15.4 / 29.4, abs=1e-4)


def test_splash_damages_allies_without_reward():
    placed = {0: at(0, 0), 1: at(7.5, 3.2), 2: at(9, 0, NORTH), 3: at(20, 20)}
    scene = open_scene([("heavy", "medium")], placed)
    scene["ams_ticks"][2] = AMS_TICKS
    names = scene.env.component_names
    earned = torch.zeros(scene.env.spec.num_agents, len(names))
    scene.play(trigger={0: ["secondary"]})
    for _ in range(4):
        scene.play()
        earned += scene.env.components[0]
    damage, hurt = (earned[:, names.index(name)] for name in ("damage", "hurt"))

    lost = MEDIUM.hp - float(scene["hp"][1])
    taken = HEAVY.hp - float(scene["hp"][2])
    assert lost > 1.0
    assert damage[:2].tolist() == pytest.approx([taken / 100.0 * WEIGHTS.damage, 0.0], abs=1e-4)
    assert hurt[:3].tolist() == pytest.approx(
        [0.0, -lost / 100.0 * WEIGHTS.hurt, -taken / 100.0 * WEIGHTS.hurt], abs=1e-4
    )
