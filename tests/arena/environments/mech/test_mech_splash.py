"""What bursts hurt besides whom they hit, in situations set up by hand."""

import math

import pytest
from mech_range import EAST, WEST, build_wall, hp, of, play, rows, set_up, shell_at

from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import Terrain
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.kernels.combat.targeting import GAUSS, MISSILE, PAINTER

WEIGHTS = RewardWeights()


def component(env: MechEnvironment, name: str) -> list[float]:
    return env.components[0, :, env.component_names.index(name)].tolist()


def test_splash_falls_off_with_the_distance_and_pays_for_enemies_only():
    places = {0: (0, 0, EAST), 1: (10, 3.4, EAST), 2: (10.6, 0, WEST), 3: (10, -2.5, EAST)}
    env = set_up([["heavy"] * 2], places, painted_by={3: 0}, painted_ticks={3: 100})

    play(env, {0: ["tertiary"]})
    play(env, {})

    friend, enemy = 200.0 - hp(env)[1], 200.0 - hp(env)[3]
    assert friend == pytest.approx(25.0 * (1.0 - 1.4 / 1.5), abs=0.2)
    assert enemy == pytest.approx(25.0 * (1.0 - 0.5 / 1.5), abs=0.2), "no rear, no paint bonus"
    assert rows(env, "dealt")[0] == pytest.approx([0.0, friend, 50.0, enemy], rel=1e-5)
    assert of(env, "raw_damage", 0, GAUSS) == pytest.approx(50.0 + enemy, rel=1e-5), "own side is not counted"
    assert component(env, "damage")[:2] == pytest.approx([(50.0 + enemy) / 100.0 * WEIGHTS.damage, 0.0], rel=1e-4)
    assert component(env, "hurt")[:2] == pytest.approx([0.0, -friend / 100.0 * WEIGHTS.hurt], rel=1e-4)


def test_splash_follows_its_formula_from_the_point_of_the_hit():
    env = set_up([["heavy"] * 2], {0: (0, 0, EAST), 2: (10, 0, WEST), 3: (10, -2.5, EAST)})
    shell_at(env, 0, 2, GAUSS, [9.0, 0.0, 2.0], [40.0, 0.0, 9.81 * 0.05])

    play(env, {})

    assert hp(env)[2] == 150.0
    assert 200.0 - hp(env)[3] == pytest.approx(50.0 * 0.5 * (1.0 - 0.5 / 1.5), abs=1e-3)
    assert of(env, "stability", 3) == pytest.approx(100.0 - 60.0 * 0.5 * (1.0 - 0.5 / 1.5) + 4 * 0.5, abs=1e-3)


def test_close_splash_hurts_the_shooter_without_reward():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (3.2, 0, WEST)})

    play(env, {0: ["tertiary"]})

    own = 200.0 - hp(env)[0]
    assert own > 0.0
    assert of(env, "dealt", 0, 0) == pytest.approx(own, rel=1e-5)
    assert of(env, "raw_damage", 0, GAUSS) == 50.0
    assert component(env, "damage") == pytest.approx([50.0 / 100.0 * WEIGHTS.damage, 0.0], rel=1e-4)
    hurt = [-own / 100.0 * WEIGHTS.hurt, -50.0 / 100.0 * WEIGHTS.hurt]
    assert component(env, "hurt") == pytest.approx(hurt, rel=1e-4)


def test_the_autocannon_does_not_splash():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (5, 0, WEST), 3: (5, 2.6, WEST)}, lacking=[PAINTER])

    play(env, {0: ["tertiary"]}, {0: 2})
    play(env, {}, decisions=2)

    assert hp(env) == [150.0, 150.0, 134.0, 150.0]


def test_walls_shield_from_splash():
    for height, left in ((12, 60.0), (0, 60.0 - 20.0 * (1.0 - 1.9 / 2.5))):
        places = {0: (0, 0, EAST), 5: (9.6, 0, WEST), 6: (12.4, 0, WEST)}
        env = set_up([["heavy", "scout", "scout", "scout"]], places, terrain=Terrain.BROKEN)
        build_wall(env, 10, height)
        shell_at(env, 0, 0, MISSILE, [9.5, 0.0, 0.9], [12.0, 0.0, 0.0])
        play(env, {})
        assert hp(env)[5] == 20.0
        assert hp(env)[6] == pytest.approx(left, abs=1e-3)


def test_missile_bursts_at_a_wall():
    env = set_up([["heavy", "scout", "scout"]], {4: (3.6, 0, WEST)}, terrain=Terrain.BROKEN)
    build_wall(env, 5, 6)
    shell_at(env, 0, 0, MISSILE, [4.8, 2.0, 1.2], [12.0, 0.0, 0.0])

    play(env, {})

    off = math.dist((5.1, 2.0, 1.2), (3.6, 0.0, 0.9)) - 0.9
    assert of(env, "shell_reach", 0, 0) == 0.0
    assert 60.0 - hp(env)[4] == pytest.approx(20.0 * (1.0 - off / 2.5), abs=1e-3), "after two quarters of its way"


def test_missile_at_the_end_of_its_range_does_not_burst():
    env = set_up([["heavy", "scout", "scout"]], {4: (3.6, 0, WEST)})
    shell_at(env, 0, 0, MISSILE, [3.0, 2.0, 1.2], [12.0, 0.0, 0.0])
    env.arrays["shell_reach"][0, 0, 0] = 0.5

    play(env, {})

    assert of(env, "shell_reach", 0, 0) == 0.0
    assert hp(env)[4] == 60.0
