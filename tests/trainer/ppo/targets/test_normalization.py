import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_games import fake_spec
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from arena.policies import ActorCritic, Architecture
from trainer.ppo.learner import Learner
from trainer.ppo.targets.normalization import (
    ObservationNormalizer,
    ReturnBasedRewardScaler,
    RunningMoments,
    ValueNormalizer,
    normalise_advantages,
    normalise_advantages_by_role,
)
from trainer.process_group import SINGLE_PROCESS, ProcessGroup

CPU = torch.device("cpu")


@pytest.mark.holds("D7")
@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 100))
def test_running_moments_equal_moments_of_the_concatenated_batches(sizes, seed):
    rng = np.random.default_rng(seed)
    batches = [rng.normal(1e3, 3.0, (size, 2)) for size in sizes]
    moments = RunningMoments.empty((2,))
    for batch in batches:
        moments = moments.merge(RunningMoments.of(torch.from_numpy(batch)))
    pooled = np.concatenate(batches)
    if len(pooled):
        np.testing.assert_allclose(moments.mean.numpy(), pooled.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(moments.variance.numpy(), pooled.var(axis=0), rtol=1e-9, atol=1e-9)
    assert moments.mean.dtype == torch.float64


def test_large_float32_batches_keep_precision():
    """A feature with a small variance far from 0, and a constant one, over several slices."""
    rng = np.random.default_rng(0)
    batch = rng.normal((100.0, 0.0), (0.1, 1.0), (10_000, 2)).astype(np.float32)
    moments = RunningMoments.of(torch.tensor(np.column_stack([batch, np.full(10_000, 0.3, np.float32)])))
    assert moments.count == 10_000
    np.testing.assert_allclose(moments.mean[:2].numpy(), batch.mean(axis=0, dtype=np.float64), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance[:2].numpy(), batch.var(axis=0, dtype=np.float64), rtol=1e-5)
    assert moments.variance[2] < 1e-12


@pytest.mark.holds("D7")
@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(1, 20), st.integers(0, 100))
def test_earlier_samples_decay_at_each_nonempty_update(sizes, window, seed):
    """Empty updates do not decay earlier samples."""
    rng, decay = np.random.default_rng(seed), 1.0 - 1.0 / window
    batches = [rng.normal(1e3, 3.0, size) for size in sizes]
    moments, weights = RunningMoments.empty(()), np.zeros(0)
    for batch in batches:
        moments = moments.merge_across_ranks(RunningMoments.of(torch.from_numpy(batch)), SINGLE_PROCESS, decay=decay)
        weights = np.append(weights * (decay if len(batch) else 1.0), np.ones(len(batch)))
    samples = np.concatenate(batches)
    assert float(moments.count) == pytest.approx(weights.sum())
    if len(samples):
        mean = np.average(samples, weights=weights)
        assert float(moments.mean) == pytest.approx(mean, rel=1e-12)
        assert float(moments.variance) == pytest.approx(
            np.average((samples - mean) ** 2, weights=weights), rel=1e-9, abs=1e-9
        )


def test_decay_forgets_an_old_reward_scale():
    decaying, full = (
        ReturnBasedRewardScaler(4, 0.0, 10.0, CPU, decay=0.9),
        ReturnBasedRewardScaler(4, 0.0, 10.0, CPU),
    )
    everywhere = torch.ones(50, 4, dtype=torch.bool)
    for scale in [10.0] * 40 + [1.0] * 60:
        reward = scale * torch.randn(50, 4)
        for scaler in (decaying, full):
            scaler.update(reward, everywhere, everywhere, everywhere)
    assert decaying.divisor == pytest.approx(1.0, rel=0.2)
    assert full.divisor > 5.0


def test_reward_scale_does_not_decay_without_rewards():
    """Otherwise the next reward would be scaled up to the clip range."""
    scaler, everywhere = ReturnBasedRewardScaler(4, 0.0, 10.0, CPU, decay=0.9), torch.ones(50, 4, dtype=torch.bool)
    scaler.update(torch.randn(50, 4), everywhere, everywhere, everywhere)
    before = scaler.divisor
    for _ in range(1000):
        scaler.update(torch.zeros(50, 4), everywhere, everywhere, everywhere)
    assert scaler.divisor == before


