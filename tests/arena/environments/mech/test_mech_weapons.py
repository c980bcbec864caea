"""Who is shot at, from where and how often, in situations set up by hand on open ground."""

import math

import pytest
from mech_range import EAST, NAMES, WEST, hp, of, play, polar, rows, set_up

from arena.environments.mech.config.weapons import TIMERS, TRIGGERS, WEAPONS
from arena.environments.mech.kernels.combat.targeting import AUTOCANNON, FLAMER, GAUSS, LASER, MISSILE, PAINTER
from arena.environments.mech.kernels.state import AHEAD, HOLD


def test_a_laser_hurts_and_heats_its_target_and_heats_its_owner():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)})

    play(env, {0: ["primary"]})

    assert hp(env) == [150.0, 136.0]
    assert rows(env, "heat") == [22.0, 6.0]


def test_a_flamer_heats_more_than_it_hurts():
    env = set_up([["light"]], {0: (0, 0, EAST), 1: (4, 0, WEST)})

    play(env, {0: ["primary"]})

    assert hp(env)[1] == 80.0 - 2 * 4.0
    assert rows(env, "heat") == [20.0, 30.0]


HITSCAN = [
    ("medium", "primary", LASER, 8.0, 60.0),
    ("light", "primary", FLAMER, 4.5, 45.0),
    ("scout", "primary", PAINTER, 10.0, 30.0),
]


@pytest.mark.parametrize(("name", "trigger", "weapon", "reach", "half_arc"), HITSCAN)
@pytest.mark.parametrize(("further", "aside", "hits"), [(-0.05, -1, True), (0.05, -1, False), (-1, 1, False)])
def test_a_hitscan_weapon_hits_within_its_range_and_arc_only(
    name: str, trigger: str, weapon: int, reach: float, half_arc: float, further: float, aside: float, hits: bool
):
    env = set_up([[name]], {0: (0, 0, EAST), 1: polar(reach + further, half_arc + aside, WEST)})

    play(env, {0: [trigger]})

    assert of(env, "hitscan_hits", 0, weapon) == (1 if hits else -1)
    assert (of(env, "heat", 0) > 0.0) == hits, "who does not fire must not heat up"
    assert (of(env, "timers", 0, TIMERS.index(WEAPONS[weapon].timer)) > 0) == hits


def test_range_is_measured_between_centres_in_space():
    env = set_up([["scout", "heavy"]], {0: (0, 0, EAST), 3: (9.97, 0, WEST)})
    play(env, {0: ["primary"]})
    assert of(env, "hitscan_hits", 0, PAINTER) == -1, "9.97 m away and 1.1 m higher is more than 10 m"

    env = set_up([["scout", "heavy"]], {0: (0, 0, EAST), 3: (9.93, 0, WEST)})
    play(env, {0: ["primary"]})
    assert of(env, "hitscan_hits", 0, PAINTER) == 3


@pytest.mark.parametrize(("heading", "factor"), [(EAST, 1.5), (44.0, 1.5), (46.0, 1.0), (WEST, 1.0)])
def test_a_shot_in_the_back_hurts_half_as_much_again(heading: float, factor: float):
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, heading)})

    play(env, {0: ["primary"]})

    assert hp(env)[1] == 150.0 - 14.0 * factor


def test_a_leg_hit_takes_the_legs_all_and_the_body_half_in_one_of_ten_shots():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, EAST)}, num_envs=3000)

    play(env, {0: ["primary"]})

    legs = env.arrays["leg_hp"][:, 1] < 75.0
    assert 0.08 < legs.float().mean() < 0.12
    assert env.arrays["leg_hp"][legs, 1].unique().tolist() == [75.0 - 21.0]
    assert env.arrays["hp"][legs, 1].unique().tolist() == [150.0 - 10.5]
    assert env.arrays["hp"][~legs, 1].unique().tolist() == [150.0 - 21.0]


def test_the_focus_is_hit_if_it_fits_and_else_the_nearest():
    places = {0: (0, 0, EAST), 3: (4, 0, WEST), 4: (6, 1, WEST), 5: (0, -6, WEST)}
    team = [["medium"] * 3]
    for focus, expected in (({}, 3), ({0: 4}, 4), ({0: 5}, 3)):
        env = set_up(team, places)
        play(env, {0: ["primary"]}, focus)
        assert of(env, "hitscan_hits", 0, LASER) == expected


