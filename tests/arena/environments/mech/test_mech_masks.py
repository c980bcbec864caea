"""Which actions matter; the oracle looks on in every scene."""

import pytest
import torch
from mech_scene import built_scene, open_scene
from mech_senses import DUEL, at, mask

from arena.environments.base import StepResult
from arena.environments.mech.config.constants import LAVA, MOVES, WATER
from arena.environments.mech.config.weapons import TRIGGERS


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
def test_masks_allow_the_abilities_of_a_class(name: str):
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
def test_masks_forbid_actions_without_effect_in_the_next_decision(arrays: dict, moves: bool, triggers: list[str]):
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
