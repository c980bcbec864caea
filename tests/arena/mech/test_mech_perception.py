"""Who knows of whom, what everybody perceives, and which actions matter; the oracle looks on in every scene."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from mech_play import RandomOrders, brawl, idle, perceived, swapped
from mech_scene import EAST, NORTH, WEST, Scene, built_scene, composition, open_scene

from arena.environments.mech.armament import TRIGGERS
from arena.environments.mech.composition import PRESETS, MechConfig, ObservationMode, Terrain
from arena.environments.mech.kernels.state import CLEAR, SMOKE_FREE
from arena.environments.mech.layout import (
    CONDITION_FEATURES,
    CONTACT_FEATURES,
    EDGE_FEATURES,
    MATE_FEATURES,
    MOTION_FEATURES,
    PANEL_FEATURES,
    SENSOR_FEATURES,
    ZONE_FEATURES,
)
from arena.environments.mech.rewards import RewardWeights
from arena.environments.mech.rules import DEBRIS, FOLIAGE, GLASS, LAVA, MOVES, WATER
from arena.environments.mech.simulation import MechEnvironment
from arena.environments.mech.terrain import build_pool
from arena.environments.protocol import StepResult

DUEL = [("medium",)]
DIAGONAL = 60.0 * math.sqrt(2.0)
WALL = ((range(-1, 1), range(-30, 30)), 10)
"""Cells from south to north through the middle of the map, higher than all eyes."""
FEATURES = {
    "condition": CONDITION_FEATURES,
    "motion": MOTION_FEATURES,
    "zone": ZONE_FEATURES,
    "edge": EDGE_FEATURES,
    "sensors": SENSOR_FEATURES,
    "panel": PANEL_FEATURES,
}


def at(x: float, y: float, heading: tuple[float, float] = EAST, z: float = 0.0, **arrays: float) -> dict:
    return {"position": (x, y, z), "heading": heading, **arrays}


def full_scene(packs: list, placed: dict) -> Scene:
    """A scene on open ground in which everybody is seen."""
    config = replace(composition(*packs), observation_mode=ObservationMode.FULL)
    return Scene(MechEnvironment(config, RewardWeights(), num_envs=1, device="cpu", seed=0), build_pool(config), placed)


def read(scene: Scene, step: StepResult, name: str, mech: int = 0) -> torch.Tensor:
    """A block of what a mech perceived before any reset."""
    block = next(block for block in scene.env.spec.observation if block.name == name)
    return step.final_observation.values[0, mech, scene.env.spec.layout[name]].view(block.shape)


def feel(scene: Scene, step: StepResult, block: str, mech: int = 0) -> dict[str, float]:
    """A block's features by name."""
    return dict(zip(FEATURES[block], read(scene, step, block, mech).tolist(), strict=True))


def contacts(scene: Scene, step: StepResult, mech: int = 0) -> list[dict[str, float]]:
    """Features by name of the contacts that a mech has."""
    table, mask = read(scene, step, "contacts", mech), read(scene, step, "contact_mask", mech)
    used = int(mask.sum())
    assert mask.tolist() == [1.0] * used + [0.0] * (len(mask) - used)
    assert not table[used:].any()
    return [dict(zip(CONTACT_FEATURES, row.tolist(), strict=True)) for row in table[:used]]


def mask(step: StepResult, head: str, mech: int = 0) -> list[bool]:
    return step.final_observation.masks[head][0, mech].tolist()


# Who knows of whom


@pytest.mark.parametrize(
    ("viewer", "distance", "jam", "seen"),
    [
        ("medium", 13.5, False, True),
        ("medium", 14.5, False, False),
        ("heavy", 10.5, False, True),
        ("heavy", 11.5, False, False),
        ("light", 16.0, False, True),
        ("light", 17.5, False, False),
        ("scout", 20.5, False, True),
        ("scout", 21.5, False, False),
        ("medium", 5.5, True, True),
        ("medium", 8.5, True, False),
    ],
)
def test_radar_sees_through_walls_as_far_as_it_reaches(
    monkeypatch: pytest.MonkeyPatch, viewer: str, distance: float, jam: bool, seen: bool
):
    x = distance / 2.0
    placed = {0: at(-x, 0), 2: at(x, 0, WEST), 3: at(20.0 if jam else 29.0, 0)}
    scene = built_scene(monkeypatch, [(viewer, "scout")], placed, heights=[WALL])

    step = scene.play(ewar={3: "ecm" if jam else "off"})

    assert bool(scene["seen"][0, 2]) == seen
    assert scene["sight"][0, 2] == SMOKE_FREE
    assert len([one for one in contacts(scene, step) if one["hostile"]]) == int(seen) + int(jam)


