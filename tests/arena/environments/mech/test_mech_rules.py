import math

import pytest
import torch

EAST, WEST, NORTH = (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)
FAR = [(-15.0, 0.0), (15.0, 0.0)]
FACE_TO_FACE = [EAST, WEST]


def test_overheated_mech_neither_moves_nor_fires_nor_vents(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE, heat=[130.0, 0.0])

    step = env.step(orders(home=["primary", "vent", "tertiary"], forward=(1.0, 0.0), yaw_rate=(1.0, 0.0)))

    assert env.arrays["position"][0, 0].tolist() == [-3.0, 0.0, 0.0]
    assert env.arrays["heading"][0, 0].tolist() == [1.0, 0.0]
    assert env.arrays["hp"][0, 1].item() == 150.0
    assert env.arrays["heat"][0, 0].item() == pytest.approx(130.0 - 5 * 0.55, abs=1e-3)
    assert not step.observation.masks["move"][0, 0].any()
    assert not step.observation.masks["trigger"][0, 0].any()


def test_venting_cools_three_times_as_fast(duel, orders):
    env = duel(FAR, FACE_TO_FACE, heat=[90.0, 90.0])

    env.step(orders(home=["vent"]))

    assert env.arrays["heat"][0].tolist() == pytest.approx([90.0 - 8.25, 90.0 - 2.75], abs=1e-3)


def test_two_mechs_never_walk_through_each_other(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE)

    for _ in range(8):
        env.step(orders(forward=(1.0, 1.0)))
        gap = env.arrays["position"][0, 1] - env.arrays["position"][0, 0]
        assert gap[0].item() >= 2.5

    env.step(orders(forward=(-1.0, -1.0)))
    assert (env.arrays["position"][0, 1] - env.arrays["position"][0, 0])[0].item() > 4.0


def test_diagonal_throttle_is_no_faster(duel, orders):
    env = duel([(0.0, 0.0), (15.0, 0.0)], FACE_TO_FACE)

    env.step(orders(forward=(1.0, 0.0), strafe=(1.0, 0.0)))

    moved = env.arrays["position"][0, 0]
    assert moved.norm().item() == pytest.approx(5.5 * 0.98 * 0.25, rel=1e-5)
    assert moved[1].item() == pytest.approx(moved[0].item()), "strafe is to the left"


def test_mechs_stay_on_the_map(duel, orders):
    env = duel([(-18.0, 0.0), (18.0, 5.0)], [WEST, NORTH])

    for _ in range(20):
        env.step(orders(forward=(1.0, 1.0)))

    assert env.arrays["position"][0].tolist() == [[-18.75, 0.0, 0.0], [18.0, 18.75, 0.0]]


def test_moves_beyond_one_are_clipped(duel, orders):
    wild, full = (duel(FAR, FACE_TO_FACE) for _ in range(2))

    wild.step(orders(forward=(7.0, math.inf), yaw_rate=(-9.0, 2.0)))
    full.step(orders(forward=(1.0, 1.0), yaw_rate=(-1.0, 1.0)))

    assert torch.equal(wild.arrays["position"], full.arrays["position"])
    assert torch.equal(wild.arrays["heading"], full.arrays["heading"])
