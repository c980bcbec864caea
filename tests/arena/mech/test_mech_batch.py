import pytest
import torch

from arena.environments import make, make_baseline, randomness
from arena.environments.protocol import Actions, Observation, StepResult


class RandomOrders:
    """Random actions that row k gets whatever the batch around it: its own stream, by its seed."""

    def __init__(self, seeds: list[int]) -> None:
        self.streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(self) -> Actions:
        move = torch.stack([torch.rand(2, 4, generator=stream) * 2.0 - 1.0 for stream in self.streams])
        trigger = torch.stack([torch.rand(2, 5, generator=stream) < 0.6 for stream in self.streams])
        return {"move": move, "trigger": trigger}


def mirrored(actions: Actions) -> Actions:
    return {name: action.flip(1) for name, action in actions.items()}


def brawl(arrays: dict[str, torch.Tensor]) -> None:
    """Put everybody within range of everybody."""
    arrays["position"].mul_(0.2)


def perceived(observation: Observation) -> list[torch.Tensor]:
    return [observation.values, observation.masks["move"], observation.masks["trigger"], observation.active]


def everything(step: StepResult) -> list[torch.Tensor]:
    outcome = step.outcome
    return [
        *perceived(step.observation),
        *perceived(step.final_observation),
        step.reward,
        step.terminated,
        step.truncated,
        outcome.score,
        outcome.reason,
        outcome.decisions,
    ]


def test_same_seeds_and_actions_repeat_to_the_last_bit():
    first, second = (make("mech-duel", num_envs=6, seed=4) for _ in range(2))
    orders, again = RandomOrders([1] * 6), RandomOrders([1] * 6)
    assert torch.equal(first.reset().values, second.reset().values)
    for _ in range(250):
        one, two = first.step(orders.draw()), second.step(again.draw())
        assert all(torch.equal(a, b) for a, b in zip(everything(one), everything(two), strict=True))


def test_match_alone_equals_the_same_match_in_a_batch():
    seeds = [9, 8, 7, 6, 5]
    batch, alone = make("mech-duel", num_envs=5), make("mech-duel", num_envs=1)
    batch.reset(torch.tensor(seeds))
    alone.reset(torch.tensor(seeds[3:4]))
    brawl(batch.arrays)
    brawl(alone.arrays)
    orders, own = RandomOrders(seeds), RandomOrders(seeds[3:4])
    for _ in range(200):
        batch.next_seeds[3] = alone.next_seeds[0] = 77
        many, one = batch.step(orders.draw()), alone.step(own.draw())
        assert all(torch.equal(a[3], b[0]) for a, b in zip(everything(many), everything(one), strict=True))


def test_swapping_the_sides_turns_the_match_by_half_a_turn():
    straight, swapped = (make("mech-duel", num_envs=16) for _ in range(2))
    seeds = torch.arange(16)
    assert torch.equal(straight.reset(seeds).values, swapped.reset(seeds).values.flip(1))
    brawl(straight.arrays)
    brawl(swapped.arrays)
    orders, deaths = RandomOrders(list(range(16))), 0
    for _ in range(200):
        actions = orders.draw()
        one, other = straight.step(actions), swapped.step(mirrored(actions))
        assert torch.equal(straight.arrays["position"], -swapped.arrays["position"].flip(1))
        assert torch.equal(straight.arrays["heading"], -swapped.arrays["heading"].flip(1))
        assert torch.equal(one.final_observation.values, other.final_observation.values.flip(1))
        assert torch.equal(one.reward, other.reward.flip(1))
        assert torch.equal(one.outcome.score, torch.where(one.terminated, 1.0 - other.outcome.score, 0.5))
        deaths += int(one.terminated.sum())
    assert deaths > 3


def test_damage_dealt_is_damage_taken_and_nobody_heals():
    env = make("mech-duel", num_envs=64)
    env.reset(torch.arange(64))
    brawl(env.arrays)
    orders, total = RandomOrders(list(range(64))), 0.0
    for _ in range(100):
        before = env.arrays["hp"].clone()
        step = env.step(orders.draw())
        running = ~(step.terminated | step.truncated)
        taken = (before - env.arrays["hp"])[running]
        dealt = env.arrays["dealt"][running]
        assert float(taken.min()) >= 0.0
        torch.testing.assert_close(dealt.sum(dim=1), taken)
        assert float(dealt.diagonal(dim1=1, dim2=2).abs().sum()) == 0.0
        ended = env.arrays["dealt"][~running].sum(dim=1)
        assert bool((ended <= before[~running] + 1e-4).all()), "overkill must not count as damage"
        total += float(dealt.sum())
    assert total > 1000.0