@pytest.mark.parametrize(
    ("arrays", "seen"),
    [
        ({}, False),
        ({"heat": 79.0}, False),
        ({"heat": 84.0}, True),
        ({"heat": 120.0}, True),
        ({"painted_by": 0, "painted_ticks": 50}, True),
        ({"painted_by": 1, "painted_ticks": 50}, False),
    ],
)
def test_heat_and_the_own_packs_paint_show_who_is_behind_a_wall(
    monkeypatch: pytest.MonkeyPatch, arrays: Mapping[str, float], seen: bool
):
    scene = built_scene(monkeypatch, [("medium",), ("medium",)], {0: at(-10, 0), 1: at(-10, 9), 2: at(10, 0)}, [WALL])
    for name, value in arrays.items():
        scene[name][2] = value

    scene.play()

    assert bool(scene["seen"][0, 2]) == seen


def test_jammed_sensors_do_not_see_paint(monkeypatch: pytest.MonkeyPatch):
    placed = {0: at(-10, 0), 2: at(10, 0, painted_by=0, painted_ticks=90), 3: at(20, 0)}
    scene = built_scene(monkeypatch, [("medium", "scout")], placed, [WALL])
    assert bool(scene["seen"][0, 2])

    scene.play(ewar={3: "ecm"})

    assert scene["quality"][0] < 0.7
    assert not scene["seen"][0, 2]


@pytest.mark.parametrize("option", ["off", "ecm", "eccm"])
def test_electronic_warfare_gives_away_who_is_behind_a_wall_but_not_behind_smoke(
    monkeypatch: pytest.MonkeyPatch, option: str
):
    scene = built_scene(monkeypatch, [("scout",)], {0: at(-15, 0), 1: at(15, 0)}, [WALL])

    scene.play(ewar={1: option})
    assert bool(scene["seen"][0, 1]) == (option != "off")

    hang_smoke(scene, 8.0, 0.0)
    scene.play(ewar={1: option})
    assert not scene["seen"][0, 1]


def hang_smoke(scene: Scene, x: float, y: float, z: float = 2.0) -> None:
    scene["smoke_centre"][0, 0] = torch.tensor([x, y, z])
    scene["smoke_left"][0, 0] = 9


@pytest.mark.parametrize(
    ("cloud", "hides"), [((0, 0), True), ((0, 3.9), True), ((0, 4.1), False), ((-18.9, 0), True), ((-19.1, 0), False)]
)
def test_smoke_hides_whom_it_comes_near_the_line_to(cloud: tuple[float, float], hides: bool):
    scene = open_scene(DUEL, {0: at(-15, 0), 1: at(15, 0)})
    hang_smoke(scene, *cloud, z=2.7)

    scene.play()

    assert scene["sight"].tolist() == [[0, 0 if hides else CLEAR], [0 if hides else CLEAR, 0]]
    assert bool(scene["seen"][0, 1]) != hides


