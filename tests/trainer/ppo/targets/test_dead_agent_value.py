"""Expected return of agents that are out of the game."""

import itertools
from dataclasses import replace

import pytest
import torch
from fake_games import FakeGame

from trainer.ppo.targets.dead_agent_value import DeadAgentValue

CPU = torch.device("cpu")


def sides(*agents):
    """Rows of one step, for sides of two agents."""
    return torch.tensor(agents).unsqueeze(0)


def update(estimator, value, returns, active, *, start=False, times=1):
    for _ in range(times):
        estimator.update(value, returns, active, torch.full_like(active, start))


def fitted(offset, slope, *, times=1):
    """Fit to sides of two agents: the first is dead, with return offset + slope x the value of the other."""
    estimator, mates = DeadAgentValue(2, CPU), torch.linspace(-3.0, 3.0, 400)
    value = torch.stack([torch.full_like(mates, 99.0), mates], dim=1).flatten().unsqueeze(0)
    returns = torch.stack([offset + slope * mates, torch.full_like(mates, 77.0)], dim=1).flatten().unsqueeze(0)
    active = torch.tensor([False, True]).repeat(400).unsqueeze(0)
    update(estimator, value, returns, torch.ones_like(active), start=True)
    update(estimator, value, returns, active, times=times)
    return estimator


def test_expected_return_of_the_dead_is_linear_in_their_teammates_value():
    value = fitted(2.0, 0.5).fill(torch.tensor([50.0, 3.0, 1.0, 50.0]), torch.tensor([False, True, True, False]))
    torch.testing.assert_close(value, torch.tensor([3.5, 3.0, 1.0, 2.5]), rtol=0.01, atol=0.0)


def test_rescaling_rescales_the_expected_return():
    """With values and returns a tenth as large, so is the expected return, up to the ridge penalty."""
    estimator = fitted(2.0, 0.5)
    estimator.rescale(torch.tensor(0.1, dtype=torch.float64))
    value = estimator.fill(torch.tensor([5.0, 0.3, 0.1, 5.0]), torch.tensor([False, True, True, False]))
    torch.testing.assert_close(value, torch.tensor([0.35, 0.3, 0.1, 0.25]), rtol=0.05, atol=0.0)


def test_expected_return_is_zero_if_the_dead_earn_nothing():
    value = fitted(0.0, 0.0, times=3).fill(torch.tensor([50.0, 3.0]), torch.tensor([False, True]))
    assert value.tolist() == [0.0, 3.0]


def test_expected_return_is_zero_before_the_first_sample():
    assert DeadAgentValue(2, CPU).fill(torch.tensor([50.0, 3.0]), torch.tensor([False, True])).tolist() == [0.0, 3.0]


def test_side_without_living_agents_has_value_zero_and_adds_no_samples():
    assert fitted(2.0, 0.5).fill(torch.tensor([50.0, 3.0]), torch.tensor([False, False])).tolist() == [0.0, 0.0]
    estimator = DeadAgentValue(2, CPU)
    update(estimator, sides(1.0, 2.0), sides(9.0, 9.0), sides(True, True), start=True)
    update(estimator, sides(1.0, 2.0), sides(9.0, 9.0), sides(False, False))
    assert float(estimator.gram.abs().max()) == 0.0


def test_teammate_value_is_the_mean_over_living_agents_of_the_same_side():
    estimator = DeadAgentValue(3, CPU)
    estimator.gram, estimator.cross = torch.eye(2).double() * 1e9, torch.tensor([0.0, 1e9]).double()
    value, active = torch.tensor([9.0, 1.0, 2.0, 9.0, 7.0, 9.0]), torch.tensor([False, True, True, False, True, False])
    torch.testing.assert_close(estimator.fill(value, active), torch.tensor([1.5, 1.0, 2.0, 7.0, 7.0, 7.0]))