def test_critic_std_has_a_floor():
    normalizer = ValueNormalizer(CPU, decay=0.5)
    normalizer.update(torch.randn(100))
    for _ in range(200):
        normalizer.update(torch.full((100,), 0.3) + 1e-9 * torch.randn(100))
    assert normalizer.normalise(torch.tensor(0.3 + 1e-4)) < 1.1


def test_statistics_decay_once_per_update_for_any_number_of_ranks():
    class Two(ProcessGroup):
        """This rank and another one."""

        world_size = 2

        def all_gather(self, values):
            return [values, other]

    def packed(moments):
        return torch.stack([moments.count, moments.mean, moments.squares])

    past, mine, theirs = (RunningMoments.of(torch.randn(size)) for size in (30, 10, 20))
    other = packed(theirs)
    found = past.merge_across_ranks(mine, Two(), decay=0.5)
    expected = replace(past, count=past.count * 0.5, squares=past.squares * 0.5).merge(mine).merge(theirs)
    torch.testing.assert_close(packed(found), packed(expected), rtol=1e-12, atol=0.0)


@pytest.mark.holds("D6")
def test_observation_statistics_are_stored_in_the_network_with_a_floor():
    network = ActorCritic(Architecture.of(fake_spec(), encoder_sizes=(4,), recurrent_size=4))
    normalizer = ObservationNormalizer(network.architecture, 0.01, CPU)
    values = torch.randn(100, 4)
    values[:, 2] = 3.0
    normalizer.update(values.unsqueeze(1), torch.ones(len(values), 1, dtype=torch.bool))
    normalizer.write_to(network)
    torch.testing.assert_close(network.observation_mean, values.mean(dim=0))
    assert network.observation_std[2].item() == pytest.approx(0.01)
    torch.testing.assert_close(network.observation_std[0], values[:, 0].std(correction=0))


def test_observation_statistics_exclude_inactive_agents(monkeypatch):
    """Slices may end anywhere."""
    monkeypatch.setattr("trainer.ppo.targets.normalization.MIN_SLICE", 3)
    monkeypatch.setattr("trainer.ppo.targets.normalization.SLICE_ELEMENTS", 1)
    architecture = Architecture.of(fake_spec(), encoder_sizes=(4,), recurrent_size=3)
    all_at_once, sliced = (ObservationNormalizer(architecture, 0.01, CPU) for _ in range(2))
    active, values = torch.rand(5, 4) < 0.6, torch.randn(5, 4, architecture.observation_size)
    values[~active] = torch.nan

    sliced.update(values, active)
    all_at_once.update(values[active].unsqueeze(1), torch.ones(int(active.sum()), 1, dtype=torch.bool))

    assert float(sliced.moments.count) == int(active.sum()) > 3
    torch.testing.assert_close(sliced.moments.mean, values[active].double().mean(0))
    torch.testing.assert_close(sliced.moments.variance, values[active].double().var(0, correction=0))
    torch.testing.assert_close(sliced.moments.mean, all_at_once.moments.mean)


@pytest.mark.holds("D5", "S10")
def test_rewards_are_scaled_by_the_discounted_return_and_keep_their_sign():
    scaler = ReturnBasedRewardScaler(2, 0.9, 10.0, CPU)
    reward = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    valid = torch.ones(3, 2, dtype=torch.bool)
    episode_end = torch.tensor([[False, False], [True, False], [False, False]])
    scaler.update(reward, valid, valid, episode_end)
    traces = [1.0, 2.0, 3.9, 5.8, 5.0, 6.0 + 0.9 * 5.8]
    assert scaler.divisor == pytest.approx(np.std(traces))
    torch.testing.assert_close(scaler.scale(reward), reward / np.std(traces))