@pytest.mark.parametrize(
    ("height", "material", "clear"),
    [(2, 0, True), (3, 0, False), (9, GLASS, True), (0, FOLIAGE, False), (0, WATER, True)],
)
def test_ground_and_foliage_hide_but_not_what_is_low_or_of_glass(
    monkeypatch: pytest.MonkeyPatch, height: int, material: int, clear: bool
):
    cells = (range(-1, 1), range(-30, 30))
    scene = built_scene(monkeypatch, DUEL, {0: at(-20, 0), 1: at(20, 0)}, [(cells, height)], [(cells, material)])

    assert bool(scene["sight"][0, 1] == CLEAR) == clear
    assert bool(scene["seen"][0, 1]) == clear


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_clear_sight_is_the_same_from_either_end_and_after_half_a_turn_of_the_map(turn: float):
    envs = [MechEnvironment(PRESETS["mech-company"], RewardWeights(), num_envs=16, device="cpu", seed=1) for _ in "ab"]
    for env in envs:
        env.reset(torch.arange(16))
    here, there = (env.arrays for env in envs)
    brawl(envs[0], 0.9, 0.5)
    here["smoke_left"][:, 0, 0] = there["smoke_left"][:, 0, 0] = 40
    here["smoke_centre"][:, 0, 0] = there["smoke_centre"][:, 0, 0] = torch.tensor([0.0, 0.0, 3.0])
    there["position"].copy_(swapped(here["position"]))
    there["position"][..., :2] *= turn

    for _ in range(9):
        for env in envs:
            env.step(idle(env.spec, 16))
        assert torch.equal(here["sight"], swapped(swapped(there["sight"]).transpose(1, 2)))
        assert torch.equal(here["sight"], here["sight"].transpose(1, 2))
    clear = float((here["sight"][:, :10, 10:] == CLEAR).float().mean())
    assert 0.1 < clear < 0.9


def test_the_dead_are_neither_seen_nor_see():
    scene = open_scene([("medium", "medium")], {0: at(-5, 0), 1: at(-5, 5), 2: at(5, 0), 3: at(5, 5)})
    scene["hp"][0] = 0.0
    scene["hp"][3] = 0.0

    step = scene.play()

    assert scene["seen"].nonzero().tolist() == [[1, 2], [2, 1]]
    assert not scene["sight"][[0, 3]].any()
    assert not step.observation.values[0, [0, 3]].any()
    assert step.observation.active[0].tolist() == [False, True, True, False]
    assert (scene["contact"][[0, 3]] == -1).all()
    for head in step.observation.masks:
        first_only = [head == "target", *[False] * (len(mask(step, head)) - 1)]
        assert mask(step, head) == first_only


def test_who_is_shut_down_sees_like_the_others():
    scene = open_scene(DUEL, {0: at(-20, 0, heat=150.0), 1: at(20, 0)})

    assert bool(scene["seen"][0, 1])


@pytest.mark.parametrize(
    ("ecm", "eccm", "jam", "clears"),
    [
        (None, None, 0.0, 0.0),
        (20.0, None, 0.6, 0.0),
        (51.0, None, 0.0, 0.0),
        (20.0, 0.0, 0.6, 1.0),
        (None, 0.0, 0.0, 1.0),
    ],
)
def test_sensors_are_jammed_and_cleared_by_the_nearest(
    ecm: float | None, eccm: float | None, jam: float, clears: float
):
    far = 29.0 if ecm is None else min(-22.0 + ecm, 29.0)
    scene = open_scene([("scout",)], {0: at(-22, 0), 1: at(far, 0)})

    step = scene.play(ewar={0: "off" if eccm is None else "eccm", 1: "off" if ecm is None else "ecm"})

    sensors = feel(scene, step, "sensors")
    quality = min(max(1.0 - 0.85 * jam + 0.65 * clears, 0.25), 1.5)
    assert (sensors["jam"], sensors["eccm"]) == pytest.approx((jam, clears), abs=1e-5)
    assert sensors["quality"] == pytest.approx(quality / 1.5, abs=1e-5)
    assert scene["quality"][0] == pytest.approx(quality, abs=1e-5)


@pytest.mark.parametrize("spoil", [{"heat": 90.0}, {"hp": 0.0}])
def test_who_is_shut_down_or_dead_neither_jams_nor_clears(spoil: dict):
    scene = open_scene([("medium", "scout")], {0: at(-5, 0), 1: at(-5, 5), 2: at(9, 9), 3: at(5, 0)})
    orders = {"ewar": {1: "eccm", 3: "ecm"}}
    scene.play(**orders)
    assert (scene["jam"][0] > 0.0, scene["eccm"][0] > 0.0) == (True, True)
    for name, value in spoil.items():
        scene[name][[1, 3]] = value

    scene.play(**orders)

    assert (scene["jam"][0], scene["eccm"][0]) == (0.0, 0.0)


# Contacts


