import pytest
import torch

from arena.environments import make, make_baseline
from arena.environments.mech.rules import COMPONENTS, RewardWeights

WEIGHTS = RewardWeights()
APPROACH = COMPONENTS.index("approach")
FACE_TO_FACE = [(1.0, 0.0), (-1.0, 0.0)]


def component(env, name: str) -> list[float]:
    return env.components[0, :, COMPONENTS.index(name)].tolist()


def play_out(home: str | None, away: str | None, num_envs: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """First match of every row between baselines (None stands still).

    Returns:
        Components (T, E, N, C), zero after a row's first match, and the outcome's score (E,).
    """
    env = make("mech-duel", num_envs=num_envs)
    observation = env.reset(torch.arange(num_envs))
    rng = torch.Generator().manual_seed(1)
    running, score, log = torch.ones(num_envs, dtype=torch.bool), torch.zeros(num_envs, dtype=torch.float64), []
    while running.any():
        sides = []
        for side, name in enumerate((home, away)):
            seen = observation.side(slice(side, side + 1))
            player = make_baseline("mech-duel", name or "random")
            actions, _ = player.act(seen, (), ~seen.active, rng)
            sides.append(actions if name else {head: torch.zeros_like(action) for head, action in actions.items()})
        step = env.step({head: torch.stack([side[head] for side in sides], dim=1) for head in sides[0]})
        torch.testing.assert_close(env.components.sum(dim=-1), step.reward)
        log.append(env.components * running.view(-1, 1, 1))
        ended = step.terminated | step.truncated
        score = torch.where(running & ended, step.outcome.score, score)
        running &= ~ended
        observation = step.observation
    return torch.stack(log), score


@pytest.fixture(scope="module")
def lieutenant_v_random() -> tuple[torch.Tensor, torch.Tensor]:
    return play_out("lieutenant", "random")


def test_all_but_the_approach_sums_to_zero_over_both_sides(lieutenant_v_random):
    components, _ = lieutenant_v_random
    shared = [index for index in range(len(COMPONENTS)) if index != APPROACH]

    assert float(components[..., shared].sum(dim=(2, 3)).abs().max()) < 1e-5


def test_discounted_approach_telescopes_to_the_first_potential(lieutenant_v_random):
    components, score = lieutenant_v_random
    assert bool((score == 1.0).all())
    env = make("mech-duel", num_envs=32)
    env.reset(torch.arange(32))
    discount = WEIGHTS.gamma ** torch.arange(len(components), dtype=torch.float64).view(-1, 1, 1)

    discounted = (discount * components[..., APPROACH]).sum(dim=0)

    torch.testing.assert_close(discounted, -WEIGHTS.approach * env.arrays["potential"].double(), atol=1e-4, rtol=0.0)


def test_truncated_match_keeps_the_potential_that_it_ended_with(duel, orders):
    env = duel([(-15.0, 0.0), (15.0, 0.0)], FACE_TO_FACE, decision=239, zone_radius=5.0, potential=[0.75, 0.75])

    env.step(orders())

    expected = WEIGHTS.approach * (WEIGHTS.gamma * 0.75 - 0.75)
    assert component(env, "approach") == pytest.approx([expected, expected], abs=1e-6)


def test_standing_still_never_pays():
    components, score = play_out(None, None)

    assert bool((score == 0.5).all())
    assert float(components.sum(dim=(0, 3)).max()) < 0.0


def test_waiting_to_be_shot_never_pays():
    components, score = play_out("lieutenant", None)

    assert bool((score == 1.0).all())
    assert float(components.sum(dim=(0, 3))[:, 1].max()) < -1.0


def test_holding_the_zone_pays_its_budget(duel, orders):
    env = duel([(0.0, 0.0), (15.0, 15.0)], FACE_TO_FACE)
    total, step, ended = torch.zeros(2), None, False
    while not ended:
        step = env.step(orders())
        total += torch.tensor(component(env, "zone"))
        ended = bool(step.terminated | step.truncated)

    assert total.tolist() == pytest.approx([120 * WEIGHTS.zone, -120 * WEIGHTS.zone], abs=1e-4)
    assert step.outcome.decisions.item() == 120
    assert component(env, "win") == [WEIGHTS.win, -WEIGHTS.win]
    assert total[0].item() <= 6.0 + 1e-4


def test_killing_pays_the_killer_for_what_was_left(duel, orders):
    env = duel([(-3.0, 0.0), (3.0, 0.0)], FACE_TO_FACE, hp=[150.0, 5.0])

    env.step(orders(home=["primary"]))

    assert component(env, "damage") == pytest.approx([5.0 * WEIGHTS.damage, -5.0 * WEIGHTS.damage])
    assert component(env, "kill") == [WEIGHTS.kill, 0.0]
    assert component(env, "death") == [0.0, -WEIGHTS.death]
    assert component(env, "win") == [WEIGHTS.win, -WEIGHTS.win]


def test_going_towards_the_zone_earns_and_going_away_costs(duel, orders):
    env = duel([(-15.0, 0.0), (15.0, 0.0)], FACE_TO_FACE, zone_radius=5.0, potential=[0.75, 0.75])

    env.step(orders(forward=(1.0, -1.0)))

    towards, away = component(env, "approach")
    assert towards > 0.0 > away
