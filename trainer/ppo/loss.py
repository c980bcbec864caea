"""PPO loss: its terms, one function a formula, and their sum over a minibatch with its metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.nn.distributions import ActionLayout
from trainer.config.schema import PPOSettings
from trainer.errors import ConfigError
from trainer.ppo.update_metrics import MetricAccumulator, MinibatchMetrics

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to +- this before they are exponentiated."""

RATIO_RANGE = (0.1, 5.0)
"""Ratios outside this range say that rollout and update disagree."""


def masked_mean(values: Float[Tensor, "n ..."], mask: Bool[Tensor, "n ..."]) -> Float[Tensor, "..."]:
    """Mean over the first axis of the entries that count; 0 where none does."""
    count = mask.sum(dim=0).clamp(min=1)
    return values.masked_fill(~mask, 0.0).sum(dim=0) / count


def probability_ratio(log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """exp(log_ratio), finite for every finite input."""
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def clipped_surrogate_loss(
    ratio: Float[Tensor, " n"], advantage: Float[Tensor, " n"], clip: float
) -> Float[Tensor, " n"]:
    """PPO's clipped objective as a loss, per sample.

        L = -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)

    Source: Schulman et al. 2017, equation 7.
    """
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def value_loss(
    value: Float[Tensor, " n"],
    target: Float[Tensor, " n"],
    old_value: Float[Tensor, " n"],
    *,
    clip: float,
    huber: float,
) -> Float[Tensor, " n"]:
    """The critic's error, per sample, everything in its normalised units.

        L = max(e(value - target), e(old + clip(value - old, -c, c) - target)),    e(x) = x^2 / 2 up to |x| = h,
                                                                                  h (|x| - h / 2) beyond

    Args:
        value: What the critic says now.
        target: What it should say.
        old_value: What it said when the sample was collected.
        clip: c, how far it may profit from moving; 0 for any distance.
        huber: h; 0 for squares throughout.

    Source: Schulman et al., OpenAI Baselines `ppo2` (2017); Huber 1964.
    """
    error = _error(value - target, huber)
    if clip == 0.0:
        return error
    return torch.maximum(error, _error(old_value + (value - old_value).clamp(-clip, clip) - target, huber))


def _error(difference: Float[Tensor, " n"], huber: float) -> Float[Tensor, " n"]:
    if huber == 0.0:
        return 0.5 * difference.square()
    size = difference.abs()
    return torch.where(size <= huber, 0.5 * difference.square(), huber * (size - 0.5 * huber))


def approx_kl(log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Estimate KL(old || new) from samples of old: (ratio - 1) - ln ratio, never negative.

    ratio - 1 is computed in one: of a small log-ratio single precision would leave nothing but noise of 1e-7.

    Source: Schulman, "Approximating KL divergence" (2020), estimator k3.
    """
    return (torch.expm1(log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)) - log_ratio).clamp(min=0.0)


def is_clipped(ratio: Float[Tensor, "..."], clip: float) -> Bool[Tensor, "..."]:
    """Whether a ratio lies outside the clip range."""
    return (ratio - 1.0).abs() > clip


def is_ratio_outlier(ratio: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Whether a ratio is so far off that something between rollout and update is wrong."""
    low, high = RATIO_RANGE
    return (ratio < low) | (ratio > high)


def explained_variance(predicted: Float[Tensor, " n"], actual: Float[Tensor, " n"]) -> float | None:
    """Share of the variance of `actual` that `predicted` explains.

        1 - Var[actual - predicted] / Var[actual]

    1 is perfect, 0 no better than the mean, negative worse; None where `actual` does not vary.
    """
    variance = actual.double().var(correction=0) if actual.numel() else torch.zeros(())
    scale = actual.double().square().mean() if actual.numel() else torch.zeros(())
    if float(variance) <= 1e-12 * float(scale) or float(variance) == 0.0:
        return None
    return 1.0 - float((actual - predicted).double().var(correction=0) / variance)


@dataclass(frozen=True)
class LossCoefficients:
    """What schedules say for this update.

    Attributes:
        learning_rate: Of the policy; the critic's is a multiple of it.
        entropy: Weight of the entropy bonus.
        entropy_below_floor: Weight of it for a head whose entropy is under its floor.
        value: Weight of the critic's loss.
    """

    learning_rate: float
    entropy: float
    entropy_below_floor: float
    value: float


@dataclass(frozen=True)
class PolicyEvaluation:
    """The decisions of a minibatch that count, flattened to n samples, under the present weights."""

    log_ratio: Float[Tensor, "n heads"]
    relevant: Bool[Tensor, "n heads"]
    entropy: Float[Tensor, "n heads"]
    value: Float[Tensor, " n"]
    old_value: Float[Tensor, " n"]
    """What the critic said when the decision was made."""
    advantage: Float[Tensor, " n"]
    target: Float[Tensor, " n"]
    index: Int[Tensor, " n"]
    """Position t * R + r of each sample in the rollout."""

    @property
    def joint_log_ratio(self) -> Float[Tensor, " n"]:
        """Log-ratio of the whole action: heads that had nothing to decide do not count."""
        return self.log_ratio.masked_fill(~self.relevant, 0.0).sum(dim=-1)


class LossOutput(NamedTuple):
    """Loss of some decisions with its gradient, and their metrics."""

    loss: Float[Tensor, ""]
    metrics: MinibatchMetrics


class PPOLoss:
    """PPO's loss for one layout of heads.

    Args:
        settings: Clip ranges and the heads' shares of the entropy bonus.
        layout: The heads.
        device: Where batches are.

    Attributes:
        has_floors: Whether a head has a floor.

    Raises:
        ConfigError: A setting names a head that there is none of.
    """

    def __init__(self, settings: PPOSettings, layout: ActionLayout, device: torch.device) -> None:
        self._settings = settings
        self._names = [head.name for head in layout.heads]
        self._factors = self._per_head("ent_coef_per_head", settings.ent_coef_per_head, 1.0).to(device)
        floors = self._per_head("entropy_floors", settings.entropy_floors, -torch.inf)
        self.has_floors = bool(floors.isfinite().any())
        self._floors = floors.to(device)

    def record(self, minibatch: MinibatchMetrics, metrics: MetricAccumulator) -> None:
        """Add the metrics of a minibatch to those of the update, but for `ratio_error`, which the first one gives."""
        metrics.add_each(MinibatchMetrics.names(self._names)[1:], minibatch.row[1:])

    def under_floor(self, entropy: Float[Tensor, " heads"]) -> Bool[Tensor, " heads"]:
        """Which heads' mean entropies are less than their floors."""
        return entropy < self._floors

    def weights(self, coefficients: LossCoefficients, raised: Bool[Tensor, " heads"]) -> Float[Tensor, " heads_and_1"]:
        """Weight of each head's entropy, where it is raised or not, and of the critic's loss behind them."""
        most = max(coefficients.entropy, coefficients.entropy_below_floor)
        shares = self._factors * torch.where(raised, most, coefficients.entropy)
        return torch.cat([shares, shares.new_tensor([coefficients.value])])

    def policy_loss(
        self, log_ratio: Float[Tensor, " n"], ratio: Float[Tensor, " n"], advantage: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Loss of the policy per decision; `log_ratio` is that of the whole action, and `ratio` its exponential."""
        return clipped_surrogate_loss(ratio, advantage, self._settings.clip_coef)

    def compute(self, batch: PolicyEvaluation, weights: Float[Tensor, " heads_and_1"]) -> LossOutput:
        """Compute the loss of a minibatch, without extra losses, and its metrics; see `weights`."""
        settings, joint = self._settings, batch.joint_log_ratio
        shares, value_weight = weights[:-1], weights[-1]
        ratio = probability_ratio(joint)
        policy = self.policy_loss(joint, ratio, batch.advantage).mean()
        value = value_loss(
            batch.value, batch.target, batch.old_value, clip=settings.clip_range_vf, huber=settings.huber_delta
        ).mean()
        entropy = batch.entropy.masked_fill(~batch.relevant, 0.0)
        loss = policy + value_weight * value - (entropy * shares).sum(dim=-1).mean()
        with torch.no_grad():
            deviation = (ratio - 1.0).abs()
            single = {
                "ratio_error": deviation.max(),
                "approx_kl": approx_kl(joint).mean(),
                "clipfrac": is_clipped(ratio, settings.clip_coef).float().mean(),
                "ratio_deviation": deviation.mean(),
                "policy_loss": policy,
                "value_loss": value,
                "normalized_entropy": entropy.sum(dim=-1).mean(),
                "ratio_alarms": is_ratio_outlier(ratio).float().sum(),
            }
            return LossOutput(loss, MinibatchMetrics.of(single, self._of_heads(batch)))

    def _of_heads(self, batch: PolicyEvaluation) -> dict[str, Float[Tensor, " heads"]]:
        samples = batch.relevant.sum(dim=0)
        of_decisions = {
            "approx_kl": approx_kl(batch.log_ratio),
            "clipfrac": is_clipped(probability_ratio(batch.log_ratio), self._settings.clip_coef).float(),
            "entropy": batch.entropy,
        }
        means = {
            name: masked_mean(values, batch.relevant).masked_fill(samples == 0, torch.nan)
            for name, values in of_decisions.items()
        }
        return {"samples": samples.float(), **means}

    def _per_head(self, key: str, given: Mapping[str, float], default: float) -> Float[Tensor, " heads"]:
        for name in given:
            if name not in self._names:
                raise ConfigError(
                    f"ppo.{key} names the head {name!r}, which this environment has not: it has "
                    f"{', '.join(self._names)}"
                )
        return torch.tensor([given.get(name, default) for name in self._names])