def test_full_mode_shows_everybody_alive_exactly():
    placed = {0: at(-20, 0), 2: at(20, 3, NORTH, hp=30.0, heat=20.0), 3: at(25, -9)}
    scene = full_scene([("scout",), ("medium",)], placed)
    hang_smoke(scene, 0.0, 0.0)

    step = scene.play()

    near, far = contacts(scene, step)
    assert (near["ahead"], near["left"]) == pytest.approx((40 / DIAGONAL, 3 / DIAGONAL), abs=1e-6)
    assert (near["distance"], near["hp"]) == pytest.approx((math.hypot(40, 3) / DIAGONAL, 0.5), abs=1e-6)
    assert (near["in_sight"], near["scout"], near["facing_left"]) == (0.0, 1.0, 1.0)
    assert far["medium"] == 1.0


@pytest.mark.parametrize(("viewer", "fidelity"), [("heavy", 1.0), ("scout", 0.8), ("medium", 0.7), ("light", 0.6)])
def test_contacts_are_off_by_what_the_viewer_lacks_in_fidelity(viewer: str, fidelity: float):
    scene = open_scene([(viewer,)], {0: at(-5, 0, NORTH), 1: at(5, 0)})
    scene["hp"][1] *= 0.5
    scene["heat"][1] = 20.0
    lack, errors = 1.0 - fidelity, []
    for _ in range(40):
        (seen,) = contacts(scene, scene.play(move={1: {"forward": 0.1}}))
        x = float(scene["position"][1, 0]) + 5.0
        heat = float(scene["heat"][1] / scene.env.hulls["heat_capacity"][1])
        place = (seen["ahead"] * DIAGONAL, seen["left"] * DIAGONAL + x)
        errors.append([place[0] / x / 0.1, place[1] / x / 0.1, (seen["hp"] - 0.5) / 0.2, (seen["heat"] - heat) / 0.2])

    largest = torch.tensor(errors).abs().amax(dim=0)
    assert bool((largest <= lack + 1e-4).all())
    assert bool((largest >= 0.6 * lack).all())


def test_friends_are_known_exactly_behind_walls(monkeypatch: pytest.MonkeyPatch):
    placed = {0: at(-20, 0), 1: at(20, 0, NORTH), 2: at(20, 20)}
    scene = built_scene(monkeypatch, [("light",), ("heavy",)], placed, [WALL])

    (friend,) = contacts(scene, scene.play())

    assert (friend["hostile"], friend["in_sight"], friend["heavy"]) == (0.0, 0.0, 1.0)
    assert (friend["ahead"], friend["left"], friend["up"]) == pytest.approx((40 / DIAGONAL, 0, 0), abs=1e-6)


def test_contacts_are_enemies_then_friends_from_near_to_far():
    packs = [("medium", "medium"), ("medium", "medium")]
    x = [0.0, 3.0, 9.0, 5.0, 11.0, 7.0, -2.0, 15.0]
    scene = open_scene(packs, {index: at(place, 0) for index, place in enumerate(x)})

    scene.play()

    assert scene["contact"][0].tolist() == [6, 5, 4, 7, 3, 2]
    assert scene["contact"][4].tolist() == [2, 3, 1, 0, 7, 6]


def test_equally_far_contacts_keep_their_order():
    scene = full_scene([("medium",), ("medium",), ("medium",)], {0: at(0, 0), 3: at(0, 5), 4: at(5, 0), 5: at(-5, 0)})

    scene.play()

    assert scene["contact"][0].tolist() == [3, 4, 5, -1, -1]


@pytest.mark.parametrize(("viewer", "used"), [("heavy", 5), ("medium", 8), ("light", 10), ("scout", 11)])
def test_a_class_follows_as_many_contacts_as_its_suite_has_slots(viewer: str, used: int):
    config = replace(
        PRESETS["mech-company"],
        packs=((viewer,), ("medium",) * 5),
        terrain=Terrain.OPEN,
        observation_mode=ObservationMode.FULL,
    )
    placed = {index: at(-20 + 3.0 * index, 2.0 * index) for index in range(12)}
    env = MechEnvironment(config, RewardWeights(), num_envs=1, device="cpu", seed=0)
    scene = Scene(env, build_pool(config), placed)

    found = contacts(scene, scene.play())

    assert [one["hostile"] for one in found] == ([1.0] * 6 + [0.0] * 5)[:used]


