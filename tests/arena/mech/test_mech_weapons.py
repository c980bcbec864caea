"""Weapons, shells, hits and what they do, in situations set up by hand; open ground unless a test builds a wall."""

import math
from collections.abc import Mapping, Sequence

import pytest
import torch

from arena.environments.mech.armament import TIMERS, TRIGGERS, WEAPONS
from arena.environments.mech.composition import MechConfig, Terrain
from arena.environments.mech.kernels.state import AHEAD, HOLD
from arena.environments.mech.kernels.targeting import AUTOCANNON, FLAMER, GAUSS, LASER, MISSILE, PAINTER
from arena.environments.mech.rewards import RewardWeights
from arena.environments.mech.rules import AMS_TICKS, FALLEN_TICKS, LAVA, PAINT_TICKS, SUPPRESSED_TICKS
from arena.environments.mech.simulation import MechEnvironment
from arena.environments.protocol import Actions, StepResult

WEIGHTS = RewardWeights()

EAST, NORTH, WEST, SOUTH = 0.0, 90.0, 180.0, -90.0
NAMES = {LASER: "laser", FLAMER: "flamer", MISSILE: "missile", GAUSS: "gauss", AUTOCANNON: "autocannon"}

Place = tuple[float, float, float]
"""x, y and heading in degrees."""


def set_up(
    packs: Sequence[Sequence[str]],
    places: Mapping[int, Place],
    *,
    terrain: Terrain = Terrain.OPEN,
    num_envs: int = 1,
    lacking: Sequence[int] = (),
    **arrays: Mapping[int, float],
) -> MechEnvironment:
    """Matches with mechs placed by hand on flat ground; whoever has no place stands in its side's far corner.

    Args:
        lacking: Weapons that nobody carries.
        arrays: What else to set, by name and mech.
    """
    config = MechConfig("flattened", tuple(map(tuple, packs)), map_side=160, limit_s=60.0, terrain=terrain)
    env = MechEnvironment(config, RewardWeights(), num_envs=num_envs, device="cpu", seed=0)
    flatten(env)
    env.reset(torch.arange(num_envs))
    for i in range(env.spec.num_agents):
        side = 1 if env.hulls["side"][i] else -1
        x, y, heading = places.get(i, (70.0 * side, (70.0 - 6 * int(env.hulls["rank"][i])) * side, 90.0 - 90.0 * side))
        env.arrays["position"][:, i] = torch.tensor([x, y, 0.0])
        env.arrays["heading"][:, i] = unit(heading)
    for name, values in arrays.items():
        for i, value in values.items():
            env.arrays[name][:, i] = value
    env.arrays["sight"].fill_(3)
    env.hulls["trigger"][:, list(lacking)] = -1
    env.hulls["dissipation"].fill_(0.0)
    return env


def flatten(env: MechEnvironment) -> None:
    """Level the maps: what stands on them is then put there by the test."""
    for name in ("solid", "sight", "material", "ground"):
        env._structs.terrain[name].fill_(0)
    env._structs.terrain["highest"].fill_(9.0)


def build_wall(env: MechEnvironment, column: int, height: int) -> None:
    """A wall right across the maps, from south to north, at x from column to column + 1."""
    env._structs.terrain["solid"][:, :, 80 + column] = height


def unit(degrees: float) -> torch.Tensor:
    return torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])


def polar(distance: float, degrees: float, heading: float) -> Place:
    x, y = (distance * unit(degrees)).tolist()
    return x, y, heading


def order(
    env: MechEnvironment, triggers: Mapping[int, Sequence[str]], focus: Mapping[int, int] | None = None
) -> Actions:
    """Actions of everybody: who pulls which triggers, and who wants to hit whom; nobody moves."""
    actions = {}
    for head in env.spec.heads:
        shape = (env.num_envs, env.spec.num_agents)
        kinds = {"trigger": torch.bool, "target": torch.int64, "ewar": torch.int64}
        size = (head.size,) if head.name in ("move", "trigger", "comm") else ()
        actions[head.name] = torch.zeros(*shape, *size, dtype=kinds.get(head.name, torch.float32))
    for i, names in triggers.items():
        for name in names:
            actions["trigger"][:, i, TRIGGERS.index(name)] = True
    for i, j in (focus or {}).items():
        env.arrays["contact"][:, i, 0] = j
        actions["target"][:, i] = 1
    return actions


def play(
    env: MechEnvironment,
    triggers: Mapping[int, Sequence[str]],
    focus: Mapping[int, int] | None = None,
    decisions: int = 1,
) -> StepResult:
    for _ in range(decisions):
        result = env.step(order(env, triggers, focus))
    return result


