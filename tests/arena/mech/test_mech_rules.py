import math
import subprocess
import sys

import pytest
import torch

from arena.environments import make
from arena.environments.mech.rules import REASONS
from arena.errors import ArenaError, InvalidActionError

EAST, WEST, NORTH = (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)
FAR = [(-15.0, 0.0), (15.0, 0.0)]
FACE_TO_FACE = [EAST, WEST]


def test_laser_hurts_and_heats_its_target_and_heats_its_owner(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE)

    env.step(orders(home=["primary"]))

    assert env.arrays["hp"][0].tolist() == [150.0, 136.0]
    assert env.arrays["heat"][0].tolist() == pytest.approx([22.0 - 4 * 0.55, 6.0 - 4 * 0.55], abs=1e-4)


@pytest.mark.parametrize(
    ("away", "angle_deg", "hits"), [(7.9, 0.0, True), (8.1, 0.0, False), (6.0, 59.0, True), (6.0, 61.0, False)]
)
def test_laser_hits_within_range_and_arc_only(duel, orders, away: float, angle_deg: float, hits: bool):
    angle = math.radians(angle_deg)
    env = duel([(0.0, 0.0), (away * math.cos(angle), away * math.sin(angle))], [EAST, WEST])

    env.step(orders(home=["primary"]))

    assert (env.arrays["hp"][0, 1].item() < 150.0) == hits
    assert (env.arrays["heat"][0, 0].item() > 0.0) == hits, "a laser without a target must not heat its owner"


def test_shot_in_the_back_hurts_half_as_much_again(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], [EAST, EAST])

    env.step(orders(home=["primary"]))

    assert env.arrays["hp"][0, 1].item() == 150.0 - 21.0


def test_shells_take_their_time_and_miss_whoever_is_out_of_their_way(duel, orders):
    env = duel([(-5.0, 0.0), (5.0, 0.0)], FACE_TO_FACE)
    for trigger, hp in ((["tertiary"], 150.0), ([], 142.0), ([], 134.0), ([], 134.0)):
        env.step(orders(home=trigger))
        assert env.arrays["hp"][0, 1].item() == hp

    aside = duel([(-5.0, 0.0), (5.0, 2.0)], FACE_TO_FACE)
    for trigger in (["tertiary"], [], []):
        aside.step(orders(home=trigger))
    assert aside.arrays["hp"][0, 1].item() == 150.0


def test_shells_fall_short_of_whoever_is_out_of_range(duel, orders):
    env = duel([(-7.0, 0.0), (7.0, 0.0)], FACE_TO_FACE)

    for _ in range(8):
        env.step(orders(home=["tertiary"]))

    assert env.arrays["hp"][0, 1].item() == 150.0


def test_overheated_mech_neither_moves_nor_fires_nor_vents(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE, heat=[130.0, 0.0])

    step = env.step(orders(home=["primary", "vent", "tertiary"], forward=(1.0, 0.0), yaw_rate=(1.0, 0.0)))

    assert env.arrays["position"][0, 0].tolist() == [-3.0, 0.0]
    assert env.arrays["heading"][0, 0].tolist() == [1.0, 0.0]
    assert env.arrays["hp"][0, 1].item() == 150.0
    assert env.arrays["heat"][0, 0].item() == pytest.approx(130.0 - 5 * 0.55, abs=1e-3)
    assert step.observation.values[0, 0, 1].item() == 1.0
    assert not step.observation.masks["move"][0, 0].any()
    assert not step.observation.masks["trigger"][0, 0].any()


def test_masks_open_again_for_the_decision_in_which_power_comes_back(duel, orders):
    env = duel(FAR, FACE_TO_FACE, heat=[104.9, 0.0])

    step = env.step(orders())

    assert env.arrays["heat"][0, 0].item() > 100.0
    assert step.observation.masks["move"][0, 0].tolist() == [True, True, False, True]
    env.step(orders(forward=(1.0, 0.0)))
    assert env.arrays["position"][0, 0, 0].item() > -15.0


def test_venting_cools_three_times_as_fast(duel, orders):
    env = duel(FAR, FACE_TO_FACE, heat=[90.0, 90.0])

    env.step(orders(home=["vent"]))

    assert env.arrays["heat"][0].tolist() == pytest.approx([90.0 - 8.25, 90.0 - 2.75], abs=1e-3)


def test_switches_that_a_medium_lacks_do_nothing(duel, orders):
    idle, busy = (duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE) for _ in range(2))

    idle.step(orders())
    step = busy.step(orders(home=["secondary", "special"], vertical=(1.0, 1.0)))

    for name, array in idle.arrays.items():
        assert torch.equal(array, busy.arrays[name]), name
    assert step.observation.masks["trigger"][0, 0].tolist() == [True, True, False, True, False]


def test_cooldown_masks_the_laser_until_it_may_fire(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE)

    ready = [env.step(orders(home=["primary"])).observation.masks["trigger"][0, 0, 0].item() for _ in range(3)]

    assert ready == [False, True, False]
    assert env.arrays["hp"][0, 1].item() == 150.0 - 2 * 14.0


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


def test_nobody_leaves_the_map(duel, orders):
    env = duel([(-18.0, 0.0), (18.0, 5.0)], [WEST, NORTH])

    for _ in range(20):
        env.step(orders(forward=(1.0, 1.0)))

    assert env.arrays["position"][0].tolist() == [[-18.75, 0.0], [18.0, 18.75]]