@pytest.mark.holds("D5")
def test_return_traces_cross_rollouts_and_skip_invalid_steps():
    whole, parts = ReturnBasedRewardScaler(1, 0.9, 10.0, CPU), ReturnBasedRewardScaler(1, 0.9, 10.0, CPU)
    reward = torch.arange(6.0).unsqueeze(1)
    valid = torch.tensor([[True], [True], [False], [True], [True], [True]])
    end = torch.zeros(6, 1, dtype=torch.bool)
    whole.update(reward, valid, valid, end)
    parts.update(reward[:3], valid[:3], valid[:3], end[:3])
    parts.update(reward[3:], valid[3:], valid[3:], end[3:])
    assert parts.divisor == pytest.approx(float(whole.divisor), rel=1e-12)


def test_rewards_after_death_continue_the_trace_without_being_samples():
    """An agent gets reward 4 one step after its death, at the end of the match; another match follows."""
    scaler = ReturnBasedRewardScaler(1, 0.5, 10.0, CPU)
    reward, known = torch.tensor([[2.0], [4.0], [1.0]]), torch.ones(3, 1, dtype=torch.bool)
    valid, end = torch.tensor([[True], [False], [True]]), torch.tensor([[False], [True], [False]])
    scaler.update(reward, known, valid, end)
    assert scaler.divisor == pytest.approx(np.std([2.0, 1.0]))
    scaler.update(reward[:1], known[:1], valid[:1], end[:1])
    assert scaler.divisor == pytest.approx(np.std([2.0, 1.0, 2.5]))


def test_return_traces_equal_those_of_a_loop():
    rng = torch.Generator().manual_seed(0)
    scaler, trace, samples = ReturnBasedRewardScaler(5, 0.9, 10.0, CPU), [0.0] * 5, []
    for _ in range(4):
        reward = torch.randn(7, 5, generator=rng)
        known, valid, end = (torch.rand(7, 5, generator=rng) < chance for chance in (0.7, 0.6, 0.3))
        valid &= known
        scaler.update(reward, known, valid, end)
        for t, row in itertools.product(range(7), range(5)):
            trace[row] = 0.9 * trace[row] + float(reward[t, row]) if known[t, row] else trace[row]
            samples += [trace[row]] if valid[t, row] else []
            trace[row] = 0.0 if known[t, row] and end[t, row] else trace[row]
        assert scaler.divisor == pytest.approx(np.std(samples), rel=1e-9)


@pytest.mark.holds("D5")
def test_scaled_rewards_are_clipped():
    scaler = ReturnBasedRewardScaler(1, 0.0, 10.0, CPU)
    reward = torch.cat([torch.zeros(998, 1), torch.tensor([[1e6], [-1e6]])])
    everywhere = torch.ones_like(reward, dtype=torch.bool)
    scaler.update(reward, everywhere, everywhere, everywhere)
    assert (scaler.scale(reward).min(), scaler.scale(reward).max()) == (-10.0, 10.0)


def test_constant_rewards_are_not_scaled():
    scaler = ReturnBasedRewardScaler(1, 0.9, 10.0, CPU)
    nothing = torch.zeros(5, 1)
    everywhere = torch.ones(5, 1, dtype=torch.bool)
    scaler.update(nothing, everywhere, everywhere, ~everywhere)
    assert scaler.scale(torch.tensor([2.0])).item() == 2.0


def test_denormalised_values_are_zero_before_the_first_return():
    assert ValueNormalizer(CPU).denormalise(torch.tensor([3.0])).item() == 0.0


@pytest.mark.holds("D4", "T5")
@given(st.floats(-1e3, 1e3), st.floats(0.1, 1e3))
def test_denormalise_inverts_normalise(mean, spread):
    normalizer = ValueNormalizer(CPU)
    returns = mean + spread * torch.linspace(-1.0, 1.0, 50, dtype=torch.float64)
    normalizer.update(returns)
    normalised = normalizer.normalise(returns)
    assert abs(float(normalised.mean())) < 1e-6
    torch.testing.assert_close(normalizer.denormalise(normalised), returns)


