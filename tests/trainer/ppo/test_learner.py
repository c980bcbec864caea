"""From a rollout to what is learned from it."""

import pytest
import torch

from arena.policies import EncoderKind
from trainer.ppo.learner import Learner
from trainer.ppo.sequences import split_into_sequences


@pytest.mark.holds("D5", "L1", "L3")
def test_scales_are_logged_before_anything_is_normalised(play, never):
    """Without discount a return is its reward: what is logged can be worked out from rewards and values."""
    played = play(ppo={"gamma": 0.0, "gae_lambda": 0.0})
    played.learner.learn(played.collect(), never)
    rollout = played.collect()
    rollout.reward.mul_(5.0)
    builder = played.learner.target_builder
    value, divisor = builder.values.denormalise(rollout.value), builder.rewards.divisor
    targets, metrics = played.learner.targets(rollout)
    value *= divisor / builder.rewards.divisor  # what the critic said, in the units that rewards now have
    reward = builder.rewards.scale(rollout.reward)
    for name, samples in {"advantage": reward - value, "return": reward, "value": value, "reward": reward}.items():
        deviation, mean = torch.std_mean(samples, correction=0)
        assert metrics[f"scales/{name}_mean"] == pytest.approx(float(mean), rel=1e-4)
        assert metrics[f"scales/{name}_std"] == pytest.approx(float(deviation), rel=1e-4)
    explained = 1.0 - float((reward - value).var(correction=0) / reward.var(correction=0))
    assert metrics["losses/explained_variance"] == pytest.approx(explained, rel=1e-3)
    assert targets.advantage.std(correction=0).item() == pytest.approx(1.0, rel=1e-4)
    assert abs(metrics["scales/advantage_std"] - 1.0) > 0.1


@pytest.mark.holds("L3")
def test_normalisation_scales_are_logged(play, never):
    """One rollout, without discount: a return is its reward, and its units are those of this rollout alone."""
    played = play(ppo={"gamma": 0.0, "gae_lambda": 0.0})
    rollout = played.collect()
    metrics = played.learner.learn(rollout, never)
    assert metrics["scales/reward_divisor"] == pytest.approx(float(rollout.reward.double().std(correction=0)), rel=1e-5)
    for name in ("mean", "std"):
        assert metrics[f"scales/critic_{name}"] == pytest.approx(metrics[f"scales/return_{name}"], rel=1e-4)


@pytest.mark.holds("D1")
@pytest.mark.parametrize("turn_based", [False, True])
def test_advantages_are_normalised_once_per_update_over_valid_decisions(play, turn_based):
    """Whichever minibatch a decision comes into, its advantage is that of the whole."""
    played = play((1, 1) if turn_based else (2, 2), turn_based=turn_based)
    rollout = played.collect()
    targets, _ = played.learner.targets(rollout)
    deviation, mean = torch.std_mean(targets.advantage[targets.valid], correction=0)
    assert (deviation.item(), mean.item()) == (pytest.approx(1.0, rel=1e-4), pytest.approx(0.0, abs=1e-4))
    # before the first return, values are 0 and advantages are the returns
    torch.testing.assert_close(targets.advantage[targets.valid], targets.returns[targets.valid], atol=1e-4, rtol=1e-4)
    assert not targets.valid.all()
    assert targets.advantage[~targets.valid].abs().max() == 0.0
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    for part in sequences.split(3):
        batch = played.learner.ppo.evaluate(rollout, targets, part)
        assert torch.equal(batch.advantage, targets.advantage.flatten()[batch.index])
        assert targets.valid.flatten()[batch.index].all()


@pytest.mark.holds("D2")
def test_advantages_below_the_configured_std_are_only_centred(play):
    played = play(normalization={"advantage_std_floor": 1e9})
    targets, metrics = played.learner.targets(played.collect())
    advantage = targets.advantage[targets.valid]
    assert advantage.std(correction=0).item() == pytest.approx(metrics["scales/advantage_std"], rel=1e-4)
    assert advantage.mean().item() == pytest.approx(0.0, abs=1e-4)