def test_target_options_are_the_contact_slots_of_the_last_observation():
    scene = open_scene([("medium",), ("medium",)], {0: at(0, 0), 1: at(-4, 0), 2: at(9, 0), 3: at(5, 0)})
    step = scene.play()
    assert mask(step, "target") == [True, True, True, False]

    for option, focus in ((0, -1), (1, 3), (2, 2), (3, -1)):
        scene.play(target={0: option})
        assert scene["focus"][0] == focus


def test_velocities_of_contacts_are_relative_and_closing_is_positive():
    scene = open_scene(DUEL, {0: at(-10, 0), 1: at(10, 0, NORTH)})

    step = scene.play(move={0: {"forward": 1.0}, 1: {"forward": 1.0}})

    (seen,) = contacts(scene, step)
    pace = 5.5 * 0.98 / 10.0
    assert (seen["velocity_ahead"], seen["velocity_left"]) == pytest.approx((-pace, pace), abs=1e-5)
    assert seen["closing"] == pytest.approx(pace, abs=0.1)
    assert (seen["facing_ahead"], seen["facing_left"]) == pytest.approx((0.0, 1.0), abs=1e-6)


@pytest.mark.parametrize(
    ("feature", "arrays"),
    [
        ("fallen", {"fallen_ticks": 30}),
        ("legged", {"leg_hp": 0.0}),
        ("shutdown", {"heat": 120.0}),
        ("painted", {"painted_by": 0, "painted_ticks": 30}),
        ("in_zone", {"position": (0.0, 0.0, 0.0)}),
        ("ewar", {}),
    ],
)
def test_state_of_contacts_shows(feature: str, arrays: dict):
    scene = open_scene([("medium", "scout")], {0: at(-15, 0), 2: at(14, 0), 3: at(20, 0)})
    (before, *_) = contacts(scene, scene.play())
    assert before[feature] == 0.0
    who = 3 if feature == "ewar" else 2
    for name, value in arrays.items():
        scene[name][who] = torch.as_tensor(value, dtype=scene[name].dtype)

    after = contacts(scene, scene.play(ewar={3: "eccm"} if feature == "ewar" else {}))

    assert [one[feature] for one in after] == [float(one["scout" if who == 3 else "medium"]) for one in after]


# The mech itself


@pytest.mark.parametrize(
    ("feature", "arrays"),
    [
        ("shutdown", {"heat": 150.0}),
        ("heat_critical", {"heat": 90.0}),
        ("fallen", {"fallen_ticks": 30}),
        ("legged", {"leg_hp": 0.0}),
        ("painted", {"painted_ticks": 30, "painted_by": 1}),
        ("suppressed", {"suppressed_ticks": 9}),
        ("in_zone", {"position": (0.0, 0.0, 0.0)}),
    ],
)
def test_condition_shows(feature: str, arrays: dict):
    scene = open_scene(DUEL, {0: at(-20, 0), 1: at(20, 0)})
    assert feel(scene, scene.play(), "condition")[feature] == 0.0
    for name, value in arrays.items():
        scene[name][0] = torch.as_tensor(value, dtype=scene[name].dtype)

    assert feel(scene, scene.play(), "condition")[feature] == 1.0


def test_threats_are_felt_by_whom_they_are_for():
    scene = open_scene([("heavy", "scout")], {0: at(-3.5, 0), 1: at(-25, 0), 2: at(25, 25), 3: at(3.5, 0, NORTH)})
    quiet = scene.play()
    assert [feel(scene, quiet, "condition", mech)["targeted"] for mech in range(4)] == [1.0, 0.0, 0.0, 1.0]
    assert [feel(scene, quiet, "condition", mech)["under_fire"] for mech in range(4)] == [0.0] * 4

    step = scene.play(trigger={0: ["primary", "secondary"]})

    assert [feel(scene, step, "condition", mech)["under_fire"] for mech in range(4)] == [0.0, 0.0, 0.0, 1.0]
    assert [feel(scene, step, "condition", mech)["missile_inbound"] for mech in range(4)] == [0.0, 0.0, 0.0, 1.0]
    motion = feel(scene, step, "motion", 3)
    assert (motion["damage_ahead"], motion["damage_left"]) == pytest.approx((0.0, 1.0), abs=1e-6)
    firing = feel(scene, step, "condition", 0)
    assert (firing["missile_timer"], firing["laser_timer"]) == pytest.approx((56 / 100, 8 / 12))


