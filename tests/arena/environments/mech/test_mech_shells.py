"""How shells and slugs fly, and whom they meet, in situations set up by hand."""

import math

import pytest
from mech_range import EAST, WEST, build_wall, hp, of, play, polar, set_up

from arena.environments.mech.config.constants import SUPPRESSED_TICKS
from arena.environments.mech.config.scenario import Terrain
from arena.environments.mech.kernels.combat.targeting import AUTOCANNON, GAUSS, PAINTER
from arena.environments.mech.kernels.state import AHEAD


def test_an_autocannon_shell_takes_its_time():
    env = set_up([["medium"]], {0: (-5, 0, EAST), 1: (5, 0, WEST)}, lacking=[PAINTER])

    for trigger, left in ((["tertiary"], 150.0), ([], 142.0), ([], 134.0), ([], 134.0)):
        play(env, {0: trigger})
        assert hp(env)[1] == left


@pytest.mark.parametrize(("distance", "hits"), [(13.4, True), (13.6, False)])
def test_an_autocannon_shell_flies_as_far_as_its_range(distance: float, hits: bool):
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (distance, 0, WEST)}, lacking=[PAINTER])

    play(env, {0: ["tertiary"]})
    play(env, {}, decisions=4)

    assert (hp(env)[1] < 150.0) == hits, "to within 1.5 m of its target's centre, 12 m off"
    assert env.arrays["shell_reach"][0, 0].tolist() == [0.0] * 3


def test_a_shell_hits_the_first_in_its_way_and_passes_friends():
    env = set_up(
        [["medium"] * 2], {0: (0, 0, EAST), 1: (4, 0, EAST), 2: (11, 0, WEST), 3: (8, 1, WEST)}, lacking=[PAINTER]
    )

    play(env, {0: ["tertiary"]}, {0: 2})
    play(env, {}, decisions=3)

    assert hp(env) == [150.0, 150.0, 150.0, 134.0]


def test_of_two_enemies_equally_far_along_its_way_a_shell_hits_the_one_with_the_lower_index():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (8, 1, WEST), 3: (8, -1, WEST)}, lacking=[PAINTER])

    play(env, {0: ["tertiary"]})
    play(env, {}, decisions=2)

    assert hp(env)[2:] == [134.0, 150.0]


def test_shell_misses_a_mech_that_moved_away():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (10, 0, WEST)}, lacking=[PAINTER])
    play(env, {0: ["tertiary"]})
    env.arrays["position"][0, 1, 1] = 1.6

    play(env, {}, decisions=3)

    assert hp(env)[1] == 150.0


def test_the_autocannon_suppresses_and_shakes_and_the_laser_does_not():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (3, 0, WEST)}, stability={1: 50.0}, lacking=[PAINTER])
    play(env, {0: ["tertiary"]})
    assert SUPPRESSED_TICKS - 5 < of(env, "suppressed_ticks", 1) <= SUPPRESSED_TICKS
    assert 45.0 < of(env, "stability", 1) < 50.0

    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (3, 0, WEST)}, lacking=[PAINTER])
    play(env, {0: ["primary"]})
    assert of(env, "suppressed_ticks", 1) == 0
    assert of(env, "stability", 1) == 100.0


@pytest.mark.parametrize("trigger_and_slot", [("heavy", GAUSS, 2), ("medium", AUTOCANNON, 0)])
@pytest.mark.parametrize(
    ("angle", "focused", "aims"), [(11.0, True, True), (12.0, True, False), (5.5, False, True), (6.0, False, False)]
)
def test_guns_aim_within_their_cones_and_else_fire_level_ahead(
    trigger_and_slot: tuple[str, int, int], angle: float, focused: bool, aims: bool
):
    name, weapon, slot = trigger_and_slot
    env = set_up([[name, "scout"]], {0: (0, 0, EAST), 3: polar(10.0, angle, WEST)}, lacking=[PAINTER])

    play(env, {0: ["tertiary"]}, {0: 3} if focused else {})

    x, y, z = env.arrays["shell_velocity"][0, 0, slot].tolist()
    aimed = math.degrees(math.atan2(y, x))
    assert aimed == pytest.approx(angle if aims else 0.0, abs=1e-3)
    assert of(env, "shell_target", 0, slot) == (3 if aims else AHEAD)
    if weapon == AUTOCANNON:
        assert (z < 0.0) == aims, "a scout is lower than a medium; straight ahead is level"


def test_a_gauss_slug_drops_to_its_target_and_shakes_it():
    for distance in (6.0, 12.0, 19.5):
        env = set_up([["heavy", "scout"]], {0: (0, 0, EAST), 3: (distance, 0, WEST)})
        play(env, {0: ["tertiary"]})
        play(env, {}, decisions=3)
        assert hp(env)[3] == 10.0, f"50 of 60 points at {distance} m"
        assert of(env, "stability", 3) == pytest.approx(40.0, abs=10.0)


def test_a_gauss_slug_without_a_target_falls_to_the_ground():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (0, 40, WEST)})
    play(env, {0: ["tertiary"]})
    heights = [of(env, "shell_position", 0, 2, 2)]

    play(env, {})
    heights.append(of(env, "shell_position", 0, 2, 2))

    drops = [2.0 - 9.81 * 0.05**2 * n * (n + 1) / 2 for n in (4, 9)]
    assert heights == pytest.approx(drops, abs=1e-4)
    play(env, {})
    assert of(env, "shell_reach", 0, 2) == 0.0


def test_walls_stop_shells_and_low_ones_do_not():
    for height, left in ((2, 150.0), (1, 134.0)):
        env = set_up([["medium"]], {0: (0, 0, EAST), 1: (10, 0, WEST)}, terrain=Terrain.BROKEN, lacking=[PAINTER])
        build_wall(env, 5, height)
        play(env, {0: ["tertiary"]})
        play(env, {}, decisions=3)
        assert hp(env)[1] == left


def test_shell_hits_a_mech_in_front_of_a_wall():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6.4, 0, WEST)}, terrain=Terrain.BROKEN, lacking=[PAINTER])
    build_wall(env, 5, 4)
    play(env, {0: ["tertiary"]})

    play(env, {}, decisions=3)

    assert hp(env)[1] == 134.0


def test_a_shell_that_leaves_the_map_is_gone():
    for x, reaches in ((70, [12.0 - 4 * 1.25, 12.0, 0.0]), (77, [12.0, 0.0, 0.0])):
        env = set_up([["medium"]], {0: (x, 0, EAST), 1: (-40, 0, WEST)}, lacking=[PAINTER])
        play(env, {0: ["tertiary"]})
        assert env.arrays["shell_reach"][0, 0].tolist() == reaches, "the second shot takes the first free slot"
