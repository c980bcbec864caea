"""Who holds the zone, who wins, and what everybody earns; the oracle looks on in every scene."""

import pytest
import torch
from mech_play import RandomOrders, brawl, idle
from mech_scene import EAST, WEST, Scene, built_scene, open_scene

from arena.environments import make_baseline
from arena.environments.mech.config.constants import LAVA, REASONS
from arena.environments.mech.config.rewards import COMPONENTS, RewardWeights
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.env import MechEnvironment

DUEL = [("medium",)]
WEIGHTS = RewardWeights()
LIMIT, GOAL_S, RADIUS = 400, 50.0, 5.0
EVERYWHERE = (range(-30, 30), range(-30, 30))


def at(x: float, y: float, heading: tuple[float, float] = EAST, z: float = 0.0, **arrays: float) -> dict:
    return {"position": (x, y, z), "heading": heading, **arrays}


def start(packs: list, placed: dict, **arrays: float) -> Scene:
    """A scene on open ground with a zone of 5 m, nothing scored yet, and nobody sharing; then any other array."""
    scene = open_scene(packs, placed)
    for name, value in {"zone_radius": RADIUS, "zone_s": 0.0, "own_share": 1.0, **arrays}.items():
        array = scene[name]
        array.copy_(torch.as_tensor(value, dtype=array.dtype))
    return scene


def component(scene: Scene, name: str) -> list[float]:
    return scene.env.components[0, :, COMPONENTS.index(name)].tolist()


@pytest.mark.parametrize(
    ("placed", "ticks"),
    [
        ({0: (20, 0), 2: (-20, 0)}, (0.0, 0.0)),
        ({0: (0, 0), 2: (-20, 0)}, (1.0, 0.0)),
        ({1: (0, 0), 2: (-20, 0)}, (1.0, 0.0)),
        ({0: (4.9, 0), 2: (-4.9, 0)}, (0.25, 0.25)),
        ({0: (3, 0), 1: (0, 3), 2: (-20, 0), 3: (-3, 0)}, (0.25 + 0.75 * 85 / 125, 0.25)),
        ({1: (3, 0), 2: (-3, 0)}, (0.25, 0.25 + 0.75 * 65 / 105)),
    ],
)
def test_zone_pays_by_the_tonnage_that_holds_it(placed: dict, ticks: tuple[float, float]):
    scene = start([("heavy", "scout")], {index: at(*place) for index, place in placed.items()})

    scene.play(2)

    assert scene["zone_tick"].tolist() == pytest.approx(ticks)
    assert scene["zone_s"].tolist() == pytest.approx([0.5 * tick for tick in ticks])
    lead = (ticks[0] - ticks[1]) * 0.25 / GOAL_S * WEIGHTS.zone
    side = [lead if 0 in placed else 0.0, lead if 1 in placed else 0.0]
    assert component(scene, "zone")[:2] == pytest.approx(side)
    assert sum(component(scene, "zone")) == pytest.approx(
        lead * (sum(k < 2 for k in placed) - sum(k > 1 for k in placed))
    )


def test_flying_mech_does_not_hold_the_zone():
    scene = start([("scout",)], {0: at(0, 0, z=6.0), 1: at(20, 0)})
    for flying in (True, True, False):
        scene.play(1 if flying else 6)
        assert (scene["zone_tick"][0] == 0.0) == flying
        assert (scene["position"][0, 2] > 2.0) == flying


def test_edge_of_the_zone_belongs_to_it():
    scene = start(DUEL, {0: at(RADIUS, 0.0), 1: at(0.0, RADIUS + 1e-3)})

    scene.play()

    assert scene["zone_tick"].tolist() == [1.0, 0.0]


