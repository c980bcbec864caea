import math

import pytest
import torch
from mech_oracle import Duel

from arena.environments import make, make_baseline
from arena.environments.protocol import Observation

ROWS, DECISIONS = 12, 260
GARBLED = torch.tensor([[0.3, 0.3]] * 5 + [[0.3, 1.0]] * 5 + [[1.0, 1.0]] * 2)
"""Share of orders (ROWS, 2) that are random instead of a lieutenant's."""


class Brawlers:
    """Lieutenants whose orders are garbled, so that matches hold everything that the rules speak of."""

    def __init__(self) -> None:
        self.lieutenant = make_baseline("mech-duel", "lieutenant")
        self.random = make_baseline("mech-duel", "random")
        self.rng = torch.Generator().manual_seed(11)

    def act(self, observation: Observation) -> dict[str, torch.Tensor]:
        rows = observation.side(slice(0, 2))
        start = torch.zeros_like(rows.active)
        orders, _ = self.lieutenant.act(rows, (), start, self.rng)
        noise, _ = self.random.act(rows, (), start, self.rng)
        garbled = torch.rand(len(start), 1, generator=self.rng) < GARBLED.view(-1, 1)
        return {name: torch.where(garbled, noise[name], orders[name]).unflatten(0, (-1, 2)) for name in orders}


@pytest.fixture(scope="module")
def fought() -> list[tuple]:
    """Every decision of ROWS matches in a row: (oracles, arrays before the reset, step), as plain values."""
    env, brawlers = make("mech-duel", num_envs=ROWS, seed=5), Brawlers()
    observation = env.reset()
    duels = [Duel(seed) for seed in env.seeds.tolist()]
    log = []
    for _ in range(DECISIONS):
        actions = brawlers.act(observation)
        for duel, move, trigger in zip(duels, actions["move"].tolist(), actions["trigger"].tolist(), strict=True):
            duel.step(move, trigger)
        step = env.step(actions)
        observation = step.observation
        ended = step.terminated | step.truncated
        log.append(([duel.result for duel in duels], step))
        for row in range(ROWS):
            if ended[row] or duels[row].result:
                duels[row] = Duel(int(env.seeds[row]))
        compare(env.arrays, duels)
    return log


def compare(arrays: dict[str, torch.Tensor], duels: list[Duel]) -> None:
    """Fail where the batch and the oracles disagree on where anybody stands, looks, or how hurt and hot it is."""

    def table(read) -> torch.Tensor:
        return torch.tensor([[read(mech) for mech in duel.mechs] for duel in duels])

    close = {"atol": 2e-3, "rtol": 0.0}
    torch.testing.assert_close(arrays["position"], table(lambda mech: (mech.x, mech.y)), **close)
    facing = table(lambda mech: (math.cos(mech.yaw), math.sin(mech.yaw)))
    torch.testing.assert_close(arrays["heading"], facing, **close)
    torch.testing.assert_close(arrays["hp"], table(lambda mech: mech.hp), **close)
    torch.testing.assert_close(arrays["heat"], table(lambda mech: float(mech.heat)), **close)
    torch.testing.assert_close(arrays["zone_s"], table(lambda mech: mech.zone_s), **close)
    torch.testing.assert_close(arrays["zone_radius"], torch.tensor([duel.zone_radius for duel in duels]), **close)
    assert arrays["decision"].tolist() == [duel.decision for duel in duels]


def test_batch_plays_by_the_scalar_rules(fought: list[tuple]):
    reasons = make("mech-duel", num_envs=1).spec.reasons
    for results, step in fought:
        for row, result in enumerate(results):
            assert bool(step.terminated[row] | step.truncated[row]) == (result is not None)
            if result is not None:
                outcome = (step.outcome.score[row].item(), reasons[step.outcome.reason[row]], bool(step.truncated[row]))
                assert outcome == result


def test_those_matches_held_what_the_rules_speak_of(fought: list[tuple]):
    ends = {result[1] for results, _ in fought for result in results if result}
    heat = torch.cat([step.observation.values[..., 7].flatten() for _, step in fought])
    hit = torch.cat([step.observation.values[..., 3].flatten() for _, step in fought])

    assert ends == {"zone", "elimination", "time"}
    assert float(heat.max()) > 1.05
    assert float(hit.mean()) > 0.03