def test_zone_and_edges_are_felt_in_the_own_frame():
    scene = open_scene(DUEL, {0: at(-20, 10, NORTH), 1: at(20, 0)})
    scene["zone_radius"].fill_(6.0)

    step = scene.play()

    zone, edge = feel(scene, step, "zone"), feel(scene, step, "edge")
    assert (zone["ahead"], zone["left"], zone["radius"]) == pytest.approx((-10 / 60, -20 / 60, 0.1), abs=1e-6)
    far = math.hypot(20, 10)
    assert (zone["route_ahead"], zone["route_left"]) == pytest.approx((-10 / far, -20 / far), abs=1e-6)
    assert zone["route"] == pytest.approx((far - 6.0) / 120.0, abs=1e-6)
    assert list(edge.values()) == pytest.approx([20 / 60, 10 / 60, 40 / 60, 50 / 60], abs=1e-6)


def test_noise_is_heard_in_its_quarter_and_less_without_sight():
    placed = {0: at(0, 0), 2: at(0, 9), 3: at(-9, 0)}
    scene = open_scene([("medium", "medium")], placed)
    moves = {2: {"strafe": 1.0}, 3: {"strafe": 1.0}}

    loud = feel(scene, scene.play(move=moves), "sensors")
    for quarter, mech in (("noise_left", 2), ("noise_behind", 3)):
        near = 1.0 + float(scene["position"][mech].square().sum())
        assert loud[quarter] == pytest.approx(math.log1p(5.5 * 0.98 * 2.5 / near) / 5.0, rel=1e-4)
    assert (loud["noise_ahead"], loud["noise_right"]) == (0.0, 0.0)

    hang_smoke(scene, -5.0, 0.0)
    muffled = feel(scene, scene.play(move=moves), "sensors")
    assert muffled["noise_behind"] < 0.3 * loud["noise_behind"]


def test_panel_counts_both_sides():
    packs = [("medium", "medium"), ("medium", "medium")]
    placed = {0: at(-20, 0), 1: at(-20, 5), 2: at(0, 0), 4: at(20, 0, painted_by=1, painted_ticks=90), 5: at(20, 5)}
    scene = open_scene(packs, placed)
    scene["zone_radius"].fill_(5.0)

    panel = feel(scene, scene.play(), "panel")

    assert panel == pytest.approx(
        {
            "mates_alive": 1.0,
            "friends_alive": 0.75,
            "enemies_alive": 0.5,
            "enemies_seen": 0.5,
            "enemies_painted": 0.25,
            "friends_in_zone": 0.25,
        }
    )


def test_local_map_shows_the_ground_ahead_and_to_the_left(monkeypatch: pytest.MonkeyPatch):
    heights = [((range(5, 7), range(-1, 1)), 2), ((range(-7, -5), range(-1, 1)), 9)]
    materials = [
        ((range(-1, 1), range(5, 7)), WATER),
        ((range(-1, 1), range(-7, -5)), LAVA),
        ((range(5, 7), range(5, 7)), DEBRIS),
    ]
    placed = {0: at(0.01, 0.01, NORTH), 1: at(25, 25)}
    scene = built_scene(monkeypatch, [("scout",)], placed, heights, materials)

    ground = read(scene, scene.play(), "local_map")

    assert ground[5 + 3, 5] == -0.25
    assert ground[5 - 3, 5] == -1.0
    assert ground[5, 5 - 3] == 0.5
    assert ground[5, 5 + 3] == 1.0
    assert ground[5 + 3, 5 - 3] == -0.5
    assert ground[5, 5] == 0.0

    scene["position"][0] = torch.tensor([28.0, 28.0, 0.0])
    ground = read(scene, scene.play(), "local_map")
    assert bool((ground[7:] == 1.0).all())
    assert bool((ground[:, :4] == 1.0).all())
    assert ground[5, 5] == 0.0


# Pack mates