@pytest.mark.holds("T2")
@pytest.mark.parametrize(
    ("arrays", "score", "reason"),
    [
        ({"zone_s": [49.9, 3.0], "position": [(0, 0, 0), (20, 0, 0)]}, 1.0, "zone"),
        ({"zone_s": [3.0, 49.9], "position": [(20, 0, 0), (0, 0, 0)]}, 0.0, "zone"),
        ({"zone_s": [50.0, 50.0], "hp": [90.0, 100.0]}, 0.0, "zone"),
        ({"zone_s": [50.0, 50.0]}, 0.5, "zone"),
        ({"hp": [0.0, 1.0]}, 0.0, "elimination"),
        ({"hp": [0.0005, 0.0]}, 1.0, "elimination"),
        ({"hp": [0.0, 0.0], "zone_s": [20.0, 0.0]}, 0.5, "elimination"),
        ({"hp": [0.0, 1.0], "zone_s": [60.0, 0.0]}, 0.0, "elimination"),
        ({"decision": LIMIT - 1, "zone_s": [2.0, 1.0], "hp": [1.0, 150.0]}, 1.0, "time"),
        ({"decision": LIMIT - 1, "zone_s": [1.0, 2.0]}, 0.0, "time"),
        ({"decision": LIMIT - 1, "zone_s": [1.0, 1.0005], "hp": [20.0, 10.0]}, 1.0, "time"),
        ({"decision": LIMIT - 1, "hp": [10.0, 20.0]}, 0.0, "time"),
        ({"decision": LIMIT - 1}, 0.5, "time"),
        ({"decision": LIMIT - 1, "zone_s": [60.0, 0.0]}, 1.0, "zone"),
        ({"decision": LIMIT - 1, "hp": [0.0, 1.0]}, 0.0, "elimination"),
    ],
)
def test_winner_table(arrays: dict, score: float, reason: str):
    scene = start(DUEL, {0: at(-20, 0), 1: at(20, 0)}, **arrays)

    step = scene.play()

    assert step.outcome.score.item() == score
    assert REASONS[step.outcome.reason.item()] == reason
    assert (step.terminated.item(), step.truncated.item()) == (reason != "time", reason == "time")
    home, away = (hp > 0.0 for hp in arrays.get("hp", [1.0, 1.0]))
    assert component(scene, "win") == [(2 * score - 1) * WEIGHTS.win * home, (1 - 2 * score) * WEIGHTS.win * away]


def test_match_continues_while_undecided():
    scene = start(DUEL, {0: at(-20, 0), 1: at(20, 0)}, decision=LIMIT - 2, zone_s=[49.0, 49.0], hp=[1.0, 1.0])

    step = scene.play()

    assert not step.terminated.any()
    assert not step.truncated.any()
    assert step.outcome.score.item() == 0.5
    assert component(scene, "win") == [0.0, 0.0]


@pytest.mark.holds("T1")
def test_death_of_one_of_two_does_not_end_the_match():
    scene = start([("medium", "medium")], {0: at(-2, 0), 1: at(-20, 0), 2: at(2, 0, WEST), 3: at(20, 0)})
    scene["hp"][2] = 5.0

    step = scene.play(trigger={0: ["primary"]})

    assert scene["hp"][2] == 0.0
    assert not step.terminated.any()
    assert not step.observation.active[0, 2]


def test_kill_reward_is_the_remaining_hit_points():
    scene = start(DUEL, {0: at(-3, 0), 1: at(3, 0, WEST)}, hp=[150.0, 5.0])

    scene.play(trigger={0: ["primary"]})

    assert component(scene, "damage") == pytest.approx([0.05 * WEIGHTS.damage, 0.0])
    assert component(scene, "hurt") == pytest.approx([0.0, -0.05 * WEIGHTS.hurt])
    assert component(scene, "kill") == [WEIGHTS.kill, 0.0]
    assert component(scene, "death") == [0.0, -WEIGHTS.death]
    assert component(scene, "win") == [WEIGHTS.win, -WEIGHTS.win]


def test_painter_is_rewarded_for_new_paint_and_kills_of_its_pack():
    scene = start(
        [("medium", "scout")], {0: at(-4, 2), 1: at(-4, -2), 2: at(2, 0, WEST), 3: at(25, 25)}, hp=[150, 60, 150, 60]
    )
    scene.play(trigger={1: ["primary"]})
    assert component(scene, "paint") == pytest.approx([0.0, WEIGHTS.paint, -WEIGHTS.paint, 0.0])

    scene["hp"][2] = 5.0
    scene.play(trigger={0: ["primary"]})

    assert component(scene, "paint") == [0.0] * 4
    assert component(scene, "kill") == [WEIGHTS.kill, 0.0, 0.0, 0.0]
    assert component(scene, "assist") == [0.0, WEIGHTS.assist, 0.0, 0.0]


def test_paint_of_another_pack_is_no_assist():
    scene = start([("medium",), ("scout",)], {0: at(-4, 2), 1: at(-4, -2), 2: at(2, 0, WEST), 3: at(25, 25)})
    scene.play(trigger={1: ["primary"]})
    scene["hp"][2] = 5.0

    scene.play(trigger={0: ["primary"]})

    assert component(scene, "kill")[0] == WEIGHTS.kill
    assert component(scene, "assist") == [0.0] * 4


