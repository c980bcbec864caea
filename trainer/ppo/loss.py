"""PPO loss: clipped surrogate, value loss and entropy bonus, and their sum over a minibatch with its metrics.

On a CPU in float32, `native/loss_kernel.py` computes the same in one pass.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.nn.distributions import ActionLayout
from trainer.config.schema import PPOSettings
from trainer.errors import ConfigError
from trainer.ppo.update_metrics import MetricAccumulator, MinibatchMetrics

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to +- this before exponentiation."""

RATIO_RANGE = (0.1, 5.0)
"""Ratios outside this range are counted as alarms: rollout and update may disagree."""


def masked_mean(values: Float[Tensor, "n ..."], mask: Bool[Tensor, "n ..."]) -> Float[Tensor, "..."]:
    """Mean of masked-in entries over the first axis; 0 if there are none."""
    count = mask.sum(dim=0).clamp(min=1)
    # Not a product with the mask: 0 * NaN of a masked entry would be NaN.
    return values.masked_fill(~mask, 0.0).sum(dim=0) / count


def probability_ratio(log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Probability ratio exp(log_ratio), finite for every finite input."""
    # As `clamp`, whose backward pass takes five operations.
    return F.hardtanh(log_ratio, -LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def clipped_surrogate_loss(
    ratio: Float[Tensor, " n"], advantage: Float[Tensor, " n"], clip: float
) -> Float[Tensor, " n"]:
    """Clipped surrogate loss of PPO, per sample.

        L = -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)

    Source: Schulman et al., "Proximal Policy Optimization Algorithms" (2017), equation 7.
    """
    # min(a, b) = a - max(a - b, 0). Where the clipped ratio depends on the ratio, a - b is 0: it needs no gradient.
    excess = advantage * (ratio - ratio.detach().clamp(1.0 - clip, 1.0 + clip))
    return excess.relu() - ratio * advantage


def value_loss(
    value: Float[Tensor, " n"],
    returns: Float[Tensor, " n"],
    old_value: Float[Tensor, " n"],
    *,
    clip: float,
    huber: float,
) -> Float[Tensor, " n"]:
    """Value loss, clipped and with Huber's error, per sample, in the critic's units.

        L = max(e(value - returns), e(old_value + clip(value - old_value, -c, c) - returns))
        e(x) = x^2 / 2 if |x| <= h, else h (|x| - h / 2)

    Args:
        value: Prediction of the current critic.
        returns: Returns, the regression target.
        old_value: Prediction of the critic when the agent acted.
        clip: c, the clip range; 0 for no clipping.
        huber: h, the threshold of Huber's error; 0 for squared errors only.

    Sources: OpenAI Baselines, `ppo2` (2017); Huber, "Robust Estimation of a Location Parameter" (1964).
    """
    error = _huber_error(value, returns, huber)
    if clip == 0.0:
        return error
    return torch.maximum(error, _huber_error(old_value + (value - old_value).clamp(-clip, clip), returns, huber))


def _huber_error(value: Float[Tensor, " n"], returns: Float[Tensor, " n"], huber: float) -> Float[Tensor, " n"]:
    return F.huber_loss(value, returns, reduction="none", delta=huber or math.inf)


def approx_kl(log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Approximate KL(old || new) from samples of the old policy: (ratio - 1) - ln ratio, never negative.

    `expm1` keeps the precision of small log-ratios: exp(x) - 1 in float32 has an error of 1e-7.

    Source: Schulman, "Approximating KL divergence" (2020), estimator k3.
    """
    # Rounding can make the difference slightly negative.
    return (torch.expm1(log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)) - log_ratio).clamp(min=0.0)


def is_clipped(ratio: Float[Tensor, "..."], clip: float) -> Bool[Tensor, "..."]:
    """Whether the ratio is outside the clip range 1 +- clip."""
    return (ratio - 1.0).abs() > clip