@pytest.mark.parametrize(
    ("positions", "ticks"),
    [(FAR, (0.0, 0.0)), ([(0.0, 0.0), (15.0, 0.0)], (1.0, 0.0)), ([(-2.0, 0.0), (2.0, 0.0)], (0.25, 0.25))],
)
def test_zone_pays_whoever_holds_it(duel, orders, positions, ticks):
    env = duel(positions, FACE_TO_FACE, zone_radius=5.0)

    env.step(orders())

    assert env.arrays["zone_s"][0].tolist() == [tick * 0.25 for tick in ticks]


@pytest.mark.parametrize(
    ("arrays", "score", "reason", "truncated"),
    [
        ({"zone_s": [29.9, 3.0], "position": [(0.0, 0.0), (15.0, 0.0)]}, 1.0, "zone", False),
        ({"zone_s": [3.0, 29.9], "position": [(15.0, 0.0), (0.0, 0.0)]}, 0.0, "zone", False),
        ({"zone_s": [30.0, 30.0], "hp": [90.0, 100.0]}, 0.0, "zone", False),
        ({"hp": [0.0, 1.0]}, 0.0, "elimination", False),
        ({"hp": [0.0005, 0.0]}, 1.0, "elimination", False),
        ({"hp": [0.0, 0.0], "zone_s": [20.0, 0.0]}, 0.5, "elimination", False),
        ({"decision": 239, "zone_s": [2.0, 1.0], "hp": [1.0, 150.0]}, 1.0, "time", True),
        ({"decision": 239, "zone_s": [1.0, 1.0005], "hp": [20.0, 10.0]}, 1.0, "time", True),
        ({"decision": 239, "hp": [10.0, 20.0]}, 0.0, "time", True),
        ({"decision": 239}, 0.5, "time", True),
    ],
)
def test_winner_table(duel, orders, arrays, score: float, reason: str, truncated: bool):
    env = duel(**{"positions": FAR, "headings": FACE_TO_FACE, **arrays})

    step = env.step(orders())

    assert step.outcome.score.item() == score
    assert REASONS[step.outcome.reason.item()] == reason
    assert (step.terminated.item(), step.truncated.item()) == (not truncated, truncated)
    assert step.outcome.decisions.item() == arrays.get("decision", 0) + 1


def test_match_goes_on_while_nothing_is_decided(duel, orders):
    step = duel(FAR, FACE_TO_FACE, decision=238, zone_s=[29.0, 29.0], hp=[1.0, 1.0]).step(orders())

    assert not step.terminated.any()
    assert not step.truncated.any()
    assert step.outcome.score.item() == 0.5


def test_both_may_kill_each_other_in_one_tick(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE, hp=[5.0, 5.0])

    step = env.step(orders(home=["primary"], away=["primary"]))

    assert step.outcome.score.item() == 0.5
    assert REASONS[step.outcome.reason.item()] == "elimination"


def test_nan_actions_are_counted_and_count_as_zero(duel, orders):
    env, still = (duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE) for _ in range(2))
    actions = orders(home=["primary"])
    poisoned = {**actions, "move": actions["move"].clone()}
    poisoned["move"][0, 0, [0, 3]] = math.nan

    step = env.step(poisoned)

    assert env.nan_actions[0].tolist() == [2, 0]
    assert torch.equal(step.observation.values, still.step(actions).observation.values)


def test_moves_beyond_one_are_clipped(duel, orders):
    wild, full = (duel(FAR, FACE_TO_FACE) for _ in range(2))

    wild.step(orders(forward=(7.0, math.inf), yaw_rate=(-9.0, 2.0)))
    full.step(orders(forward=(1.0, 1.0), yaw_rate=(-1.0, 1.0)))

    assert torch.equal(wild.arrays["position"], full.arrays["position"])
    assert torch.equal(wild.arrays["heading"], full.arrays["heading"])


def test_actions_that_do_not_fit_are_refused_by_name(duel, orders):
    env = duel(FAR, FACE_TO_FACE)

    with pytest.raises(InvalidActionError, match=r"'move' have shape \(1, 2, 3\): mech-duel takes \(1, 2, 4\)"):
        env.step({**orders(), "move": torch.zeros(1, 2, 3)})


def test_gpu_that_is_not_there_is_refused():
    with pytest.raises(ArenaError, match="'cuda:99' does not exist here"):
        make("mech-duel", num_envs=1, device="cuda:99")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_machine_without_warp_is_told_so_in_one_line():
    without_warp = "import sys; sys.modules['warp'] = None; from arena.cli import main; "

    ran = run_python(without_warp + "main(['bench', '--environment', 'mech-duel'])")

    assert ran.returncode == 1
    assert ran.stderr.startswith("arena: the mech arena needs NVIDIA Warp, which does not load here")
    assert ran.stderr.count("\n") == 1


def test_cache_that_cannot_be_written_is_named():
    code = "import os; os.environ['WARP_CACHE_PATH'] = '/dev/null/cache'; from arena.cli import main; "

    ran = run_python(code + "main(['bench', '--environment', 'mech-duel'])")

    assert ran.returncode == 1
    assert ran.stderr.startswith("arena: NVIDIA Warp does not start here")
    assert "/dev/null/cache" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_making_an_environment_prints_nothing():
    ran = run_python("from arena.environments import make; make('mech-duel', num_envs=2).reset()")

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