def of(env: MechEnvironment, name: str, *index: int) -> float:
    return env.arrays[name][(0, *index)].item()


def rows(env: MechEnvironment, name: str) -> list:
    return env.arrays[name][0].tolist()


def component(env: MechEnvironment, name: str) -> list[float]:
    return env.components[0, :, env.component_names.index(name)].tolist()


def hp(env: MechEnvironment) -> list[float]:
    return rows(env, "hp")


# Whom hitscan weapons hit


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

    assert of(env, "beams", 0, weapon) == (1 if hits else -1)
    assert (of(env, "heat", 0) > 0.0) == hits, "who does not fire must not heat up"
    assert (of(env, "timers", 0, TIMERS.index(WEAPONS[weapon].timer)) > 0) == hits


def test_range_is_measured_between_centres_in_space():
    env = set_up([["scout", "heavy"]], {0: (0, 0, EAST), 3: (9.97, 0, WEST)})
    play(env, {0: ["primary"]})
    assert of(env, "beams", 0, PAINTER) == -1, "9.97 m away and 1.1 m higher is more than 10 m"

    env = set_up([["scout", "heavy"]], {0: (0, 0, EAST), 3: (9.93, 0, WEST)})
    play(env, {0: ["primary"]})
    assert of(env, "beams", 0, PAINTER) == 3


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
        assert of(env, "beams", 0, LASER) == expected


def test_a_focus_that_dies_within_the_decision_is_shot_at_no_more():
    env = set_up([["light"] * 2], {0: (0, 0, EAST), 2: (4, 0, WEST), 3: (3, 2, WEST)}, hp={2: 3.0})

    play(env, {0: ["primary"]}, {0: 2})

    assert hp(env)[2:] == [0.0, 76.0], "the flamer fires twice"


def test_of_two_enemies_equally_near_the_one_with_the_lower_index_is_hit():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (5, 3, WEST), 3: (5, -3, WEST)})

    play(env, {0: ["primary"]})

    assert of(env, "beams", 0, LASER) == 2


def test_lasers_need_clear_sight_and_guns_fire_without():
    for seen in (0, 1, 2):
        env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)})
        env.arrays["sight"][0, 0, 1] = seen
        play(env, {0: ["primary", "tertiary"]})
        assert of(env, "beams", 0, LASER) == -1
        assert of(env, "beams", 0, PAINTER) == -1
        assert of(env, "heat", 0) == 2 * 6.0, "two shots of the autocannon"


def test_one_trigger_fires_all_that_hangs_on_it():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)})

    play(env, {0: ["tertiary"]})

    assert of(env, "painted_by", 1) == 0
    assert of(env, "heat", 0) == 2 * 6.0 + 5.0


# Who fires and how often


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


def test_who_is_at_its_heat_capacity_still_fires():
    env = set_up([["medium"]], {0: (0, 0, EAST), 1: (6, 0, WEST)}, heat={0: 100.0})

    play(env, {0: ["primary"]})

    assert hp(env)[1] == 136.0


def test_whoever_lies_on_the_ground_fires_beams_but_no_shells():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (6, 0, WEST)}, fallen_ticks={0: 50})

    play(env, {0: ["primary", "secondary", "tertiary"]})

    assert of(env, "beams", 0, LASER) == 1
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


# Guns


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


def test_a_shell_misses_whoever_left_its_way():
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
    assert of(env, "shell_mark", 0, slot) == (3 if aims else AHEAD)
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


def test_who_stands_before_a_wall_is_hit_before_the_shell_reaches_it():
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


# Missiles


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
def test_a_missile_locks_on_its_packs_paint_or_on_what_it_sees_near(
    distance: float, painter: int, quality: float, locks: bool
):
    packs = [["heavy", "heavy"], ["heavy"]]
    env = set_up(packs, {0: (0, 0, EAST), 3: (distance, 0, WEST)}, quality={0: quality})
    env.arrays["painted_by"][0, 3] = painter
    env.arrays["painted_ticks"][0, 3] = 100 if painter >= 0 else 0

    play(env, {0: ["secondary"]})

    assert (of(env, "heat", 0) == 45.0) == locks
    assert of(env, "shell_mark", 0, 0) == 3 or not locks


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


# Splash


