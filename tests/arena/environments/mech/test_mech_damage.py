"""What hits do to a mech and who is paid, in situations set up by hand."""

import pytest
from mech_range import EAST, SOUTH, WEST, hp, of, order, play, set_up

from arena.environments.mech.config.constants import FALLEN_TICKS, LAVA
from arena.environments.mech.config.scenario import Terrain
from arena.environments.mech.kernels.combat.targeting import LASER, PAINTER


def test_two_may_destroy_each_other_in_one_tick():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (6, 0, WEST)}, hp={0: 5.0, 2: 5.0})

    play(env, {0: ["primary"], 2: ["primary"]})

    assert hp(env) == [0.0, 150.0, 0.0, 150.0]
    assert of(env, "killed", 0, 2) == of(env, "killed", 2, 0) == 1.0


def test_overkill_is_shared_in_proportion_to_damage():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 1: (0, 3, EAST), 2: (6, 0, WEST)}, hp={2: 10.0})

    play(env, {0: ["primary"], 1: ["primary"]})

    assert hp(env)[2] == 0.0
    assert env.arrays["dealt"][0, :2, 2].tolist() == [5.0, 5.0]
    assert env.arrays["killed"][0, :2, 2].tolist() == [0.5, 0.5]
    assert env.arrays["raw_damage"][0, :2, LASER].tolist() == [14.0, 14.0]


def test_the_ground_takes_its_share_of_a_kill():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (6, 0, WEST)}, terrain=Terrain.BROKEN, hp={2: 10.0})
    env._structs.terrain["material"][:, :, 86] = LAVA

    play(env, {0: ["primary"]})

    assert hp(env)[2] == 0.0
    assert of(env, "terrain_damage", 2) == pytest.approx(10.0 * 0.25 / 14.25)
    assert of(env, "dealt", 0, 2) == pytest.approx(10.0 * 14.0 / 14.25)
    assert of(env, "killed", 0, 2) == pytest.approx(14.0 / 14.25)


def test_damage_direction_is_observed():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 1: (6, 5, SOUTH), 2: (6, 0, WEST)})

    play(env, {0: ["primary"], 1: ["primary"]})

    assert env.arrays["hurt_from"][0, 2].tolist() == pytest.approx([-14.0, 14.0])


def test_mech_without_stability_falls_and_rises_again():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (9, 0, WEST)}, stability={1: 55.0})
    actions = order(env, {0: ["tertiary"]})
    actions["move"][0, 1, 1] = 1.0
    env.step(actions)
    assert of(env, "stability", 1) == 0.0
    assert FALLEN_TICKS - 5 < of(env, "fallen_ticks", 1) <= FALLEN_TICKS
    assert env.arrays["velocity"][0, 1, :2].tolist() == [0.0, 0.0]
    lain = of(env, "fallen_ticks", 1)

    play(env, {}, decisions=lain // 5)

    assert of(env, "fallen_ticks", 1) < 5
    play(env, {})
    assert of(env, "stability", 1) >= 50.0


def test_fallen_mech_loses_no_more_stability():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (9, 0, WEST)}, stability={1: 0.0}, fallen_ticks={1: 40})

    play(env, {0: ["tertiary"]})

    assert hp(env)[1] == 150.0
    assert of(env, "fallen_ticks", 1) == 35


def test_nine_of_ten_heavies_leave_a_wreck_and_one_of_ten_scouts():
    for name, share in (("heavy", 0.9), ("scout", 0.1)):
        team = [[name, "medium"]]
        env = set_up(team, {1: (0, 0, EAST), 2: (6, 0, WEST)}, num_envs=1000, hp={2: 1.0})
        play(env, {1: ["primary"]})
        assert (env.arrays["hp"][:, 2] == 0.0).all()
        assert env.arrays["wreck"][:, 2].float().mean().item() == pytest.approx(share, abs=0.04)


def test_a_destroyed_mechs_shells_fly_on_and_its_hits_are_not_repeated():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (10, 0, WEST)}, lacking=[PAINTER])
    play(env, {0: ["tertiary"]})
    env.arrays["hp"][0, 0] = 0.0

    play(env, {}, decisions=6)

    assert hp(env)[2] == 134.0
