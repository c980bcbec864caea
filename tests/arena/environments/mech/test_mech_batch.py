"""What holds for every batch of matches, whatever is played in it."""

import pytest
import torch
from mech_play import RandomOrders, brawl, everything, idle, perceived, swap_sides, swapped
from refused import refused

from arena.environments import counter_rng as randomness
from arena.environments import make
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import PRESETS, MechConfig, Terrain
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.env import MechEnvironment

UNEVEN = MechConfig("uneven", (("scout", "heavy"), ("light", "light", "medium")), map_side=60, limit_s=20.0)
OPEN = MechConfig("open", (("heavy", "light"), ("scout",)), map_side=50, limit_s=20.0, terrain=Terrain.OPEN)
COMPOSITIONS = {config.name: config for config in (*PRESETS.values(), UNEVEN, OPEN)}
PACK = COMPOSITIONS["mech-pack"]

every_preset = pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
every_composition = pytest.mark.parametrize("config", COMPOSITIONS.values(), ids=COMPOSITIONS)


def build(config: MechConfig, rows: int, seed: int = 0) -> MechEnvironment:
    return MechEnvironment(config, RewardWeights(), num_envs=rows, device="cpu", seed=seed)


@every_composition
def test_same_seeds_and_actions_repeat_to_the_last_bit(config: MechConfig):
    first, second = build(config, 4, seed=4), build(config, 4, seed=4)
    assert torch.equal(first.reset().values, second.reset().values)
    brawl(first, 0.3)
    brawl(second, 0.3)
    play, again = RandomOrders(first.spec, [1, 2, 3, 4]), RandomOrders(first.spec, [1, 2, 3, 4])
    for _ in range(60):
        one, two = first.step(play.draw()), second.step(again.draw())
        assert all(torch.equal(a, b) for a, b in zip(everything(one), everything(two), strict=True))


@every_composition
@pytest.mark.parametrize(("rows", "row"), [(2, 1), (33, 17)])
def test_single_match_equals_the_same_match_in_a_batch(config: MechConfig, rows: int, row: int):
    seeds = list(range(50, 50 + rows))
    batch, alone = build(config, rows), build(config, 1)
    batch.reset(torch.tensor(seeds))
    alone.reset(torch.tensor(seeds[row : row + 1]))
    brawl(batch, 0.3)
    brawl(alone, 0.3)
    play, own = RandomOrders(batch.spec, seeds), RandomOrders(batch.spec, seeds[row : row + 1])
    for decision in range(50):
        if decision == 30:
            batch.arrays["decision"][row] = alone.arrays["decision"][0] = config.max_decisions - 5
        batch.next_seeds[row] = alone.next_seeds[0] = 77
        many, one = batch.step(play.draw()), alone.step(own.draw())
        assert all(torch.equal(a[row], b[0]) for a, b in zip(everything(many), everything(one), strict=True))


def turned(vectors: torch.Tensor) -> torch.Tensor:
    """Positions or velocities of the swapped sides after half a turn."""
    return swapped(vectors) * torch.tensor([-1.0, -1.0, 1.0])[: vectors.shape[-1]]


@every_composition
def test_swapping_the_sides_turns_the_match_by_half_a_turn(config: MechConfig):
    rows = 6
    straight, other = build(config, rows), build(config, rows)
    other.hulls["rng_id"].copy_(straight.hulls["rng_id"].roll(len(config.team)))
    seeds = torch.arange(rows)
    assert torch.equal(straight.reset(seeds).values, swapped(other.reset(seeds).values))
    for env in (straight, other):
        brawl(env, 0.1, 0.2, 0.4)
        env.arrays["hp"][::2] *= 0.5
        env.arrays["leg_hp"][::2] *= 0.1
    play, ends = RandomOrders(straight.spec, list(range(rows))), 0
    for _ in range(110):
        actions = play.draw()
        one, two = straight.step(actions), other.step(swap_sides(actions))
        for name in ("position", "velocity", "heading"):
            assert torch.equal(straight.arrays[name], turned(other.arrays[name])), name
        for name in ("hp", "leg_hp", "heat", "stability", "fallen_ticks", "painted_ticks", "wreck", "own_reward"):
            assert torch.equal(straight.arrays[name], swapped(other.arrays[name])), name
        for a, b in zip(perceived(one.final_observation), perceived(two.final_observation), strict=True):
            assert torch.equal(a, swapped(b))
        assert torch.equal(one.reward, swapped(two.reward))
        assert torch.equal(straight.arrays["zone_s"], other.arrays["zone_s"].flip(1))
        ended = one.terminated | one.truncated
        assert torch.equal(ended, two.terminated | two.truncated)
        assert torch.equal(one.outcome.score[ended], 1.0 - two.outcome.score[ended])
        ends += int(ended.sum())
    assert ends > 0 or config.max_decisions > 110