def test_splash_falls_off_with_the_distance_and_pays_for_enemies_only():
    places = {0: (0, 0, EAST), 1: (10, 3.4, EAST), 2: (10.6, 0, WEST), 3: (10, -2.5, EAST)}
    env = set_up([["heavy"] * 2], places, painted_by={3: 0}, painted_ticks={3: 100})

    play(env, {0: ["tertiary"]})
    play(env, {})

    friend, enemy = 200.0 - hp(env)[1], 200.0 - hp(env)[3]
    assert friend == pytest.approx(25.0 * (1.0 - 1.4 / 1.5), abs=0.2)
    assert enemy == pytest.approx(25.0 * (1.0 - 0.5 / 1.5), abs=0.2), "no rear, no paint bonus"
    assert rows(env, "dealt")[0] == pytest.approx([0.0, friend, 50.0, enemy], rel=1e-5)
    assert of(env, "offered", 0, GAUSS) == pytest.approx(50.0 + enemy, rel=1e-5), "own side is not counted"
    assert component(env, "damage")[:2] == pytest.approx([(50.0 + enemy) / 100.0 * WEIGHTS.damage, 0.0], rel=1e-4)
    assert component(env, "hurt")[:2] == pytest.approx([0.0, -friend / 100.0 * WEIGHTS.hurt], rel=1e-4)


def shell_at(
    env: MechEnvironment, owner: int, slot: int, kind: int, place: Sequence[float], velocity: Sequence[float]
) -> None:
    """A shell in the air; if it is a missile its mark is the last enemy, who is dead: it flies straight on."""
    env.arrays["shell_position"][:, owner, slot] = torch.tensor(place)
    env.arrays["shell_velocity"][:, owner, slot] = torch.tensor(velocity)
    env.arrays["shell_reach"][:, owner, slot] = 50.0
    env.arrays["shell_kind"][:, owner, slot] = kind
    if kind == MISSILE:
        mark = env.spec.num_agents - 1 if owner < env.spec.num_agents // 2 else env.spec.num_agents // 2 - 1
        env.arrays["shell_mark"][:, owner, slot] = mark
        env.arrays["hp"][:, mark] = 0.0


def test_splash_follows_its_formula_from_the_point_of_the_hit():
    env = set_up([["heavy"] * 2], {0: (0, 0, EAST), 2: (10, 0, WEST), 3: (10, -2.5, EAST)})
    shell_at(env, 0, 2, GAUSS, [9.0, 0.0, 2.0], [40.0, 0.0, 9.81 * 0.05])

    play(env, {})

    assert hp(env)[2] == 150.0
    assert 200.0 - hp(env)[3] == pytest.approx(50.0 * 0.5 * (1.0 - 0.5 / 1.5), abs=1e-3)
    assert of(env, "stability", 3) == pytest.approx(100.0 - 60.0 * 0.5 * (1.0 - 0.5 / 1.5) + 4 * 0.5, abs=1e-3)


def test_who_fires_too_near_hurts_itself_and_earns_nothing_by_it():
    env = set_up([["heavy"]], {0: (0, 0, EAST), 1: (3.2, 0, WEST)})

    play(env, {0: ["tertiary"]})

    own = 200.0 - hp(env)[0]
    assert own > 0.0
    assert of(env, "dealt", 0, 0) == pytest.approx(own, rel=1e-5)
    assert of(env, "offered", 0, GAUSS) == 50.0
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


def test_a_missile_that_meets_a_wall_bursts_there():
    env = set_up([["heavy", "scout", "scout"]], {4: (3.6, 0, WEST)}, terrain=Terrain.BROKEN)
    build_wall(env, 5, 6)
    shell_at(env, 0, 0, MISSILE, [4.8, 2.0, 1.2], [12.0, 0.0, 0.0])

    play(env, {})

    off = math.dist((5.1, 2.0, 1.2), (3.6, 0.0, 0.9)) - 0.9
    assert of(env, "shell_reach", 0, 0) == 0.0
    assert 60.0 - hp(env)[4] == pytest.approx(20.0 * (1.0 - off / 2.5), abs=1e-3), "after two quarters of its way"


def test_a_missile_whose_reach_ends_does_not_burst():
    env = set_up([["heavy", "scout", "scout"]], {4: (3.6, 0, WEST)})
    shell_at(env, 0, 0, MISSILE, [3.0, 2.0, 1.2], [12.0, 0.0, 0.0])
    env.arrays["shell_reach"][0, 0, 0] = 0.5

    play(env, {})

    assert of(env, "shell_reach", 0, 0) == 0.0
    assert hp(env)[4] == 60.0


# Anti-missile systems


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
    assert torch.equal(env.arrays["downed"][:, 2], downed.int())
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

    assert env.arrays["downed"].sum() > 0, "20 ticks later it tries again"


