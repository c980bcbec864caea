"""Who knows of whom; the oracle looks on in every scene."""

import math
from collections.abc import Mapping

import pytest
import torch
from mech_play import brawl, idle, swapped
from mech_scene import NORTH, WEST, built_scene, open_scene
from mech_senses import DIAGONAL, DUEL, WALL, at, contacts, feel, full_scene, hang_smoke, mask

from arena.environments.mech.config.constants import FOLIAGE, GLASS, WATER
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.kernels.state import CLEAR, SMOKE_FREE


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
def test_heat_and_own_paint_reveal_mechs_behind_walls(
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
def test_electronic_warfare_reveals_mechs_behind_walls_but_not_smoke(monkeypatch: pytest.MonkeyPatch, option: str):
    scene = built_scene(monkeypatch, [("scout",)], {0: at(-15, 0), 1: at(15, 0)}, [WALL])

    scene.play(ewar={1: option})
    assert bool(scene["seen"][0, 1]) == (option != "off")

    hang_smoke(scene, 8.0, 0.0)
    scene.play(ewar={1: option})
    assert not scene["seen"][0, 1]


@pytest.mark.parametrize(
    ("cloud", "hides"), [((0, 0), True), ((0, 3.9), True), ((0, 4.1), False), ((-18.9, 0), True), ((-19.1, 0), False)]
)
def test_smoke_near_the_line_of_sight_hides_mechs(cloud: tuple[float, float], hides: bool):
    scene = open_scene(DUEL, {0: at(-15, 0), 1: at(15, 0)})
    hang_smoke(scene, *cloud, z=2.7)

    scene.play()

    assert scene["sight"].tolist() == [[0, 0 if hides else CLEAR], [0 if hides else CLEAR, 0]]
    assert bool(scene["seen"][0, 1]) != hides


@pytest.mark.parametrize(
    ("height", "material", "clear"),
    [(2, 0, True), (3, 0, False), (9, GLASS, True), (0, FOLIAGE, False), (0, WATER, True)],
)
def test_terrain_and_foliage_block_sight_but_low_or_glass_does_not(
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


def test_shut_down_mech_still_sees():
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
def test_shut_down_or_dead_mech_neither_jams_nor_clears(spoil: dict):
    scene = open_scene([("medium", "scout")], {0: at(-5, 0), 1: at(-5, 5), 2: at(9, 9), 3: at(5, 0)})
    orders = {"ewar": {1: "eccm", 3: "ecm"}}
    scene.play(**orders)
    assert (scene["jam"][0] > 0.0, scene["eccm"][0] > 0.0) == (True, True)
    for name, value in spoil.items():
        scene[name][[1, 3]] = value

    scene.play(**orders)

    assert (scene["jam"][0], scene["eccm"][0]) == (0.0, 0.0)


def test_full_observation_shows_all_living_mechs_exactly():
    placed = {0: at(-20, 0), 2: at(20, 3, NORTH, hp=30.0, heat=20.0), 3: at(25, -9)}
    scene = full_scene([("scout",), ("medium",)], placed)
    hang_smoke(scene, 0.0, 0.0)

    step = scene.play()

    near, far = contacts(scene, step)
    assert (near["ahead"], near["left"]) == pytest.approx((40 / DIAGONAL, 3 / DIAGONAL), abs=1e-6)
    assert (near["distance"], near["hp"]) == pytest.approx((math.hypot(40, 3) / DIAGONAL, 0.5), abs=1e-6)
    assert (near["in_sight"], near["scout"], near["facing_left"]) == (0.0, 1.0, 1.0)
    assert far["medium"] == 1.0
