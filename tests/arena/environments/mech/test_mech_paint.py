"""What paint adds to shots, and who is paid for it, in situations set up by hand."""

import pytest
from mech_range import EAST, WEST, hp, of, play, rows, set_up

from arena.environments.mech.config.constants import PAINT_TICKS


def test_paint_increases_damage_of_the_own_pack_only():
    packs = [["medium", "scout"], ["medium"]]
    for painter, loss in ((1, 14.0 * 1.1), (2, 14.0)):
        env = set_up(packs, {0: (0, 0, EAST), 3: (6, 0, WEST)}, painted_by={3: painter}, painted_ticks={3: 100})
        play(env, {0: ["primary"]})
        assert hp(env)[3] == pytest.approx(150.0 - loss, abs=1e-4)


def test_new_paint_counts_for_the_painter_and_against_the_painted_and_more_paint_does_not():
    env = set_up([["scout"] * 2], {0: (0, 0, EAST), 1: (0, 2, EAST), 2: (6, 0, WEST)})
    play(env, {0: ["primary"]})
    assert rows(env, "paints") == [1, 0, -1, 0]
    assert of(env, "painted_by", 2) == 0
    assert of(env, "painted_ticks", 2) == PAINT_TICKS - 4
    env.arrays["timers"][0, 0].fill_(100)

    play(env, {1: ["primary"]})

    assert rows(env, "paints") == [0, 0, 0, 0]
    assert of(env, "painted_by", 2) == 1


def test_of_two_painters_the_nearest_leaves_its_paint():
    for x, painter in ((-1.0, 1), (1.0, 0), (0.0, 0)):
        env = set_up([["scout"] * 2], {0: (x, 2, EAST), 1: (0, -2, EAST), 2: (6, 0, WEST)})
        play(env, {0: ["primary"], 1: ["primary"]})
        assert of(env, "painted_by", 2) == painter
        assert rows(env, "paints") == [int(painter == 0), int(painter == 1), -1, 0]


def test_paint_lasts_five_seconds_and_outlives_its_painter():
    env = set_up([["scout"] * 2], {0: (0, 0, EAST), 2: (6, 0, WEST)})
    play(env, {0: ["primary"]})
    env.arrays["hp"][0, 0] = 0.0
    play(env, {}, decisions=19)
    assert of(env, "painted_by", 2) == 0

    play(env, {})

    assert of(env, "painted_by", 2) == -1


def test_painter_of_a_destroyed_mech_gets_an_assist():
    packs = [["medium", "medium", "scout"], ["medium"]]
    places = {0: (0, 0, EAST), 1: (0, 3, EAST), 3: (0, -3, EAST), 4: (6, 0, WEST)}
    env = set_up(packs, places, painted_by={4: 2}, painted_ticks={4: 100}, hp={4: 3.0})

    play(env, {0: ["primary"], 1: ["primary"], 3: ["primary"]})

    sums = 2 * 15.4 + 14.0
    assert env.arrays["killed"][0, [0, 1, 3], 4].tolist() == pytest.approx([15.4 / sums, 15.4 / sums, 14.0 / sums])
    assert of(env, "assists", 2, 4) == pytest.approx(2 * 15.4 / sums)
    assert env.arrays["assists"].sum().item() == pytest.approx(2 * 15.4 / sums)


def test_painter_gets_no_assist_in_the_tick_of_the_kill_or_for_its_own_kill():
    env = set_up([["medium", "scout"]], {0: (0, 0, EAST), 1: (0, 3, EAST), 2: (6, 0, WEST)}, hp={2: 3.0})
    play(env, {0: ["primary"], 1: ["primary"]})
    assert of(env, "killed", 0, 2) == 1.0
    assert env.arrays["assists"].sum() == 0.0

    env = set_up([["medium", "scout"]], {0: (0, 0, EAST), 2: (6, 0, WEST)}, hp={2: 3.0}, painted_by={2: 0})
    env.arrays["painted_ticks"][0, 2] = 100
    play(env, {0: ["primary"]})
    assert of(env, "killed", 0, 2) == 1.0
    assert env.arrays["assists"].sum() == 0.0