@pytest.mark.parametrize(("name", "value"), [("hp", 0.0), ("heat", 131.0), ("ams_ticks", 20)])
def test_the_dead_the_shut_down_and_the_busy_down_no_missiles(name: str, value: float):
    env = set_up([["heavy", "scout", "scout"]], {3: (0, 0, EAST)}, num_envs=50, **{name: {3: value}})
    missile_at(env, 0, 0, [4.0, 0.0, 2.0])

    play(env, {})

    assert (env.arrays["shell_reach"][:, 0, 0] > 0.0).all()


def test_own_missiles_gauss_slugs_and_hulls_without_the_system_are_left_alone():
    env = set_up([["heavy", "scout", "scout"]], {0: (0, 0, EAST), 5: (20, 0, EAST)}, num_envs=50)
    missile_at(env, 0, 0, [2.0, 0.0, 9.0])
    missile_at(env, 0, 1, [20.0, 0.0, 9.0])
    shell_at(env, 3, 0, AUTOCANNON, [2.0, 0.0, 6.0], [0.0, 0.0, 1e-3])

    play(env, {})

    assert (env.arrays["shell_reach"][:, [0, 0, 3], [0, 1, 0]] > 0.0).all()


# Paint


def test_paint_makes_its_own_packs_shots_hurt_more_and_nobody_elses():
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


def test_who_painted_the_destroyed_gets_its_packs_share_as_an_assist():
    packs = [["medium", "medium", "scout"], ["medium"]]
    places = {0: (0, 0, EAST), 1: (0, 3, EAST), 3: (0, -3, EAST), 4: (6, 0, WEST)}
    env = set_up(packs, places, painted_by={4: 2}, painted_ticks={4: 100}, hp={4: 3.0})

    play(env, {0: ["primary"], 1: ["primary"], 3: ["primary"]})

    sums = 2 * 15.4 + 14.0
    assert env.arrays["killed"][0, [0, 1, 3], 4].tolist() == pytest.approx([15.4 / sums, 15.4 / sums, 14.0 / sums])
    assert of(env, "assists", 2, 4) == pytest.approx(2 * 15.4 / sums)
    assert env.arrays["assists"].sum().item() == pytest.approx(2 * 15.4 / sums)


def test_who_paints_in_the_very_tick_of_the_kill_and_who_kills_by_its_own_paint_gets_no_assist():
    env = set_up([["medium", "scout"]], {0: (0, 0, EAST), 1: (0, 3, EAST), 2: (6, 0, WEST)}, hp={2: 3.0})
    play(env, {0: ["primary"], 1: ["primary"]})
    assert of(env, "killed", 0, 2) == 1.0
    assert env.arrays["assists"].sum() == 0.0

    env = set_up([["medium", "scout"]], {0: (0, 0, EAST), 2: (6, 0, WEST)}, hp={2: 3.0}, painted_by={2: 0})
    env.arrays["painted_ticks"][0, 2] = 100
    play(env, {0: ["primary"]})
    assert of(env, "killed", 0, 2) == 1.0
    assert env.arrays["assists"].sum() == 0.0


# What hits do


def test_two_may_destroy_each_other_in_one_tick():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (6, 0, WEST)}, hp={0: 5.0, 2: 5.0})

    play(env, {0: ["primary"], 2: ["primary"]})

    assert hp(env) == [0.0, 150.0, 0.0, 150.0]
    assert of(env, "killed", 0, 2) == of(env, "killed", 2, 0) == 1.0


def test_overkill_is_shared_by_what_everybody_shot():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 1: (0, 3, EAST), 2: (6, 0, WEST)}, hp={2: 10.0})

    play(env, {0: ["primary"], 1: ["primary"]})

    assert hp(env)[2] == 0.0
    assert env.arrays["dealt"][0, :2, 2].tolist() == [5.0, 5.0]
    assert env.arrays["killed"][0, :2, 2].tolist() == [0.5, 0.5]
    assert env.arrays["offered"][0, :2, LASER].tolist() == [14.0, 14.0]


def test_the_ground_takes_its_share_of_a_kill():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 2: (6, 0, WEST)}, terrain=Terrain.BROKEN, hp={2: 10.0})
    env._structs.terrain["material"][:, :, 86] = LAVA

    play(env, {0: ["primary"]})

    assert hp(env)[2] == 0.0
    assert of(env, "burnt", 2) == pytest.approx(10.0 * 0.25 / 14.25)
    assert of(env, "dealt", 0, 2) == pytest.approx(10.0 * 14.0 / 14.25)
    assert of(env, "killed", 0, 2) == pytest.approx(14.0 / 14.25)


