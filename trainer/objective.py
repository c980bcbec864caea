"""What an update minimises: policy, critic and entropy of a minibatch in one loss, and the figures it leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.distributions import ActionLayout
from trainer import losses
from trainer.errors import ConfigError
from trainer.figures import Figures
from trainer.settings import PPOSettings
from trainer.tally import Tally


@dataclass(frozen=True)
class Coefficients:
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
class Batch:
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


class Appraisal(NamedTuple):
    """The loss of some decisions without its part for predictions, with gradient, and the figures they leave behind."""

    loss: Float[Tensor, ""]
    figures: Figures


class Objective:
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
        self._factors = self._per_head("entropy_factors", settings.entropy_factors, 1.0).to(device)
        floors = self._per_head("entropy_floors", settings.entropy_floors, -torch.inf)
        self.has_floors = bool(floors.isfinite().any())
        self._floors = floors.to(device)

    def record(self, figures: Figures, tally: Tally) -> None:
        """Take the figures of a minibatch into `tally`, but for `ratio_error`: only that of the first one says much."""
        tally.add_each(Figures.names(self._names)[1:], figures.row[1:])

    def under_floor(self, entropy: Float[Tensor, " heads"]) -> Bool[Tensor, " heads"]:
        """Which heads' mean entropies are less than their floors."""
        return entropy < self._floors

    def weights(self, coefficients: Coefficients, raised: Bool[Tensor, " heads"]) -> Float[Tensor, " heads_and_1"]:
        """Weight of each head's entropy, where it is raised or not, and of the critic's loss behind them."""
        most = max(coefficients.entropy, coefficients.entropy_below_floor)
        shares = self._factors * torch.where(raised, most, coefficients.entropy)
        return torch.cat([shares, shares.new_tensor([coefficients.value])])

    def appraise(self, batch: Batch, weights: Float[Tensor, " heads_and_1"]) -> Appraisal:
        """The loss of a minibatch but for predictions, and its figures; `weights` gives its weights."""
        settings, joint = self._settings, batch.joint_log_ratio
        shares, value_weight = weights[:-1], weights[-1]
        ratio = losses.probability_ratio(joint)
        policy = losses.surrogate(ratio, batch.advantage, settings.clip).mean()
        value = losses.value_error(
            batch.value, batch.target, batch.old_value, clip=settings.value_clip, huber=settings.value_huber
        ).mean()
        entropy = batch.entropy.masked_fill(~batch.relevant, 0.0)
        loss = policy + value_weight * value - (entropy * shares).sum(dim=-1).mean()
        with torch.no_grad():
            deviation = (ratio - 1.0).abs()
            single = {
                "ratio_error": deviation.max(),
                "approx_kl": losses.kl_estimate(joint).mean(),
                "clipfrac": losses.clipped(ratio, settings.clip).float().mean(),
                "ratio_deviation": deviation.mean(),
                "policy_loss": policy,
                "value_loss": value,
                "entropy": entropy.sum(dim=-1).mean(),
                "ratio_alarms": losses.alarming(ratio).float().sum(),
            }
            return Appraisal(loss, Figures.of(single, self._of_heads(batch)))

    def _of_heads(self, batch: Batch) -> dict[str, Float[Tensor, " heads"]]:
        samples = batch.relevant.sum(dim=0)
        of_decisions = {
            "approx_kl": losses.kl_estimate(batch.log_ratio),
            "clipfrac": losses.clipped(losses.probability_ratio(batch.log_ratio), self._settings.clip).float(),
            "entropy": batch.entropy,
        }
        means = {
            name: losses.masked_mean(values, batch.relevant).masked_fill(samples == 0, torch.nan)
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
