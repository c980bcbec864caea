"""The loss of a minibatch: what settings and coefficients make of it, and the metrics of each head."""

from dataclasses import replace

import pytest
import torch
from refused import refused

from trainer.ppo import loss as losses
from trainer.ppo.loss import LossCoefficients, PPOLoss
from trainer.ppo.sequences import split_into_sequences
from trainer.ppo.update_metrics import MetricAccumulator


def no_heads(played):
    return torch.zeros(len(played.learner.network.layout.heads), dtype=torch.bool)


def loss_of(played):
    return PPOLoss(played.learner.config.ppo, played.learner.network.layout, torch.device("cpu"))


def decisions(played, rollout):
    """All decisions of a rollout as one batch, under the present weights."""
    targets, _ = played.learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    return played.learner.ppo.evaluate(rollout, targets, sequences)


def entropy_gradients(play, coefficients=(0.1, 0.1), raised=(), **ppo):
    """Gradient of every head's rows of the last layer, by the entropy bonus alone."""
    played = play(ppo=ppo)
    batch = decisions(played, played.collect())
    batch = replace(batch, advantage=torch.zeros_like(batch.advantage))
    loss = loss_of(played)
    now, start = coefficients
    heads = torch.tensor([head.name in raised for head in played.learner.network.layout.heads])
    loss.compute(batch, loss.weights(LossCoefficients(0.0, now, start, 0.0), heads)).loss.backward()
    gradient = played.learner.network.actor.weight.grad
    return {part.head.name: gradient[part.parameters] for part in played.learner.network.layout.parts}


@pytest.mark.holds("F6")
def test_entropy_coefficient_of_a_head_changes_only_its_gradient(play):
    plain, scaled = entropy_gradients(play), entropy_gradients(play, ent_coef_per_head={"switch": 0.25})
    for name, gradient in plain.items():
        torch.testing.assert_close(scaled[name], gradient * (0.25 if name == "switch" else 1.0))
        assert gradient.abs().max() > 0.0


@pytest.mark.holds("F6")
def test_head_below_its_entropy_floor_gets_the_initial_coefficient(play):
    plain = entropy_gradients(play, (0.1, 0.3))
    raised = entropy_gradients(play, (0.1, 0.3), raised=["choice"], entropy_floors={"choice": 1.0})
    for name, gradient in plain.items():
        torch.testing.assert_close(raised[name], gradient * (3.0 if name == "choice" else 1.0))


@pytest.mark.holds("F6")
@pytest.mark.parametrize("micro_batch_size", [0, 5])
def test_entropy_floors_apply_to_means_over_whole_minibatches(play, never, micro_batch_size):
    """For any micro-batches, the mean of a minibatch is below a floor just above it, not below one just under it."""
    plain = play(ppo={"update_epochs": 1, "num_minibatches": 1})
    metrics = plain.learner.learn(plain.collect(), never)
    entropy = {name: metrics[f"heads/{name}/entropy"] for name in ("move", "switch", "choice")}
    floors = {"switch": entropy["switch"] - 1e-3, "choice": entropy["choice"] + 1e-3}
    watched = play(
        ppo={"update_epochs": 1, "num_minibatches": 1, "micro_batch_size": micro_batch_size, "entropy_floors": floors}
    )
    assert watched.learner.ppo.under_floor.tolist() == [False, False, False]
    watched.learner.learn(watched.collect(), never)
    assert watched.learner.ppo.under_floor.tolist() == [False, False, True]


FALLING = {"normalized_ent_coef": 0.3, "normalized_ent_coef_final": 0.0}


@pytest.mark.holds("F6")
def test_entropy_floors_take_effect_in_the_next_minibatch_and_after_a_resume(play, never):
    options = {
        "ppo": {"update_epochs": 1, "num_minibatches": 1, "entropy_floors": {"choice": 2.0}, **FALLING},
        "schedules": {"horizon_steps": 1},
    }
    first = play(**options)
    first.learner.learn(first.collect(), never)
    resumed, forgetful = play(**options), play(**options)
    for each in (resumed, forgetful):
        kept = {name: tensor.clone() for name, tensor in first.learner.tensors().items()}
        each.learner.restore(kept, first.learner.steps, first.learner.updates)
    assert resumed.learner.ppo.under_floor.tolist() == [False, False, True]
    forgetful.learner.ppo.under_floor = no_heads(forgetful)
    rollout = first.collect()
    for each in (resumed, forgetful):
        each.learner.learn(rollout, never)
    raised, plain = (each.learner.network.actor.weight for each in (resumed, forgetful))
    assert not torch.equal(raised, plain)