def test_damage_is_felt_from_where_it_came():
    env = set_up([["medium"] * 2], {0: (0, 0, EAST), 1: (6, 5, SOUTH), 2: (6, 0, WEST)})

    play(env, {0: ["primary"], 1: ["primary"]})

    assert env.arrays["hurt_from"][0, 2].tolist() == pytest.approx([-14.0, 14.0])


def test_who_is_shaken_out_of_its_stability_falls_and_gets_up_again():
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


def test_who_lies_on_the_ground_is_shaken_no_further():
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


# Everything at once


MIXED = ["heavy", "medium", "medium", "light", "scout"]


def brawl(pack: Sequence[str] = MIXED, num_envs: int = 1) -> MechEnvironment:
    """Ten a side within some metres of the map's centre, tough and cool enough to fight for a while."""
    generator = torch.Generator().manual_seed(5)
    places = {}
    for i in range(20):
        x, y, heading = (torch.rand(3, generator=generator) * torch.tensor([24.0, 24.0, 360.0])).tolist()
        places[i] = (x - 12.0, y - 12.0, heading)
    env = set_up([pack, pack], places, terrain=Terrain.BROKEN, num_envs=num_envs)
    env.hulls["dissipation"].fill_(60.0)
    env.arrays["hp"] *= 10.0
    return env


def random_orders(env: MechEnvironment, generator: torch.Generator) -> Actions:
    actions = order(env, {})
    shape = actions["move"].shape
    actions["move"] = 2.0 * torch.rand(shape, generator=generator) - 1.0
    actions["trigger"] = torch.rand(actions["trigger"].shape, generator=generator) < 0.6
    actions["trigger"][..., TRIGGERS.index("special")] = False
    actions["target"] = torch.randint(0, 1 + env.config.contacts, shape[:2], generator=generator)
    return actions


def test_every_point_that_is_lost_was_dealt_or_burnt_and_everybody_is_hit_by_something():
    env, generator = brawl(), torch.Generator().manual_seed(0)
    offered = torch.zeros(len(WEAPONS))
    env.arrays["hp"] /= 2.5
    for _ in range(60):
        before = env.arrays["hp"].clone()
        result = env.step(random_orders(env, generator))
        assert not result.terminated.any()
        lost = before - env.arrays["hp"]
        assert torch.allclose(lost, env.arrays["dealt"].sum(1) + env.arrays["burnt"], atol=1e-3)
        assert (lost >= 0.0).all()
        killed = env.arrays["killed"].sum(1) > 0.0
        assert torch.equal(killed, (before > 0.0) & (env.arrays["hp"] == 0.0))
        offered += env.arrays["offered"].sum((0, 1))
    assert (offered[: len(WEAPONS) - 1] > 0.0).all(), dict(zip(NAMES.values(), offered.tolist(), strict=False))
    assert offered[PAINTER] == 0.0


@pytest.mark.parametrize("pack", [MIXED, ["heavy"] * 5])
def test_a_mirrored_fight_goes_the_mirrored_way_bit_for_bit(pack: list[str]):
    env, generator = brawl(pack, num_envs=2), torch.Generator().manual_seed(0)
    swap = torch.cat([torch.arange(10, 20), torch.arange(10)])
    env.hulls["stream"].copy_(env.hulls["rank"])
    env.arrays["seeds"].fill_(7)
    env.arrays["position"][1] = env.arrays["position"][0, swap] * torch.tensor([-1.0, -1.0, 1.0])
    env.arrays["heading"][1] = -env.arrays["heading"][0, swap]
    env.arrays["hp"][1] = env.arrays["hp"][0, swap]
    env.arrays["contact"].fill_(-1)
    hurt = 0.0
    for _ in range(60):
        actions = random_orders(env, generator)
        for action in actions.values():
            action[1] = action[0, swap]
        env.step(actions)
        env.arrays["timers"].fill_(0)
        for name in ("hp", "leg_hp", "heat", "stability", "timers", "fallen_ticks", "painted_ticks", "shell_reach"):
            assert torch.equal(env.arrays[name][1], env.arrays[name][0, swap]), name
        for name in ("dealt", "killed", "assists"):
            assert torch.equal(env.arrays[name][1], env.arrays[name][0, swap][:, swap]), name
        for name in ("position", "velocity", "shell_position", "shell_velocity"):
            flipped = env.arrays[name][0, swap] * torch.tensor([-1.0, -1.0, 1.0])
            assert torch.equal(env.arrays[name][1], flipped), name
        hurt += env.arrays["dealt"][0].sum().item()
    assert hurt > 500.0


def test_weapon_numbers_follow_the_armament():
    named = dict(enumerate(weapon.name for weapon in WEAPONS))
    assert named == {**NAMES, PAINTER: "painter"}
    assert HOLD != AHEAD
