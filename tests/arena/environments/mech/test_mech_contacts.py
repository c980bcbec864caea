"""What a mech is told of those it knows of; the oracle looks on in every scene."""

from dataclasses import replace

import pytest
import torch
from mech_scene import NORTH, Scene, built_scene, open_scene
from mech_senses import DIAGONAL, DUEL, WALL, at, contacts, full_scene, mask

from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import PRESETS, ObservationMode, Terrain
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.maps.pool import build_pool


@pytest.mark.parametrize(("viewer", "fidelity"), [("heavy", 1.0), ("scout", 0.8), ("medium", 0.7), ("light", 0.6)])
def test_contact_error_follows_sensor_fidelity(viewer: str, fidelity: float):
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


@pytest.mark.holds("A6")
def test_target_options_are_the_contact_slots_of_the_last_observation():
    scene = open_scene([("medium",), ("medium",)], {0: at(0, 0), 1: at(-4, 0), 2: at(9, 0), 3: at(5, 0)})
    step = scene.play()
    assert mask(step, "target") == [True, True, True, False]

    for option, focus in ((0, -1), (1, 3), (2, 2), (3, -1)):
        scene.play(target={0: option})
        assert scene["focus"][0] == focus


@pytest.mark.holds("A6")
def test_the_chosen_target_shows_in_the_next_observation_and_no_more_once_it_is_destroyed():
    scene = open_scene([("medium",), ("medium",)], {0: at(0, 0), 1: at(-4, 0), 2: at(9, 0), 3: at(5, 0)})

    def focus(**orders: dict) -> list[float]:
        return [one["focus"] for one in contacts(scene, scene.play(**orders))]

    assert focus() == [0.0, 0.0, 0.0]
    for option, shown in ((2, [0.0, 1.0, 0.0]), (3, [0.0, 0.0, 0.0]), (0, [0.0, 0.0, 0.0]), (1, [1.0, 0.0, 0.0])):
        assert focus(target={0: option}) == shown
    scene["hp"][3] = 0.1
    assert focus(target={0: 1}, trigger={0: ["primary"]}) == [0.0, 0.0]


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
