"""PPO's arithmetic: one function, one formula. Every mean is over the samples that count."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to +- this before they are exponentiated."""

RATIO_ALARMS = (0.1, 5.0)
"""Ratios outside this range say that rollout and update disagree."""


def masked_mean(values: Float[Tensor, "n ..."], mask: Bool[Tensor, "n ..."]) -> Float[Tensor, "..."]:
    """Mean over the first axis of the entries that count; 0 where none does."""
    count = mask.sum(dim=0).clamp(min=1)
    return values.masked_fill(~mask, 0.0).sum(dim=0) / count


def probability_ratio(log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """exp(log_ratio), finite for every finite input."""
    return log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()


def surrogate(ratio: Float[Tensor, " n"], advantage: Float[Tensor, " n"], clip: float) -> Float[Tensor, " n"]:
    """PPO's clipped objective as a loss, per sample.

        L = -min(ratio A, clip(ratio, 1 - clip, 1 + clip) A)

    Source: Schulman et al. 2017, equation 7.
    """
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def value_error(
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


def kl_estimate(log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Estimate KL(old || new) from samples of old: (ratio - 1) - ln ratio, never negative.

    ratio - 1 is computed in one: of a small log-ratio single precision would leave nothing but noise of 1e-7.

    Source: Schulman, "Approximating KL divergence" (2020), estimator k3.
    """
    return (torch.expm1(log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)) - log_ratio).clamp(min=0.0)


def clipped(ratio: Float[Tensor, "..."], clip: float) -> Bool[Tensor, "..."]:
    """Whether a ratio lies outside the clip range."""
    return (ratio - 1.0).abs() > clip


def alarming(ratio: Float[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Whether a ratio is so far off that something between rollout and update is wrong."""
    low, high = RATIO_ALARMS
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