@pytest.mark.holds("T15")
def test_splash_on_friends_and_oneself_never_pays():
    scene = start(
        [("heavy", "scout")], {0: at(0, 0), 1: at(2.0, 1.6), 2: at(3.6, 0, WEST), 3: at(25, 25)}, hp=[200, 4.0, 200, 60]
    )
    before = scene["hp"].clone()

    scene.play(trigger={0: ["tertiary"]})

    lost = before - scene["hp"]
    assert lost[0] > 0.0
    assert scene["hp"][1] == 0.0
    assert lost[2] > 0.0
    assert component(scene, "damage") == pytest.approx([float(lost[2]) / 100.0 * WEIGHTS.damage, 0.0, 0.0, 0.0])
    assert component(scene, "hurt") == pytest.approx((-lost / 100.0 * WEIGHTS.hurt).tolist())
    assert component(scene, "kill") == [0.0] * 4
    assert component(scene, "death") == [0.0, -WEIGHTS.death, 0.0, 0.0]


def test_hazard_damage_costs_its_victim_and_rewards_no_mech(monkeypatch: pytest.MonkeyPatch):
    scene = built_scene(monkeypatch, DUEL, {0: at(-20, 0), 1: at(20, 0)}, materials=[(EVERYWHERE, LAVA)])

    scene.play()

    assert component(scene, "damage") == [0.0, 0.0]
    assert component(scene, "hurt") == pytest.approx([-0.0125 * WEIGHTS.hurt] * 2, abs=1e-6)


def test_going_towards_the_zone_earns_and_going_away_costs():
    scene = start(DUEL, {0: at(-20, 0), 1: at(20, 0)})
    scene["potential"][:] = 1.0 - 15.0 / 120.0

    scene.play(move={0: {"forward": 1.0}, 1: {"forward": 1.0}})

    towards, away = component(scene, "approach")
    assert towards > 0.0 > away


@pytest.mark.parametrize("end", ["time", "elimination"])
def test_approach_shaping_is_zero_after_the_end(end: str):
    scene = start(DUEL, {0: at(-20, 0), 1: at(20, 0)}, potential=[0.75, 0.5])
    if end == "time":
        scene["decision"].fill_(LIMIT - 1)
    else:
        scene["hp"][1] = 0.0

    scene.play()

    expected = [-0.75, -0.5] if end == "time" else [-0.75, 0.0]
    assert component(scene, "approach") == pytest.approx(expected)


def test_destroyed_mech_gives_back_its_potential_and_earns_nothing_more():
    scene = start([("medium", "medium")], {0: at(-2, 0), 1: at(-20, 0), 2: at(2, 0, WEST), 3: at(20, 0)})
    scene["hp"][2] = 5.0
    potential = float(scene["potential"][2])

    scene.play(trigger={0: ["primary"]})
    assert component(scene, "approach")[2] == pytest.approx(-potential)

    step = scene.play()
    assert scene.env.components[0, 2].tolist() == [0.0] * len(COMPONENTS)
    assert step.reward[0, 2] == 0.0


