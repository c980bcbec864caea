"""What an update minimises: policy, critic and entropy of a minibatch in one loss, and the figures it leaves behind."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.distributions import ActionLayout
from trainer import losses
from trainer.config import PPOSettings
from trainer.errors import ConfigError
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
    prediction_error: Float[Tensor, ""]
    """How far predictions of the next observation are off; 0 where nothing predicts it."""

    @property
    def joint_log_ratio(self) -> Float[Tensor, " n"]:
        """Log-ratio of the whole action: heads that had nothing to decide do not count."""
        return self.log_ratio.masked_fill(~self.relevant, 0.0).sum(dim=-1)


class Objective:
    """PPO's loss for one layout of heads.

    Args:
        settings: Clip ranges and the heads' shares of the entropy bonus.
        layout: The heads.
        device: Where batches are.

    Raises:
        ConfigError: A setting names a head that there is none of.
    """

    def __init__(self, settings: PPOSettings, layout: ActionLayout, device: torch.device) -> None:
        self._settings = settings
        self._names = [head.name for head in layout.heads]
        self._factors = self._per_head("entropy_factors", settings.entropy_factors, 1.0).to(device)
        self._floors = self._per_head("entropy_floors", settings.entropy_floors, -torch.inf).to(device)

    def loss(self, batch: Batch, coefficients: Coefficients, tally: Tally) -> Tensor:
        """The loss of a minibatch; its figures go into `tally`."""
        settings, joint = self._settings, batch.joint_log_ratio
        ratio = losses.probability_ratio(joint)
        policy = losses.surrogate(ratio, batch.advantage, settings.clip).mean()
        value = losses.value_error(
            batch.value, batch.target, batch.old_value, clip=settings.value_clip, huber=settings.value_huber
        ).mean()
        entropy = batch.entropy.masked_fill(~batch.relevant, 0.0)
        with torch.no_grad():
            weights = self._entropy_weights(batch, coefficients)
            self._count(batch, joint, ratio, tally)
            tally.add("losses/policy_loss", policy)
            tally.add("losses/value_loss", value)
            tally.add("losses/entropy", entropy.sum(dim=-1).mean())
            if settings.auxiliary_weight:
                tally.add("losses/prediction_error", batch.prediction_error)
        loss = policy + coefficients.value * value - (entropy * weights).sum(dim=-1).mean()
        return loss + settings.auxiliary_weight * batch.prediction_error

    def _entropy_weights(self, batch: Batch, coefficients: Coefficients) -> Float[Tensor, " heads"]:
        low = losses.masked_mean(batch.entropy, batch.relevant) < self._floors
        raised = max(coefficients.entropy, coefficients.entropy_below_floor)
        return self._factors * (coefficients.entropy + low * (raised - coefficients.entropy))

    def _count(self, batch: Batch, joint: Tensor, ratio: Tensor, tally: Tally) -> None:
        clip = self._settings.clip
        tally.add("losses/approx_kl", losses.kl_estimate(joint).mean())
        tally.add("losses/clipfrac", losses.clipped(ratio, clip).float().mean())
        tally.add("losses/ratio_deviation", (ratio - 1.0).abs().mean())
        tally.add("losses/ratio_alarms", losses.alarming(ratio).float().sum())
        samples = batch.relevant.sum(dim=0)
        tally.add_each([f"heads/{name}/samples" for name in self._names], samples.float())
        of_heads = {
            "approx_kl": losses.kl_estimate(batch.log_ratio),
            "clipfrac": losses.clipped(losses.probability_ratio(batch.log_ratio), clip).float(),
            "entropy": batch.entropy,
        }
        for figure, values in of_heads.items():
            mean = losses.masked_mean(values, batch.relevant).masked_fill(samples == 0, torch.nan)
            tally.add_each([f"heads/{name}/{figure}" for name in self._names], mean)

    def _per_head(self, key: str, given: Mapping[str, float], default: float) -> Float[Tensor, " heads"]:
        for name in given:
            if name not in self._names:
                raise ConfigError(
                    f"ppo.{key} names the head {name!r}, which this environment has not: it has "
                    f"{', '.join(self._names)}"
                )
        return torch.tensor([given.get(name, default) for name in self._names])