def test_agents_that_never_acted_in_a_match_add_no_samples():
    """Spare rows, and agents that the curriculum leaves out, even after another match in which they acted."""
    estimator = DeadAgentValue(2, CPU)
    update(estimator, sides(1.0, 2.0), sides(9.0, 9.0), sides(False, True), times=3)
    assert float(estimator.gram.abs().max()) == 0.0
    update(estimator, sides(1.0, 2.0), sides(9.0, 9.0), sides(True, True))
    update(estimator, sides(1.0, 2.0), sides(9.0, 9.0), sides(False, True))
    assert float(estimator.gram[0, 0]) == 1.0
    update(estimator, sides(1.0, 2.0), sides(9.0, 9.0), sides(False, True), start=True)
    assert float(estimator.gram[0, 0]) == 0.95


def test_dead_agents_equal_those_of_a_loop_over_steps():
    """The first agent of each side dies and returns; its teammate lives throughout, so every dead step is a sample."""
    rng = torch.Generator().manual_seed(0)
    estimator, played, samples = DeadAgentValue(2, CPU), [False] * 6, 0.0
    for _ in range(4):
        active, start = (torch.rand(9, 12, generator=rng) < chance for chance in (0.3, 0.2))
        active[:, 1::2] = True
        estimator.update(torch.zeros(9, 12), torch.zeros(9, 12), active, start)
        samples *= 0.95
        for t, side in itertools.product(range(9), range(6)):
            played[side] = bool((played[side] and not start[t, 2 * side]) or active[t, 2 * side])
            samples += played[side] and not active[t, 2 * side]
        assert float(estimator.gram[0, 0]) == pytest.approx(samples)


def test_old_rollouts_decay():
    estimator = fitted(2.0, 0.0)
    mates = torch.linspace(-3.0, 3.0, 400)
    value = torch.stack([mates, mates], dim=1).flatten().unsqueeze(0)
    active = torch.tensor([False, True]).repeat(400).unsqueeze(0)
    update(estimator, value, torch.full_like(value, -1.0), active, times=100)
    assert -1.0 <= estimator.fill(torch.tensor([0.0, 0.0]), torch.tensor([False, True]))[0].item() < -0.97


# --- in a learner ----------------------------------------------------------------------------------------------------


class Shared(FakeGame):
    """Teams of four whose agents die one by one; after five steps all agents win `prize`, dead or alive."""

    def __init__(self, prize):
        super().__init__(3, (4, 4), length=lambda seed: 5, limited=lambda seed: False)
        self.prize = prize

    def step(self, actions):
        step = super().step(actions)
        prize = self.prize * step.terminated.float().unsqueeze(1)
        return replace(step, reward=prize.expand(-1, self.spec.num_agents))


def estimates(play, prize, rollouts):
    """Expected returns of dead agents after some rollouts, and their true returns; rollouts cut matches."""
    played = play(game=Shared(prize), ppo={"gamma": 0.9, "gae_lambda": 0.95})
    learner = played.learner
    for _ in range(rollouts):
        rollout = played.collect()
        learner.targets(rollout)
    rollout = played.collect()
    filled = learner.target_builder.dead_agent_value.fill(
        learner.target_builder.values.denormalise(rollout.value), rollout.active
    )
    to_come = 0.9 ** (4.0 - rollout.observation[:, :, 1]) * prize / learner.target_builder.rewards.divisor
    return filled[~rollout.active], to_come[~rollout.active]


def test_learner_learns_the_expected_return_of_dead_agents(play):
    expected, to_come = estimates(play, 5.0, 60)
    assert expected.mean().item() == pytest.approx(to_come.mean().item(), rel=0.1)
    assert float((expected - to_come).abs().mean()) < 0.25 * to_come.mean().item()


def test_learner_expects_nothing_for_the_dead_if_they_earn_nothing(play):
    expected, _ = estimates(play, 0.0, 5)
    assert expected.numel() > 0
    assert float(expected.abs().max()) == 0.0