@every_preset
def test_sight_is_the_same_from_either_end(config: MechConfig):
    env = build(config, 8)
    env.reset()
    brawl(env, 0.2, 0.5, 0.9)
    play = RandomOrders(env.spec, list(range(8)), pulls=(0.0, 0.0, 0.0, 0.0, 0.2))
    size, found = len(config.team), set()
    for _ in range(40):
        env.step(play.draw())
        sight = env.arrays["sight"]
        assert torch.equal(sight, sight.transpose(1, 2))
        found |= set(sight[:, :size, size:].unique().tolist())
    assert {0, 3} <= found


@every_composition
def test_damage_dealt_equals_damage_taken(config: MechConfig):
    env = build(config, 16)
    env.reset(torch.arange(16))
    brawl(env, 0.1, 0.2, 0.5, 0.8)
    env.arrays["hp"][::4] *= 0.3
    play, total = RandomOrders(env.spec, list(range(16))), 0.0

    def check() -> None:
        nonlocal total
        choosing = (env.arrays["decision"] == 1) & (config.builds > 1)
        taken = (before - env.arrays["hp"])[~choosing]
        assert bool((taken >= 0.0).all())
        assert float(env.arrays["hp"].min()) >= 0.0
        dealt = (env.arrays["dealt"].sum(dim=1) + env.arrays["terrain_damage"])[~choosing]
        torch.testing.assert_close(dealt, taken, atol=2e-4, rtol=0.0)
        killed = env.arrays["killed"].sum(dim=1)
        assert bool((killed <= 1.0 + 1e-5).all()), "shares of one death"
        total += float(dealt.sum())

    env.on_decided.append(check)
    for _ in range(80):
        before = env.arrays["hp"].clone()
        env.step(play.draw())
    assert total > 500.0


@every_preset
def test_nothing_is_nan_and_everything_in_its_declared_range(config: MechConfig):
    agents = 2 * len(config.team)
    rows = 100_000 // agents // 120 + 1
    env = build(config, rows, seed=2)
    observation = env.reset()
    brawl(env, 0.15, 0.4, 0.7, 1.0)
    env.arrays["decision"][::5] = config.max_decisions - 50
    low = torch.cat([torch.full((block.size,), block.low) for block in env.spec.observation])
    high = torch.cat([torch.full((block.size,), block.high) for block in env.spec.observation])
    play, steps = RandomOrders(env.spec, list(range(rows)), pulls=(0.6, 0.2, 0.5, 0.6, 0.02)), 0
    for _ in range(120):
        step = env.step(play.draw())
        for observation in (step.final_observation, step.observation):
            assert bool(((observation.values >= low) & (observation.values <= high)).all()), "out of range, or NaN"
            assert not observation.values[~observation.active].any()
        assert bool(step.reward.isfinite().all())
        assert bool(((step.outcome.score >= 0.0) & (step.outcome.score <= 1.0)).all())
        steps += rows * agents
    assert steps >= 100_000


@every_composition
def test_the_dead_do_nothing_see_nothing_and_change_nothing(config: MechConfig):
    env, other = build(config, 6), build(config, 6)
    for each in (env, other):
        each.reset(torch.arange(6))
        brawl(each, 0.2)
        each.arrays["hp"][:, 1 :: len(config.team)] = 0.0
    play = RandomOrders(env.spec, list(range(6)))
    for _ in range(30):
        actions = play.draw()
        dead = env.arrays["hp"] <= 0.0
        mute = {name: action.clone() for name, action in actions.items()}
        for action in mute.values():
            action[dead] = 0
        place = env.arrays["position"].clone()
        step, same = env.step(actions), other.step(mute)
        assert all(torch.equal(a, b) for a, b in zip(everything(step), everything(same), strict=True))
        final = step.final_observation
        assert not final.active[dead].any()
        assert not final.values[dead].any()
        assert not step.reward[dead].any()
        for name, mask in final.masks.items():
            options = mask[dead][:, 1:] if name in ("target", "ewar", "build") else mask[dead]
            assert not options.any(), name
            assert name not in ("target", "ewar", "build") or bool(mask[..., 0].all())
        still = dead & ~(step.terminated | step.truncated).unsqueeze(1)
        assert torch.equal(env.arrays["position"][still], place[still])