def test_every_observation_stays_in_its_declared_range():
    env = make("mech-duel", num_envs=512, seed=2)
    lieutenant, random = (make_baseline("mech-duel", name) for name in ("lieutenant", "random"))
    rng = torch.Generator().manual_seed(0)
    observation = env.reset()
    low = torch.cat([torch.full((block.size,), block.low) for block in env.spec.observation])
    high = torch.cat([torch.full((block.size,), block.high) for block in env.spec.observation])
    start = torch.zeros(512, dtype=torch.bool)
    for _ in range(200):  # 102,400 decisions of a match
        home, _ = lieutenant.act(observation.side(slice(0, 1)), (), start, rng)
        away, _ = random.act(observation.side(slice(1, 2)), (), start, rng)
        step = env.step({name: torch.stack([home[name], away[name]], dim=1) for name in home})
        observation = step.observation
        for values in (step.final_observation.values, observation.values):
            assert bool((values >= low).all()), "below the declared range, or NaN"
            assert bool((values <= high).all())
        assert bool(step.reward.isfinite().all())


def test_tensors_of_a_step_are_not_changed_by_later_ones():
    env = make("mech-duel", num_envs=4)
    opening = perceived(env.reset())
    orders = RandomOrders([0, 1, 2, 3])
    returned = [*opening, *everything(env.step(orders.draw()))]
    kept = [tensor.clone() for tensor in returned]
    for _ in range(5):
        env.step(orders.draw())
    env.reset()

    assert all(torch.equal(a, b) for a, b in zip(returned, kept, strict=True))


def test_truncation_keeps_the_last_observation_apart_from_the_next_match():
    env = make("mech-duel", num_envs=3)
    env.reset(torch.tensor([1, 2, 3]))
    env.arrays["decision"][1] = 239
    env.next_seeds[1] = 50
    idle = {"move": torch.zeros(3, 2, 4), "trigger": torch.zeros(3, 2, 5, dtype=torch.bool)}

    step = env.step(idle)

    assert step.truncated.tolist() == [False, True, False]
    assert not step.terminated.any()
    time = env.spec.layout["score"].stop - 1
    assert step.final_observation.values[1, 0, time].item() == 1.0
    assert step.observation.values[1, 0, time].item() == 0.0
    assert env.seeds.tolist() == [1, 50, 3]
    fresh = make("mech-duel", num_envs=1).reset(torch.tensor([50]))
    assert torch.equal(step.observation.values[1], fresh.values[0])
    for row in (0, 2):
        assert torch.equal(step.observation.values[row], step.final_observation.values[row])


def test_destroyed_mech_is_inactive_and_sees_nothing(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], [(1.0, 0.0), (-1.0, 0.0)], hp=[150.0, 5.0])

    final = env.step(orders(home=["primary"])).final_observation

    assert final.active[0].tolist() == [True, False]
    assert float(final.values[0, 1].abs().sum()) == 0.0
    contact = env.spec.layout["contacts"]
    assert float(final.values[0, 0, contact].abs().sum()) == 0.0


def test_seeds_of_later_matches_follow_from_row_and_environment_seed_alone():
    env = make("mech-duel", num_envs=3, seed=8)
    env.reset()
    row_seeds = env.arrays["row_seeds"]
    assert torch.equal(env.seeds, randomness.derive(row_seeds, 0))
    env.arrays["decision"][2] = 239
    idle = {"move": torch.zeros(3, 2, 4), "trigger": torch.zeros(3, 2, 5, dtype=torch.bool)}

    env.step(idle)

    assert env.seeds.tolist()[:2] == randomness.derive(row_seeds, 0).tolist()[:2]
    assert env.seeds[2] == randomness.derive(row_seeds, 1)[2]
    assert env.next_seeds[2] == randomness.derive(row_seeds, 2)[2]
    assert torch.equal(make("mech-duel", num_envs=7, seed=8).next_seeds[:3], randomness.derive(row_seeds, 0))


@pytest.mark.parametrize("seed", range(3))
def test_map_is_point_symmetric_and_spawns_lie_outside_the_zone(seed: int):
    env = make("mech-duel", num_envs=256, seed=seed)
    env.reset()

    position, heading = env.arrays["position"], env.arrays["heading"]
    assert torch.equal(position[:, 0], -position[:, 1])
    assert torch.equal(heading[:, 0], -heading[:, 1])
    radius = env.arrays["zone_radius"]
    assert bool((position.norm(dim=-1) > radius.unsqueeze(-1) + 1.0).all())
    assert float(position.abs().max()) <= 20.0 - 1.25
    assert 3.75 <= float(radius.min()) < 4.2
    assert 10.8 < float(radius.max()) <= 11.25