@pytest.mark.holds("D4")
@pytest.mark.parametrize("decay", [1.0, 0.9])
@given(mean=st.floats(-10.0, 10.0), spread=st.floats(0.01, 100.0))
def test_popart_preserves_denormalised_values(decay, mean, spread):
    """Those of the output layer, and earlier predictions."""
    torch.manual_seed(0)
    normalizer, layer, features = ValueNormalizer(CPU, decay=decay), torch.nn.Linear(8, 1), torch.randn(40, 8)
    normalizer.update(torch.randn(100))
    predictions = layer(features).detach()
    before = normalizer.denormalise(predictions)

    rescaling = normalizer.update(mean + spread * torch.randn(100))
    rescaling.rescale_layer(layer)

    assert float(normalizer.moments.variance.sqrt()) != pytest.approx(1.0, rel=1e-3)
    for after in (layer(features).detach(), rescaling.rescale_values(predictions)):
        torch.testing.assert_close(
            normalizer.denormalise(after), before, rtol=1e-6, atol=1e-6 * (1.0 + spread + abs(mean))
        )


def test_popart_keeps_the_layer_until_returns_have_varied():
    normalizer, layer = ValueNormalizer(CPU), torch.nn.Linear(3, 1)
    before = layer.weight.detach().clone()
    for returns in (torch.zeros(5), torch.randn(50), torch.full((5,), 0.5)):
        normalizer.update(returns).rescale_layer(layer)
        assert torch.isfinite(layer.weight).all()
        if returns.numel() == 50:
            assert torch.equal(layer.weight, before), "there was no scale to preserve"
    assert not torch.equal(layer.weight, before)


@pytest.mark.parametrize("factor", [10.0, 0.1, 1e3])
def test_change_of_the_reward_scale_preserves_values_in_rewards(play, never, factor):
    """Neither the divisor of rewards nor the critic's units change them, nor old values."""
    played = play((2, 2), normalization={"return_window": 3})
    learner, network = played.learner, played.learner.network
    for _ in range(3):
        learner.learn(played.collect(), never)
    rollout = played.collect()
    rows = rollout.reward.shape[1]

    def in_rewards(value):
        return learner.target_builder.values.denormalise(value) * learner.target_builder.rewards.divisor

    def predicted_values():
        yes = torch.ones(rows, dtype=torch.bool)
        with torch.no_grad():
            return in_rewards(network.step(rollout.observation[5], network.initial_state(rows), yes, yes).value)

    before, predictions, divisor = predicted_values(), in_rewards(rollout.value), learner.target_builder.rewards.divisor
    rollout.reward.mul_(factor)
    targets, _ = learner.targets(rollout)

    assert abs(learner.target_builder.rewards.divisor / divisor - 1.0) > 0.1
    close = {"rtol": 1e-5, "atol": 1e-5 * max(divisor, learner.target_builder.rewards.divisor)}
    torch.testing.assert_close(predicted_values(), before, **close)
    torch.testing.assert_close(in_rewards(targets.old_value), predictions, **close)


@pytest.mark.holds("D1")
def test_advantages_are_normalised_over_valid_samples_alone():
    advantages = torch.tensor([[1.0, 100.0], [3.0, -7.0]])
    valid = torch.tensor([[True, False], [True, False]])
    assert normalise_advantages(advantages, valid, 1e-4).tolist() == [[-1.0, 0.0], [1.0, 0.0]]


@pytest.mark.holds("D1")
def test_normalising_twice_changes_nothing():
    advantages, valid = torch.randn(20, 3), torch.rand(20, 3) < 0.7
    once = normalise_advantages(advantages, valid, 1e-4)
    torch.testing.assert_close(normalise_advantages(once, valid, 1e-4), once, rtol=1e-5, atol=1e-6)


@pytest.mark.holds("D2")
@pytest.mark.parametrize("samples", [[2.0, 2.0 + 1e-6], [5.0]])
def test_advantages_with_a_tiny_std_are_only_centred(samples):
    advantages = torch.tensor(samples).unsqueeze(1)
    result = normalise_advantages(advantages, torch.ones_like(advantages, dtype=torch.bool), 1e-4)
    assert result.abs().max() < 1e-5


