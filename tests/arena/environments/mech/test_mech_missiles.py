"""How missiles lock, fly and are downed, in situations set up by hand."""

from collections.abc import Sequence

import pytest
import torch
from mech_range import EAST, NORTH, SOUTH, WEST, hp, of, play, set_up, shell_at

from arena.environments.mech.config.constants import AMS_TICKS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.kernels.combat.targeting import AUTOCANNON, MISSILE


@pytest.mark.parametrize(
    ("distance", "painter", "quality", "locks"),
    [
        (49.9, 1, 0.75, True),
        (50.1, 1, 0.75, False),
        (30.0, 1, 0.65, False),
        (30.0, 2, 1.0, False),
        (30.0, -1, 1.0, False),
        (11.9, -1, 0.3, True),
        (12.1, -1, 1.0, False),
    ],
)
def test_missile_locks_on_painted_or_near_visible_targets(distance: float, painter: int, quality: float, locks: bool):
    packs = [["heavy", "heavy"], ["heavy"]]
    env = set_up(packs, {0: (0, 0, EAST), 3: (distance, 0, WEST)}, quality={0: quality})
    env.arrays["painted_by"][0, 3] = painter
    env.arrays["painted_ticks"][0, 3] = 100 if painter >= 0 else 0

    play(env, {0: ["secondary"]})

    assert (of(env, "heat", 0) == 45.0) == locks
    assert of(env, "shell_target", 0, 0) == 3 or not locks


def test_paint_locks_through_walls_and_sight_does_not():
    for painter, locks in ((1, True), (-1, False)):
        env = set_up([["heavy"] * 2], {0: (0, 0, EAST), 2: (9, 0, WEST)}, painted_by={2: painter})
        env.arrays["painted_ticks"][0, 2] = 100
        env.arrays["sight"].fill_(0)
        play(env, {0: ["secondary"]})
        assert (of(env, "heat", 0) > 0.0) == locks


def test_a_missile_rises_and_then_turns_to_a_mark_that_moves():
    env = set_up([["heavy", "scout"]], {0: (0, 0, EAST), 3: (11, 0, SOUTH)})
    play(env, {0: ["secondary"]})
    assert of(env, "shell_position", 0, 0, 2) > 2.0 + 0.3, "although its mark is lower"
    env.arrays["position"][0, 3] = torch.tensor([9.0, 6.0, 0.0])

    play(env, {}, decisions=4)

    assert hp(env)[3] == 20.0
    assert of(env, "stability", 3) == pytest.approx(85.0, abs=10.0)


def test_a_missile_keeps_its_speed_and_flies_straight_on_when_its_mark_is_dead():
    env = set_up([["heavy"] * 2], {0: (0, 0, EAST), 2: (11, 0, NORTH)})
    play(env, {0: ["secondary"]})
    env.arrays["hp"][0, 2] = 0.0
    before = env.arrays["shell_velocity"][0, 0, 0].clone()

    play(env, {})

    assert torch.equal(env.arrays["shell_velocity"][0, 0, 0], before)
    assert before.norm().item() == pytest.approx(12.0, abs=1e-4)
    assert of(env, "shell_reach", 0, 0) == pytest.approx(50.0 - 9 * 0.6, abs=1e-4)


def test_missiles_take_the_two_first_slots_and_the_gauss_slug_the_third():
    env = set_up([["heavy"] * 2], {0: (0, 0, EAST), 2: (30, 0, WEST)}, painted_by={2: 1}, painted_ticks={2: 1000})
    env.hulls["heat_capacity"].fill_(1e6)
    env.hulls["ams"].fill_(False)
    for trigger, flying in (("secondary", [True, False, False]), ("tertiary", [True, False, True])):
        play(env, {0: [trigger]})
        assert (env.arrays["shell_reach"][0, 0] > 0.0).tolist() == flying
    env.arrays["timers"][0, 0].fill_(0)
    play(env, {0: ["secondary"]})
    assert (env.arrays["shell_reach"][0, 0] > 0.0).tolist() == [True, True, True]
    env.arrays["timers"][0, 0].fill_(0)

    play(env, {0: ["secondary"]})

    reaches = env.arrays["shell_reach"][0, 0].tolist()
    assert reaches[:2] == pytest.approx([50.0 - 4 * 0.6, 50.0 - 9 * 0.6], abs=1e-3), "the one with less reach is lost"


def missile_at(env: MechEnvironment, owner: int, slot: int, place: Sequence[float]) -> None:
    """A missile that hangs in the air there, as good as still."""
    shell_at(env, owner, slot, MISSILE, place, [0.0, 0.0, 1e-3])


@pytest.mark.parametrize(("x", "share"), [(5.4, 0.6), (5.6, 0.0)])
def test_an_anti_missile_system_downs_six_of_ten_missiles_that_come_near(x: float, share: float):
    env = set_up([["heavy", "scout"]], {2: (0, 0, EAST)}, num_envs=2000)
    missile_at(env, 0, 0, [x, 0.0, 2.0])

    play(env, {})

    downed = env.arrays["shell_reach"][:, 0, 0] == 0.0
    assert downed.float().mean().item() == pytest.approx(share, abs=0.04)
    assert torch.equal(env.arrays["intercepted"][:, 2], downed.int())
    assert env.arrays["ams_ticks"][:, 2].unique().tolist() == [AMS_TICKS - 4 if share else 0]


def test_an_anti_missile_system_tries_for_the_nearest_once_in_its_cooldown():
    env = set_up([["heavy", "scout"]], {2: (0, 0, EAST)}, num_envs=200)
    missile_at(env, 0, 0, [5.0, 0.0, 2.0])
    missile_at(env, 0, 1, [4.0, 0.0, 2.0])
    play(env, {}, decisions=4)
    reaches = env.arrays["shell_reach"][:, 0]
    assert (reaches[:, 0] > 0.0).all()
    assert 0.4 < (reaches[:, 1] == 0.0).float().mean() < 0.8

    play(env, {})

    assert env.arrays["intercepted"].sum() > 0, "20 ticks later it tries again"


@pytest.mark.parametrize(("name", "value"), [("hp", 0.0), ("heat", 131.0), ("ams_ticks", 20)])
def test_the_dead_the_shut_down_and_the_busy_down_no_missiles(name: str, value: float):
    env = set_up([["heavy", "scout", "scout"]], {3: (0, 0, EAST)}, num_envs=50, **{name: {3: value}})
    missile_at(env, 0, 0, [4.0, 0.0, 2.0])

    play(env, {})

    assert (env.arrays["shell_reach"][:, 0, 0] > 0.0).all()


def test_point_defence_ignores_own_missiles_and_gauss_slugs():
    env = set_up([["heavy", "scout", "scout"]], {0: (0, 0, EAST), 5: (20, 0, EAST)}, num_envs=50)
    missile_at(env, 0, 0, [2.0, 0.0, 9.0])
    missile_at(env, 0, 1, [20.0, 0.0, 9.0])
    shell_at(env, 3, 0, AUTOCANNON, [2.0, 0.0, 6.0], [0.0, 0.0, 1e-3])

    play(env, {})

    assert (env.arrays["shell_reach"][:, [0, 0, 3], [0, 1, 0]] > 0.0).all()