def play_out(name: str, decisions: int, *, fight: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Matches of a preset, fought at random near the zone or slept through.

    Returns:
        Components (T, E, N, C) and rewards (T, E, N) of each row's first match, 0 after it; potentials at its start.
    """
    env = MechEnvironment(PRESETS[name], WEIGHTS, num_envs=6, device="cpu", seed=3)
    env.reset(torch.arange(6))
    potential = env.arrays["potential"].clone()
    if fight:
        brawl(env, 0.3)
    running = torch.ones(6, dtype=torch.bool)
    orders = RandomOrders(env.spec, [*range(6)], pulls=(0.6, 0.3, 0.6, 0.6, 0.05) if fight else (0.0,) * 5)
    components, rewards = [], []
    for _ in range(decisions):
        actions = orders.draw()
        if not fight:
            actions["move"].zero_()
        step = env.step(actions)
        components.append(env.components * running.view(-1, 1, 1))
        rewards.append(step.reward * running.view(-1, 1))
        running &= ~(step.terminated | step.truncated)
    return torch.stack(components), torch.stack(rewards), potential


@pytest.fixture(scope="module")
def brawled() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return play_out("mech-pack", 240, fight=True)


def test_shared_reward_equals_the_sum_of_individual_rewards(brawled: tuple):
    components, rewards, _ = brawled
    earned = components.sum(dim=-1).unflatten(2, (2, -1)).sum(dim=-1)

    torch.testing.assert_close(rewards.unflatten(2, (2, -1)).sum(dim=-1), earned, atol=1e-4, rtol=1e-4)


def test_combat_rewards_are_zero_sum_between_sides(brawled: tuple):
    components, _, _ = brawled
    by_name = dict(zip(COMPONENTS, components.unbind(dim=-1), strict=True))
    total = {name: paid.sum(dim=2) for name, paid in by_name.items()}
    assert float(total["kill"].max()) > 0.0, "this test needs a fight with dead"

    exchanged = total["damage"] / WEIGHTS.damage + total["hurt"] / WEIGHTS.hurt
    assert float(exchanged.max()) < 1e-5
    assert float((total["kill"] + total["death"]).max()) < 1e-5
    assert float(total["paint"].abs().max()) < 1e-6
    assert float((total["assist"] - total["kill"] * WEIGHTS.assist / WEIGHTS.kill).max()) < 1e-5
    for name in ("zone", "win"):
        sides = by_name[name].unflatten(2, (2, -1))
        paid = torch.where(sides.amax(dim=-1) > 0.0, sides.amax(dim=-1), sides.amin(dim=-1))
        assert torch.equal(paid[..., 0], -paid[..., 1])


def test_a_fight_of_equals_pays_both(brawled: tuple):
    """Taken together, what enemies do to each other is worth doing; burning and splash on friends are not."""
    components, _, _ = brawled
    by_name = dict(zip(COMPONENTS, components.unbind(dim=-1), strict=True))
    assert float((by_name["damage"] + by_name["hurt"]).sum()) > 0.0
    assert WEIGHTS.hurt < WEIGHTS.damage


@pytest.mark.holds("K2")
def test_discounted_approach_telescopes_to_the_first_potential():
    components, _, potential = play_out("mech-duel", 240, fight=False)
    discount = WEIGHTS.gamma ** torch.arange(240, dtype=torch.float64).view(-1, 1, 1)

    discounted = (discount * components[..., COMPONENTS.index("approach")]).sum(dim=0)

    torch.testing.assert_close(discounted, -WEIGHTS.approach * potential.double(), atol=1e-4, rtol=0.0)


@pytest.mark.holds("K2")
def test_standing_still_never_pays():
    components, rewards, _ = play_out("mech-duel", 240, fight=False)

    assert float(components[..., COMPONENTS.index("approach")].max()) <= 0.0
    assert float(rewards.sum(dim=0).max()) < 0.0


def test_waiting_to_be_shot_never_pays():
    env = MechEnvironment(PRESETS["mech-duel"], WEIGHTS, num_envs=8, device="cpu", seed=3)
    hunter, observation = make_baseline("mech-duel", "lieutenant"), env.reset(torch.arange(8))
    memory, rng = hunter.initial_state(8), torch.Generator().manual_seed(0)
    running, earned = torch.ones(8, dtype=torch.bool), torch.zeros(8)
    for decision in range(240):
        actions = idle(env.spec, 8)
        start = torch.full((8,), decision == 0)
        hunting, memory = hunter.act(observation.side(env.spec.side(away=False)), memory, start, rng)
        for head, action in hunting.items():
            actions[head][:, 0] = action
        step = env.step(actions)
        observation = step.observation
        earned += step.reward[:, 1] * running
        running &= ~(step.terminated | step.truncated)

    assert not running.any()
    assert float(earned.max()) < -1.0


@pytest.mark.holds("K1")
def test_leading_all_match_earns_the_zone_weight():
    scene = start(DUEL, {0: at(0, 0), 1: at(20, 20)})
    total, ended = torch.zeros(2), False
    while not ended:
        step = scene.play()
        total += torch.tensor(component(scene, "zone"))
        ended = bool(step.terminated | step.truncated)

    assert total.tolist() == pytest.approx([WEIGHTS.zone, -WEIGHTS.zone], abs=1e-4)
    assert component(scene, "win") == [WEIGHTS.win, -WEIGHTS.win]
    assert REASONS[step.outcome.reason.item()] == "zone"


@pytest.mark.holds("K3")
@pytest.mark.parametrize("alpha", [1.0, 0.7, 0.0])
def test_team_share_averages_over_active_mechs(alpha: float):
    placed = {0: at(-3, 0), 1: at(-20, 0), 3: at(3, 0, WEST), 4: at(20, 0), 5: at(20, 5)}
    scene = start([("medium", "medium", "medium")], placed, own_share=alpha)
    scene["hp"][3] = 5.0

    step = scene.play(trigger={0: ["primary"]})

    own = scene.env.components[0].sum(dim=-1)
    mean = torch.tensor([own[:2].mean()] * 3 + [own[3:].mean()] * 3)
    expected = alpha * own + (1.0 - alpha) * mean
    expected[2] = 0.0
    assert step.reward[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert own[2] == 0.0


@pytest.mark.holds("K4")
def test_mate_in_the_zone_takes_nobodys_approach_away():
    def approach_of_a_walker(mate: dict) -> float:
        scene = start([("medium", "medium")], {0: at(-20, 0), 1: mate, 2: at(20, 10, WEST), 3: at(20, -10, WEST)})
        scene.play()
        scene.play(move={0: {"forward": 1.0}})
        return component(scene, "approach")[0]

    alone, supported = approach_of_a_walker(at(-20, 15)), approach_of_a_walker(at(0, 0))

    assert supported == pytest.approx(alone, abs=1e-6)
    assert supported > 0.0