@pytest.mark.holds("D2")
def test_advantages_without_a_valid_sample_are_zero():
    nothing = normalise_advantages(torch.randn(2, 2), torch.zeros(2, 2, dtype=torch.bool), 1e-4)
    assert nothing.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.holds("D3")
def test_advantages_of_one_role_do_not_affect_other_roles():
    role = torch.tensor([0, 1, 0, 2, 1])  # three roles: with two, each is the complement of the other
    advantages, valid = torch.randn(50, 5), torch.rand(50, 5) < 0.8
    plain = normalise_advantages_by_role(advantages, valid, role, 1e-4, 10)
    scaled = normalise_advantages_by_role(
        advantages * torch.tensor([100.0, 1.0, 100.0, 1.0, 1.0]), valid, role, 1e-4, 10
    )
    assert torch.equal(plain[:, [1, 3, 4]], scaled[:, [1, 3, 4]])
    torch.testing.assert_close(plain, scaled)
    assert plain[~valid].abs().max() == 0.0


@pytest.mark.holds("D3")
def test_role_with_few_samples_is_normalised_over_all_roles():
    role = torch.tensor([0, 0, 1])
    advantages, valid = torch.randn(20, 3) + torch.tensor([0.0, 0.0, 5.0]), torch.ones(20, 3, dtype=torch.bool)
    valid[9:, 2] = False
    result = normalise_advantages_by_role(advantages, valid, role, 1e-4, 10)
    together = normalise_advantages(advantages, valid, 1e-4)
    assert torch.equal(result[:, 2], together[:, 2])
    assert result[:, :2].mean().item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.holds("D3")
def test_learner_normalises_advantages_per_role(play, config):
    """Rewards of agent 0 of each side are multiplied by 100: advantages of agent 1 stay the same."""
    settings = config(normalization={"norm_adv_per_role_min_samples": 2})
    spec = replace(fake_spec((2, 2)), roles=("heavy", "scout") * 2)
    rollout = play((2, 2)).collect()
    plain, _ = Learner(settings, spec).targets(rollout)
    rollout.reward[:, ::2] *= 100.0
    scaled, _ = Learner(settings, spec).targets(rollout)
    together, _ = Learner(config(), spec).targets(rollout)
    torch.testing.assert_close(scaled.advantage[:, 1::2], plain.advantage[:, 1::2], rtol=1e-3, atol=1e-4)
    assert (together.advantage - scaled.advantage)[:, 1::2].abs().max() > 0.1


def test_sides_with_differently_named_roles_share_them_by_index(play, config):
    settings = config(normalization={"norm_adv_per_role_min_samples": 2})
    same = replace(fake_spec((2, 2)), roles=("heavy", "scout") * 2)
    named = replace(same, roles=("red_heavy", "red_scout", "blue_heavy", "blue_scout"), alike_sides=True)
    rollout = play((2, 2)).collect()
    rollout.reward[:, ::2] *= 100.0
    advantages = [Learner(settings, spec).targets(rollout)[0].advantage for spec in (same, named)]
    assert torch.equal(*advantages)


@pytest.mark.parametrize(
    ("roles", "alike"),
    [
        (("red", "blue"), None),
        (("red", "blue"), False),
        (("heavy", "scout", "scout", "heavy"), None),
        (("red", "red", "blue_0", "blue_1"), True),
    ],
)
def test_roles_without_a_counterpart_at_their_index_are_rejected(config, roles, alike):
    spec = replace(fake_spec((len(roles) // 2,) * 2), roles=roles, alike_sides=alike)
    with refused("invalid-setting", "normalization.norm_adv_per_role_min_samples"):
        Learner(config(normalization={"norm_adv_per_role_min_samples": 2}), spec)


def test_roles_that_differ_between_sides_are_rejected(config):
    spec = replace(fake_spec((2, 2)), roles=("heavy", "scout", "light", "light"))
    with refused("invalid-setting", "normalization.norm_adv_per_role_min_samples", 0):
        Learner(config(normalization={"norm_adv_per_role_min_samples": 2}), spec)