def test_pack_mates_are_known_exactly_in_the_order_of_the_pack():
    placed = {0: at(-20, 0), 1: at(-20, 5, NORTH, hp=30.0), 2: at(-20, 9), 3: at(20, 0), 4: at(20, 5)}
    scene = open_scene([("medium", "scout", "heavy")], placed)

    step = scene.play()

    first, second = (dict(zip(MATE_FEATURES, row.tolist(), strict=True)) for row in read(scene, step, "pack", 0))
    assert (first["left"], first["hp"], first["scout"]) == pytest.approx((5 / DIAGONAL, 0.5, 1.0), abs=1e-6)
    assert second["heavy"] == 1.0
    assert [row[MATE_FEATURES.index("medium")] for row in read(scene, step, "pack", 2).tolist()] == [1.0, 0.0]
    assert read(scene, step, "pack_mask", 3).tolist() == [1.0, 0.0]
    assert not read(scene, step, "pack", 3)[1].any()


def test_small_packs_leave_mate_slots_empty():
    scene = open_scene([("scout",), ("medium", "medium", "medium")], {0: at(-20, 0), 1: at(-20, 9), 4: at(20, 0)})

    step = scene.play(comm={0: [1.0] * 8, 1: [1.0] * 8})

    assert read(scene, step, "pack_mask", 0).tolist() == [0.0, 0.0]
    assert not read(scene, step, "comms", 0).any()
    assert not any(mask(step, "comm", 0))
    assert not any(mask(step, "comm", 1)), "both mates are dead"


def test_words_are_heard_one_decision_later_by_pack_mates_only():
    packs = [("medium", "medium"), ("medium", "medium")]
    scene = open_scene(packs, {index: at(-20 + 6 * index, 0) for index in range(8)})
    words = [0.1 * k for k in range(8)]

    step = scene.play(comm={1: words})
    assert read(scene, step, "comms", 0)[0].tolist() == pytest.approx(words)
    assert not any(read(scene, step, "comms", mech).any() for mech in (1, 2, 3, 4))

    scene["hp"][1] = 0.0
    step = scene.play(comm={1: words})
    assert not read(scene, step, "comms", 0).any()


# Masks


def move_mask(step: StepResult, mech: int = 0) -> list[str]:
    return [name for name, open_ in zip(MOVES, mask(step, "move", mech), strict=True) if open_]


def trigger_mask(step: StepResult, mech: int = 0) -> list[str]:
    return [name for name, open_ in zip(TRIGGERS, mask(step, "trigger", mech), strict=True) if open_]


PULLED = {
    "scout": ["primary", "vent", "special"],
    "light": ["primary", "vent", "secondary", "tertiary", "special"],
    "medium": ["primary", "vent", "tertiary", "special"],
    "heavy": ["primary", "vent", "secondary", "tertiary", "special"],
}


@pytest.mark.parametrize("name", PULLED)
def test_masks_open_what_a_class_can(name: str):
    scene = open_scene([(name, "medium")], {0: at(-20, 0), 1: at(-20, 9), 2: at(20, 0)})

    step = scene.play()

    jets = ["vertical"] if name in ("scout", "light") else []
    assert move_mask(step) == ["forward", "strafe", *jets, "yaw_rate"]
    assert trigger_mask(step) == PULLED[name]
    if "ewar" in step.observation.masks:
        assert mask(step, "ewar") == [True, name == "scout", name == "scout"]
    assert all(mask(step, "comm"))


@pytest.mark.parametrize(
    ("arrays", "moves", "triggers"),
    [
        ({"heat": 99.0}, True, ["primary", "vent", "secondary", "tertiary", "special"]),
        ({"heat": 130.0 + 2.4 + 1.9}, True, ["primary", "vent", "secondary", "tertiary"]),
        ({"heat": 130.0 + 2.6 + 2.0}, False, []),
        ({"fallen_ticks": 10}, True, ["primary", "vent", "secondary", "tertiary"]),
        ({"fallen_ticks": 11}, False, ["primary", "vent"]),
        ({"timers": (10, 0, 0, 0)}, True, ["primary", "vent", "secondary", "tertiary", "special"]),
        ({"timers": (11, 0, 0, 0)}, True, ["vent", "secondary", "tertiary", "special"]),
        ({"timers": (0, 6, 0, 0)}, True, ["primary", "vent", "secondary", "tertiary"]),
        ({"timers": (0, 11, 0, 0)}, True, ["primary", "vent", "tertiary"]),
        ({"timers": (0, 0, 11, 0)}, True, ["primary", "vent", "secondary", "special"]),
    ],
)
def test_masks_close_what_no_tick_of_the_next_decision_can_heed(arrays: dict, moves: bool, triggers: list[str]):
    scene = open_scene([("heavy",)], {0: at(-20, 0), 1: at(20, 0)})
    for name, value in arrays.items():
        scene[name][0] = torch.as_tensor(value, dtype=scene[name].dtype)

    step = scene.play()

    assert move_mask(step) == (["forward", "strafe", "yaw_rate"] if moves else [])
    assert trigger_mask(step) == triggers