@pytest.mark.holds("D4")
def test_values_are_denormalised_before_gae(play):
    """Values, those of final observations and those behind the rollout, after returns of 2 on average, 4 apart."""
    played = play()
    learner, rollout = played.learner, played.collect()
    learner.target_builder.values.update(torch.tensor([-2.0, 6.0]))
    transitions = learner.target_builder.transitions(rollout)
    torch.testing.assert_close(transitions.value, 4.0 * rollout.value + 2.0)
    going_on = ~(rollout.terminated | rollout.truncated)
    assert going_on[-1].any()
    torch.testing.assert_close(transitions.next_value[-1][going_on[-1]], 4.0 * rollout.last_value[going_on[-1]] + 2.0)
    cut_off = rollout.truncated
    assert cut_off.any()
    torch.testing.assert_close(transitions.next_value[cut_off], 4.0 * rollout.final_value[cut_off] + 2.0)


@pytest.mark.holds("C1", "D4", "S3")
def test_returns_are_in_the_critics_units_without_gradient(play):
    """Returns of the first rollout are all that its units are made of."""
    played = play()
    played.learner.network.requires_grad_()
    targets, metrics = played.learner.targets(played.collect())
    deviation, mean = torch.std_mean(targets.returns[targets.valid], correction=0)
    assert (deviation.item(), mean.item()) == (pytest.approx(1.0, rel=1e-4), pytest.approx(0.0, abs=1e-4))
    assert abs(metrics["scales/return_mean"]) > 0.1
    assert not targets.returns.requires_grad
    assert not targets.advantage.requires_grad


@pytest.mark.holds("D5", "D6")
def test_statistics_cover_active_agents_and_reach_the_network_after_the_update(play, never):
    """Without discount a return is its reward."""
    played = play((2, 2), ppo={"gamma": 0.0})
    rollout = played.collect()
    assert not rollout.active.all()
    rollout.observation[~rollout.active] = 77.0
    played.learner.learn(rollout, never)
    active, network = rollout.observation[rollout.active], played.learner.network
    torch.testing.assert_close(network.observation_mean, active.mean(dim=0))
    torch.testing.assert_close(network.observation_std, active.std(dim=0, correction=0).clamp(min=0.01))
    deviation = rollout.reward[rollout.active].double().std(correction=0)
    assert played.learner.target_builder.rewards.divisor == pytest.approx(float(deviation), rel=1e-5)


@pytest.mark.holds("B2")
def test_network_is_in_evaluation_mode_outside_of_updates(play, never):
    played = play()
    assert not Learner(played.learner.config, played.game.spec).network.training
    played.learner.learn(played.collect(), never)
    assert not played.learner.network.training


@pytest.mark.holds("A5")
def test_initial_log_std_is_configurable(play):
    assert play(network={"initial_log_std": -1.5}).learner.network.log_std.tolist() == [-1.5, -1.5]


@pytest.mark.holds("G12", "S12")
def test_coefficients_follow_their_schedules_and_stay_at_the_end(play):
    learner = play(
        schedules={"horizon_steps": 100}, optimizer={"learning_rate": 4e-4, "learning_rate_final": 1e-4}
    ).learner
    schedule = []
    for steps in (0, 50, 100, 1000):
        learner.steps = steps
        schedule.append((learner.coefficients().learning_rate, learner.coefficients().entropy))
    for now, expected in zip(schedule, [(4e-4, 0.05), (2.5e-4, 0.03), (1e-4, 0.01), (1e-4, 0.01)], strict=True):
        assert now == pytest.approx(expected)


@pytest.mark.holds("G4")
@pytest.mark.parametrize("encoder", list(EncoderKind))
def test_encoder_kind_is_configurable(play, encoder):
    network = play(network={"encoder": encoder.value}).learner.network
    assert network.architecture.encoder is encoder
    assert any(isinstance(module, torch.nn.ReLU) for module in network.encoder) == (encoder is EncoderKind.RELU_NORM)