@pytest.mark.parametrize("key", ["ent_coef_per_head", "entropy_floors"])
def test_unknown_head_in_the_settings_is_rejected_by_name(play, key):
    with refused("invalid-setting", f"ppo.{key}", "comm", "move", "choice"):
        play(ppo={key: {"comm": 1.0}})


@pytest.mark.holds("E2", "E3")
@pytest.mark.parametrize("setting", ["clip_range_vf", "huber_delta"])
def test_value_loss_uses_its_settings(play, never, setting):
    """A range so small that it always binds changes what the critic learns."""
    plain, bound = play(), play(ppo={setting: 1e-3})
    one, other = (each.learner.learn(each.collect(), never) for each in (plain, bound))
    assert one["losses/value_loss"] != other["losses/value_loss"]
    assert not torch.equal(plain.learner.network.critic.weight, bound.learner.network.critic.weight)


@pytest.mark.holds("E7")
def test_clip_fractions_are_per_head_and_ratio_alarms_are_counted(play):
    """Only the head whose old log-probabilities are changed has a clip fraction."""
    played = play()
    rollout = played.collect()
    rollout.log_prob[..., 1] -= 2.0  # the ratio of `switch` is e^2
    batch, loss, accumulator = decisions(played, rollout), loss_of(played), MetricAccumulator()
    weights = loss.weights(LossCoefficients(0.0, 0.0, 0.0, 0.0), no_heads(played))
    loss.record(loss.compute(batch, weights).metrics, accumulator)
    metrics = accumulator.means()
    assert [metrics[f"heads/{name}/clipfrac"] for name in ("move", "switch", "choice")] == [0.0, 1.0, 0.0]
    decided = batch.head_has_choice[:, 1]
    assert metrics["losses/clipfrac"] == pytest.approx(float(decided.float().mean()))
    assert metrics["losses/ratio_alarms"] == float(decided.sum()) > 0.0


@pytest.mark.holds("E1", "E2")
@pytest.mark.parametrize(
    "ppo", [{}, {"clip_coef": 0.05}, {"clip_range_vf": 0.3}, {"huber_delta": 0.1, "clip_coef": 0.5}], ids=str
)
def test_losses_are_means_over_samples_with_the_configured_clip_ranges(play, ppo):
    played = play(ppo=ppo)
    rollout = played.collect()
    rollout.log_prob.add_(0.3 * torch.randn_like(rollout.log_prob))
    rollout.value.add_(torch.randn_like(rollout.value))
    batch, loss = decisions(played, rollout), loss_of(played)
    metrics = loss.compute(batch, loss.weights(LossCoefficients(0.0, 0.0, 0.0, 0.5), no_heads(played))).metrics
    settings, ratio = played.learner.config.ppo, losses.probability_ratio(batch.joint_log_ratio)
    of_policy = losses.clipped_surrogate_loss(ratio, batch.advantage, settings.clip_coef)
    of_critic = losses.value_loss(
        batch.value, batch.returns, batch.old_value, clip=settings.clip_range_vf, huber=settings.huber_delta
    )
    torch.testing.assert_close(metrics.single("policy_loss"), of_policy.mean())
    torch.testing.assert_close(metrics.single("value_loss"), of_critic.mean())


@pytest.mark.holds("E6", "L4")
def test_head_metrics_are_means_over_samples_with_a_choice(play):
    played = play()
    rollout = played.collect()
    rollout.action_mask[::2, :, played.learner.network.layout.parts[1].mask] = False  # `switch` matters now and then
    batch, loss = decisions(played, rollout), loss_of(played)
    metrics = loss.compute(batch, loss.weights(LossCoefficients(0.0, 0.0, 0.0, 0.0), no_heads(played))).metrics
    for head, decided in enumerate(batch.head_has_choice.unbind(dim=1)):
        assert 0 < int(metrics.per_head("samples")[head]) == int(decided.sum()) < len(decided)
        mean = batch.entropy[decided, head].mean()
        torch.testing.assert_close(metrics.per_head("entropy")[head], mean)
        divergence = losses.approx_kl(batch.log_ratio[decided, head]).mean()
        torch.testing.assert_close(metrics.per_head("approx_kl")[head], divergence, atol=1e-9, rtol=1e-4)


@pytest.mark.holds("E3")
def test_value_loss_is_weighted_by_its_coefficient(play):
    """Its own layer has no gradient but that of its loss."""

    def gradient(weight):
        played = play()
        loss = loss_of(played)
        weights = loss.weights(LossCoefficients(0.0, 0.1, 0.1, weight), no_heads(played))
        loss.compute(decisions(played, played.collect()), weights).loss.backward()
        return played.learner.network.critic.weight.grad

    torch.testing.assert_close(gradient(0.8), 4.0 * gradient(0.2))
    assert gradient(0.8).abs().max() > 0.0