@pytest.mark.parametrize(("painter_ticks", "open_"), [(0, True), (11, False)])
def test_trigger_stays_open_for_the_weapon_that_can_still_fire(painter_ticks: int, open_: bool):
    scene = open_scene(DUEL, {0: at(-20, 0, fallen_ticks=40), 1: at(20, 0)})
    scene["timers"][0] = torch.tensor([0, 0, 0, painter_ticks], dtype=torch.int32)

    assert trigger_mask(scene.play()) == ["primary", "vent", *["tertiary"] * open_]


@pytest.mark.parametrize(("material", "heeds"), [(0, False), (WATER, True), (LAVA, False)])
def test_ground_under_a_mech_without_power_decides_when_it_wakes(
    monkeypatch: pytest.MonkeyPatch, material: int, heeds: bool
):
    everywhere = (range(-30, 30), range(-30, 30))
    scene = built_scene(monkeypatch, DUEL, {0: at(-20, 0), 1: at(20, 0)}, materials=[(everywhere, material)])
    gain = {0: 0.0, WATER: -7.5, LAVA: 10.0}[material]
    scene["heat"][0] = 100.0 + 2.75 - gain + 5.0

    step = scene.play()
    assert bool(move_mask(step)) == heeds

    scene.play(move={0: {"forward": 1.0}})
    assert bool(scene["velocity"][0, 0] > 0.0) == heeds


def test_shut_down_hull_can_choose_no_electronic_warfare():
    scene = open_scene([("scout",)], {0: at(-20, 0, heat=120.0), 1: at(20, 0)})

    assert mask(scene.play(), "ewar") == [True, False, False]


# All of it


CONFIGS = {
    **PRESETS,
    "full": replace(PRESETS["mech-pack"], name="full", observation_mode=ObservationMode.FULL),
    "uneven": MechConfig("uneven", (("scout",), ("heavy", "light", "scout")), map_side=60, limit_s=10.0),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_declared_ranges_hold_and_no_stale_number_is_left(name: str):
    envs = [MechEnvironment(CONFIGS[name], RewardWeights(), num_envs=4, device="cpu", seed=5) for _ in range(2)]
    for env in envs:
        env.reset(torch.arange(4))
        brawl(env, 0.3, 1.1)
    blocks = envs[0].spec.observation
    low = torch.cat([torch.full((block.size,), block.low) for block in blocks])
    high = torch.cat([torch.full((block.size,), block.high) for block in blocks])
    orders = RandomOrders(envs[0].spec, [*range(4)])
    for _ in range(60):
        actions = orders.draw()
        steps = [env.step(actions) for env in envs]
        for step in steps:
            for seen in (step.observation, step.final_observation):
                assert bool(((seen.values >= low) & (seen.values <= high)).all())
                assert torch.equal(seen.active, envs[0].arrays["hp"] > 0.0) or seen is step.final_observation
        first, second = (perceived(step.observation) for step in steps)
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_new_match_opens_with_nothing_of_the_last_one():
    env = MechEnvironment(PRESETS["mech-pack"], RewardWeights(), num_envs=2, device="cpu", seed=5)
    env.reset(torch.arange(2))
    brawl(env, 0.2)
    orders = RandomOrders(env.spec, [0, 1])
    for _ in range(30):
        env.step(orders.draw())
    env.arrays["decision"][:] = env.spec.max_decisions - 1
    env.arrays["next_seeds"][:] = torch.arange(2)

    step = env.step(orders.draw())

    assert bool(step.truncated.all())
    fresh = MechEnvironment(PRESETS["mech-pack"], RewardWeights(), num_envs=2, device="cpu", seed=5)
    opening = fresh.reset(torch.arange(2))
    assert torch.equal(step.observation.values, opening.values)
    assert all(torch.equal(step.observation.masks[head], opening.masks[head]) for head in opening.masks)