def test_a_focus_that_dies_within_the_decision_is_shot_at_no_more():
    env = set_up([["light"] * 2], {0: (0, 0, EAST), 2: (4, 0, WEST), 3: (3, 2, WEST)}, hp={2: 3.0})

    play(env, {0: ["primary"]}, {0: 2})

    assert hp(env)[2:] == [0.0, 76.0], "the flamer fires twice"


def test_of_two_enemies_equally_near_the_one_with_the_lower_index_is_hit():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (5, 3, WEST), 3: (5, -3, WEST)})

    play(env, {0: ["primary"]})

    assert of(env, "hitscan_hits", 0, LASER) == 2


def test_lasers_need_clear_sight_and_guns_fire_without():
    for seen in (0, 1, 2):
        env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)})
        env.arrays["sight"][0, 0, 1] = seen
        play(env, {0: ["primary", "tertiary"]})
        assert of(env, "hitscan_hits", 0, LASER) == -1
        assert of(env, "hitscan_hits", 0, PAINTER) == -1
        assert of(env, "heat", 0) == 2 * 6.0, "two shots of the autocannon"


def test_one_trigger_fires_all_that_hangs_on_it():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)})

    play(env, {0: ["tertiary"]})

    assert of(env, "painted_by", 1) == 0
    assert of(env, "heat", 0) == 2 * 6.0 + 5.0


@pytest.mark.parametrize(
    ("name", "trigger", "weapon", "ticks"),
    [
        ("medium", "primary", LASER, 12),
        ("light", "primary", FLAMER, 3),
        ("heavy", "secondary", MISSILE, 60),
        ("heavy", "tertiary", GAUSS, 80),
        ("medium", "tertiary", AUTOCANNON, 4),
        ("scout", "primary", PAINTER, 20),
    ],
)
def test_a_weapon_fires_as_often_as_its_cooldown_lets_it(name: str, trigger: str, weapon: int, ticks: int):
    env = set_up([[name]], {0: (0, 0, EAST), 1: (4, 0, WEST)})
    env.hulls["heat_capacity"].fill_(1e6)
    env.hulls["hp"].fill_(1e6)
    env.arrays["hp"].fill_(1e6)
    other = 5.0 if weapon == AUTOCANNON else 0.0  # the painter on the same trigger

    play(env, {0: [trigger]}, decisions=20)

    shots = math.ceil(100 / ticks)
    assert of(env, "heat", 0) == shots * WEAPONS[weapon].heat + 5 * other


def test_the_shut_down_the_dead_and_the_unheeded_do_not_fire():
    places = {0: (0, 0, EAST), 2: (5, 0, WEST)}
    everything = {0: [name for name in TRIGGERS if name != "vent"]}
    for name, value in (("heat", 130.5), ("hp", 0.0)):
        env = set_up([["heavy"] * 2], places, **{name: {0: value}})
        play(env, everything)
        assert env.arrays["shell_reach"][0, 0].tolist() == [0.0] * 3
        assert hp(env)[2] == 200.0

    env = set_up([["heavy"] * 2], places)
    env.arrays["fire_probability"].fill_(0.0)
    play(env, everything)
    assert env.arrays["heat"][0].tolist() == [0.0] * 4


def test_mech_at_its_heat_capacity_still_fires():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)}, heat={0: 100.0})

    play(env, {0: ["primary"]})

    assert hp(env)[1] == 136.0


def test_fallen_mech_fires_beams_but_no_shells():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (6, 0, WEST)}, fallen_ticks={0: 50})

    play(env, {0: ["primary", "secondary", "tertiary"]})

    assert of(env, "hitscan_hits", 0, LASER) == 1
    assert of(env, "heat", 0) == 22.0


def test_smoke_and_missiles_wait_for_each_other():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (9, 0, WEST)})

    play(env, {0: ["secondary", "special"]})

    assert of(env, "smoke_count", 0) == 1
    assert env.arrays["shell_reach"][0, 0].tolist() == [0.0] * 3


def test_a_weapon_that_is_not_carried_never_fires():
    env = set_up([["scout"]], {0: (0, 0, EAST), 1: (4, 0, WEST)})

    play(env, {0: [name for name in TRIGGERS if name != "special"]})

    assert of(env, "heat", 0) == 5.0
    assert hp(env)[1] == 60.0


def test_weapon_numbers_follow_the_armament():
    named = dict(enumerate(weapon.name for weapon in WEAPONS))
    assert named == {**NAMES, PAINTER: "painter"}
    assert HOLD != AHEAD
