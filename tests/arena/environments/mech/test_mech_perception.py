"""What a mech perceives of itself, its pack and the ground; the oracle looks on in every scene."""

import math
from dataclasses import replace

import pytest
import torch
from mech_play import RandomOrders, brawl, perceived
from mech_scene import NORTH, built_scene, open_scene
from mech_senses import DIAGONAL, DUEL, at, feel, hang_smoke, mask, read

from arena.environments.mech.config.constants import DEBRIS, LAVA, WATER
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import PRESETS, MechConfig, ObservationMode
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.observation_spec import (
    MATE_FEATURES,
)


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


def test_threats_are_shown_to_their_targets():
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


def test_noise_is_observed_by_direction_and_weaker_without_sight():
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


def test_messages_arrive_one_decision_later_at_pack_mates_only():
    packs = [("medium", "medium"), ("medium", "medium")]
    scene = open_scene(packs, {index: at(-20 + 6 * index, 0) for index in range(8)})
    words = [0.1 * k for k in range(8)]

    step = scene.play(comm={1: words})
    assert read(scene, step, "comms", 0)[0].tolist() == pytest.approx(words)
    assert not any(read(scene, step, "comms", mech).any() for mech in (1, 2, 3, 4))

    scene["hp"][1] = 0.0
    step = scene.play(comm={1: words})
    assert not read(scene, step, "comms", 0).any()


CONFIGS = {
    **PRESETS,
    "full": replace(PRESETS["mech-pack"], name="full", observation_mode=ObservationMode.FULL),
    "uneven": MechConfig("uneven", (("scout",), ("heavy", "light", "scout")), map_side=60, limit_s=10.0),
}


@pytest.mark.holds("D8")
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