@every_preset
def test_tensors_of_a_step_are_not_changed_by_later_ones(config: MechConfig):
    env = build(config, 3)
    opening = perceived(env.reset())
    play = RandomOrders(env.spec, [0, 1, 2])
    env.arrays["decision"][0] = config.max_decisions - 1
    returned = [*opening, *everything(env.step(play.draw())), env.components, env.nan_actions]
    kept = [tensor.clone() for tensor in returned]
    env.arrays["decision"][1] = config.max_decisions - 2
    for _ in range(5):
        env.step(play.draw())
    env.reset()

    assert all(torch.equal(a, b) for a, b in zip(returned, kept, strict=True))


@pytest.mark.holds("T3")
@every_preset
def test_truncation_keeps_the_last_observation_apart_from_the_next_match(config: MechConfig):
    env = build(config, 3)
    env.reset(torch.tensor([1, 2, 3]))
    env.arrays["decision"][1] = config.max_decisions - 1
    env.next_seeds[1] = 50

    step = env.step(idle(env.spec, 3))

    assert step.truncated.tolist() == [False, True, False]
    assert not step.terminated.any()
    assert env.spec.reasons[step.outcome.reason[1]] == "time"
    assert step.outcome.decisions.tolist() == [1, config.max_decisions, 1]
    time = env.spec.layout["score"].stop - 1
    assert step.final_observation.values[1, :, time].tolist() == [1.0] * env.spec.num_agents
    assert step.observation.values[1, :, time].tolist() == [0.0] * env.spec.num_agents
    assert env.seeds.tolist() == [1, 50, 3]
    fresh = build(config, 1).reset(torch.tensor([50]))
    assert all(torch.equal(a[1], b[0]) for a, b in zip(perceived(step.observation), perceived(fresh), strict=True))
    for row in (0, 2):
        assert torch.equal(step.observation.values[row], step.final_observation.values[row])


def test_seeds_of_later_matches_follow_from_row_and_environment_seed_alone():
    env = build(PACK, 3, seed=8)
    env.reset()
    row_seeds = env.arrays["row_seeds"]
    assert torch.equal(env.seeds, randomness.derive(row_seeds, 0))
    env.arrays["decision"][2] = PACK.max_decisions - 1

    env.step(idle(env.spec, 3))

    assert env.seeds.tolist()[:2] == randomness.derive(row_seeds, 0).tolist()[:2]
    assert env.seeds[2] == randomness.derive(row_seeds, 1)[2]
    assert env.next_seeds[2] == randomness.derive(row_seeds, 2)[2]
    assert torch.equal(build(PACK, 7, seed=8).next_seeds[:3], randomness.derive(row_seeds, 0))


@every_composition
def test_matches_open_point_symmetric_outside_the_zone_and_inside_the_map(config: MechConfig):
    env = build(config, 64, seed=1)
    opening = env.reset()

    position, radius = env.arrays["position"], env.arrays["zone_radius"]
    assert torch.equal(position, turned(position))
    assert torch.equal(env.arrays["heading"], turned(env.arrays["heading"]))
    own = [env.spec.layout[name] for name in ("condition", "heat", "hull", "motion", "zone", "edge", "score")]
    for block in own:
        assert torch.equal(opening.values[..., block], swapped(opening.values)[..., block])
    assert bool((position[..., :2].norm(dim=-1) > radius.unsqueeze(-1)).all())
    edge = config.map_side / 2.0 - env.hulls["width"].max() / 2.0
    assert float(position[..., :2].abs().max()) <= edge
    assert 3.75 <= float(radius.min()) < 4.5
    assert 10.5 < float(radius.max()) <= 11.25
    inward = -(position[..., :2] * env.arrays["heading"]).sum(dim=-1) / position[..., :2].norm(dim=-1)
    assert float(inward.mean()) > 0.9


def test_nan_actions_are_counted_and_count_as_zero():
    env, clean = build(PACK, 2), build(PACK, 2)
    env.reset(torch.tensor([3, 4]))
    clean.reset(torch.tensor([3, 4]))
    actions = RandomOrders(env.spec, [0, 1]).draw()
    actions["move"][0, 2, :3] = actions["comm"][1, 9, 5] = 0.0
    spoilt = {name: action.clone() for name, action in actions.items()}
    spoilt["move"][0, 2, :3] = spoilt["comm"][1, 9, 5] = torch.nan

    one, two = env.step(spoilt), clean.step(actions)

    assert all(torch.equal(a, b) for a, b in zip(everything(one), everything(two), strict=True))
    assert env.nan_actions[0, 2] == 3
    assert env.nan_actions[1, 9] == 1
    assert int(env.nan_actions.sum()) == 4
    assert not clean.nan_actions.any()