def is_ratio_outlier(ratio: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Whether the ratio is so extreme that rollout and update may disagree."""
    low, high = RATIO_RANGE
    return (ratio < low) | (ratio > high)


def explained_variance(predicted: Float[Tensor, " n"], actual: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """Explained variance of `actual` by `predicted`, in double precision.

        1 - Var[actual - predicted] / Var[actual]

    1 is perfect, 0 is as good as predicting the mean, negative is worse. NaN if `actual` is constant or empty.
    """
    if not actual.numel():
        return actual.new_full((), torch.nan)
    residual, actual = (actual - predicted).double(), actual.double()
    variance = actual.var(correction=0)
    explained = 1.0 - residual.var(correction=0) / variance
    # Relative to the mean square: equal returns of large magnitude still differ by rounding.
    return explained.masked_fill(variance <= 1e-12 * actual.square().mean(), torch.nan)


@dataclass(frozen=True)
class LossCoefficients:
    """Learning rate and coefficients of the loss for one update, after their schedules.

    Attributes:
        learning_rate: Learning rate; that of the critic's output layer is a multiple of it.
        entropy: Coefficient of the entropy bonus.
        entropy_below_floor: Coefficient for a head whose entropy is below its floor.
        value: Coefficient of the value loss.
    """

    learning_rate: float
    entropy: float
    entropy_below_floor: float
    value: float


@dataclass(frozen=True)
class PolicyEvaluation:
    """n samples of a minibatch under the current policy and critic.

    Attributes:
        log_ratio: Log-ratio of the current to the old policy, per head.
        head_has_choice: Whether the action mask left the head a choice; otherwise it carries no loss.
        entropy: Normalised entropy, per head.
        value: Prediction of the current critic.
        old_value: As in `SequenceBatch`, like the following.
        advantage: Normalised advantage.
        returns: Return, in the critic's units.
        index: Flat position t * R + r of each sample in the rollout.
    """

    log_ratio: Float[Tensor, "n heads"]
    head_has_choice: Bool[Tensor, "n heads"]
    entropy: Float[Tensor, "n heads"]
    value: Float[Tensor, " n"]
    old_value: Float[Tensor, " n"]
    advantage: Float[Tensor, " n"]
    returns: Float[Tensor, " n"]
    index: Int[Tensor, " n"]

    @property
    def joint_log_ratio(self) -> Float[Tensor, " n"]:
        """Log-ratio of the whole action: the sum over heads that had a choice."""
        return self.log_ratio.masked_fill(~self.head_has_choice, 0.0).sum(dim=-1)


class LossOutput(NamedTuple):
    """Loss of a batch, with a gradient, and its metrics, without."""

    loss: Float[Tensor, ""]
    metrics: MinibatchMetrics


class PPOLoss:
    """PPO loss: L = policy loss + vf_coef value loss - sum over heads of ent_coef entropy, as means over samples.

    Args:
        settings: Clip ranges, and entropy coefficients and floors per head.
        layout: Action layout with the heads.
        device: Device of the batches.

    Attributes:
        entropy_floors: Entropy floor of each head (heads,), -inf for a head without one; None if no head has one.

    Raises:
        ConfigError: A setting names a head that does not exist.
    """

    def __init__(self, settings: PPOSettings, layout: ActionLayout, device: torch.device) -> None:
        self._settings = settings
        self._names = [head.name for head in layout.heads]
        self._factors = self._per_head("ent_coef_per_head", settings.ent_coef_per_head, 1.0).to(device)
        floors = self._per_head("entropy_floors", settings.entropy_floors, -torch.inf)
        self.entropy_floors = floors.to(device) if settings.entropy_floors else None

    def record(self, minibatch: MinibatchMetrics, metrics: MetricAccumulator) -> None:
        """Add the metrics of a minibatch to those of the update, except `ratio_error`, which only the first logs."""
        metrics.add_each(MinibatchMetrics.names(self._names)[1:], minibatch.row[1:])

    def weights(
        self, coefficients: LossCoefficients, under_floor: Bool[Tensor, " heads"]
    ) -> Float[Tensor, " heads_and_1"]:
        """Return the weights of each head's entropy, raised under its floor and negative, and of the value loss."""
        entropy = self._factors * -coefficients.entropy
        if self.entropy_floors is not None:
            raised = max(coefficients.entropy, coefficients.entropy_below_floor)
            entropy = torch.where(under_floor, self._factors * -raised, entropy)
        return F.pad(entropy, (0, 1), value=coefficients.value)  # `new_tensor` would wait for the device

    def policy_loss(
        self, log_ratio: Float[Tensor, " n"], ratio: Float[Tensor, " n"], advantage: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """Policy loss per sample, from the log-ratio of the whole action and its exponential."""
        return clipped_surrogate_loss(ratio, advantage, self._settings.clip_coef)

    def compute(self, batch: PolicyEvaluation, weights: Float[Tensor, " heads_and_1"]) -> LossOutput:
        """Compute the loss of a batch and its metrics, given the result of `weights`; extra losses are not included."""
        settings, joint = self._settings, batch.joint_log_ratio
        policy = self.policy_loss(joint, probability_ratio(joint), batch.advantage)
        value = value_loss(
            batch.value, batch.returns, batch.old_value, clip=settings.clip_range_vf, huber=settings.huber_delta
        )
        entropy = batch.entropy.masked_fill(~batch.head_has_choice, 0.0)
        terms = torch.cat([entropy, value.unsqueeze(1)], dim=1)
        loss = policy.mean() + (terms.mean(dim=0) * weights).sum()
        losses = {"policy_loss": policy, "value_loss": value, "normalized_entropy": entropy.sum(dim=1)}
        return LossOutput(loss, self._metrics(batch, joint, losses))

    @torch.no_grad()
    def _metrics(
        self, batch: PolicyEvaluation, joint: Float[Tensor, " n"], losses: Mapping[str, Float[Tensor, " n"]]
    ) -> MinibatchMetrics:
        """Return the metrics of a batch, given its losses and the log-ratio of the whole action."""
        # Column 0 is the whole action, the others are its heads: all are computed together.
        log_ratio = torch.cat([joint.unsqueeze(1), batch.log_ratio], dim=1)
        ratio = probability_ratio(log_ratio)
        kl, clipped = approx_kl(log_ratio), is_clipped(ratio, self._settings.clip_coef).to(ratio.dtype)
        deviation = (ratio[:, 0] - 1.0).abs()
        single = {
            "approx_kl": kl[:, 0],
            "clipfrac": clipped[:, 0],
            "ratio_deviation": deviation,
            "ratio_alarms": is_ratio_outlier(ratio[:, 0]).to(ratio.dtype),
            **losses,
        }
        heads = {"approx_kl": kl[:, 1:], "clipfrac": clipped[:, 1:], "entropy": batch.entropy}
        return MinibatchMetrics.of(deviation.max(), single, heads, batch.head_has_choice)

    def _per_head(self, key: str, given: Mapping[str, float], default: float) -> Float[Tensor, " heads"]:
        for name in given:
            if name not in self._names:
                raise ConfigError(
                    f"ppo.{key} names the head {name!r}, which this environment does not have: it has "
                    f"{', '.join(self._names)}"
                )
        return torch.tensor([given.get(name, default) for name in self._names])