def test_opponents_fire_with_the_probability_of_the_curriculum():
    env = build(PACK, 200)
    env.reset()
    env.arrays["fire_probability"][:, 0] = 0.25
    env.arrays["fire_probability"][:, 1] = 0.0
    env.arrays["heat"].fill_(30.0)
    actions = idle(env.spec, 200)
    actions["trigger"][..., [TRIGGERS.index("vent"), TRIGGERS.index("special")]] = True

    env.step(actions)

    launched = env.arrays["timers"][..., 1] > 0
    assert 0.2 < float(launched[:, :5].float().mean()) < 0.3
    assert not launched[:, 5:].any()
    assert float(env.arrays["heat"][:, 5:].max()) < 30.0 - 7.0, "venting is always heeded"


def test_next_match_follows_the_team_and_map_shares_of_the_curriculum():
    env = build(PACK, 64)
    env.reset()
    assert len(env.arrays["map"].unique()) > 5
    env.arrays["mechs"].fill_(2)
    env.arrays["maps"].fill_(3)
    env.arrays["decision"].fill_(PACK.max_decisions - 1)

    step = env.step(idle(env.spec, 64))

    taking_part = torch.tensor([True, True, False, False, False] * 2)
    assert bool(step.truncated.all())
    assert torch.equal(step.observation.active, taking_part.expand(64, -1))
    assert torch.equal(env.arrays["hp"] > 0.0, taking_part.expand(64, -1))
    assert not env.arrays["wreck"].any()
    assert set(env.arrays["map"].unique().tolist()) == {0, 1, 2}
    assert not env.step(idle(env.spec, 64)).terminated.any(), "who does not take part is no loss"


def test_side_reward_is_shared_among_active_mechs():
    env = build(PACK, 3)
    env.arrays["own_share"].copy_(torch.tensor([1.0, 0.4, 0.0]))
    env.reset(torch.tensor([7, 7, 7]))
    env.arrays["hp"][:, 3] = 0.0
    actions = idle(env.spec, 3)
    actions["move"][:, 0, 0] = 1.0

    step = env.step(actions)

    own = env.components.sum(dim=-1)
    acted = torch.tensor([0, 1, 2, 4])
    for row, alpha in enumerate((1.0, 0.4, 0.0)):
        expected = alpha * own[row, acted] + (1.0 - alpha) * own[row, acted].mean()
        torch.testing.assert_close(step.reward[row, acted], expected)
        assert step.reward[row, 3] == 0.0


def test_invalid_input_is_rejected():
    env = build(PACK, 2)
    with refused("call-order", "mech-pack", "reset()"):
        env.step(idle(env.spec, 2))
    env.reset()
    actions = idle(env.spec, 2)
    with refused("invalid-action", "(1, 10, 4)", "mech-pack", "(2, 10, 4)"):
        env.step({**actions, "move": actions["move"][:1]})
    with refused("invalid-action", "comm", "mech-pack"):
        env.step({name: action for name, action in actions.items() if name != "comm"})
    with refused("unknown-environment", "mech-brigade", "mech-pack"):
        make("mech-brigade", num_envs=1)
    with refused("invalid-input", 0, 1):
        build(PACK, 0)


@pytest.mark.parametrize("seeds", [[1, 2, 3], [1]])
def test_seeds_for_another_number_of_matches_are_refused(seeds: list[int]):
    with refused("invalid-input", len(seeds), 2):
        build(PACK, 2).reset(torch.tensor(seeds))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_gpu_that_is_not_there_is_refused():
    with refused("invalid-input", "cuda"):
        MechEnvironment(PACK, RewardWeights(), num_envs=1, device="cuda", seed=0)


@pytest.mark.parametrize(
    ("changed", "values"),
    [
        ({"packs": (("scout", "tank"),)}, ("tank", "scout", "light", "medium", "heavy")),
        ({"packs": ()}, (1, 32)),
        ({"packs": (("scout",), ())}, (0, 32)),
        ({"packs": (("scout",) * 33,), "map_side": 200}, ("[33]", 1, 32)),
        ({"map_side": 61}, ("map_side", 61, 40, 200)),
        ({"map_side": 300}, ("map_side", 300)),
        ({"limit_s": 0.1}, ("limit_s", 0.1, 0.25)),
        ({"packs": (("heavy",) * 5,) * 6}, ("map_side", 30, 60)),
    ],
)
def test_invalid_composition_is_rejected(changed: dict, values: tuple):
    sound = {"name": "custom", "packs": (("scout",),), "map_side": 60, "limit_s": 10.0}
    with refused("invalid-composition", *values):
        MechConfig(**{**sound, **changed})
