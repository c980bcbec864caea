"""What an update minimises: policy, critic and entropy of a minibatch in one loss, and the figures it leaves behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.distributions import ActionLayout
from trainer import losses
from trainer.errors import ConfigError
from trainer.settings import PPOSettings
from trainer.tally import Tally

MEANS = ("approx_kl", "clipfrac", "ratio_deviation", "policy_loss", "value_loss", "entropy")
"""Figures of an appraisal that are means over all decisions."""

TOTALS = ("ratio_alarms",)
"""Figures that are numbers of decisions."""

OF_HEADS = ("approx_kl", "clipfrac", "entropy")
"""Figures that are means over the decisions at which a head had something to decide."""


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
    """The loss of some decisions without its part for predictions, and what it leaves behind.

    Attributes:
        loss: With gradient.
        means: Figures over all decisions, by name.
        totals: Numbers of decisions, by name.
        samples: Decisions at which each head had something to decide.
        of_heads: Means over these, by name; NaN where there are none.
    """

    loss: Float[Tensor, ""]
    means: dict[str, Float[Tensor, ""]]
    totals: dict[str, Float[Tensor, ""]]
    samples: Float[Tensor, " heads"]
    of_heads: dict[str, Float[Tensor, " heads"]]

    def flatten(self) -> Float[Tensor, " figures"]:
        """All of it in one row of numbers."""
        single = [self.loss.detach(), *(self.means[name] for name in MEANS), *(self.totals[name] for name in TOTALS)]
        return torch.cat([torch.stack(single), self.samples, *(self.of_heads[name] for name in OF_HEADS)])

    @staticmethod
    def size(heads: int) -> int:
        """How many numbers `flatten` gives."""
        return 1 + len(MEANS) + len(TOTALS) + (1 + len(OF_HEADS)) * heads

    @classmethod
    def of(cls, figures: Float[Tensor, " figures"]) -> "Appraisal":
        """The contrary of `flatten`."""
        single, of_heads = figures.tensor_split([1 + len(MEANS) + len(TOTALS)])
        loss, *rest = single.unbind()
        samples, *each = of_heads.view(1 + len(OF_HEADS), -1).unbind()
        means, totals = rest[: len(MEANS)], rest[len(MEANS) :]
        return cls(
            loss,
            dict(zip(MEANS, means, strict=True)),
            dict(zip(TOTALS, totals, strict=True)),
            samples,
            dict(zip(OF_HEADS, each, strict=True)),
        )


def merge(appraisals: Sequence[Appraisal], shares: Float[Tensor, " parts"]) -> Appraisal:
    """What appraisals of the parts of a minibatch say of all of it, without gradient.

    Args:
        appraisals: Of each part.
        shares: What share of the minibatch's decisions each part has.
    """
    if len(appraisals) == 1:
        return appraisals[0]._replace(loss=appraisals[0].loss.detach())
    of_parts = torch.stack([each.samples for each in appraisals])
    samples = of_parts.sum(dim=0)

    def mean(values: Sequence[Tensor]) -> Tensor:
        return (torch.stack(list(values)) * shares).sum()

    def mean_of_heads(values: Sequence[Tensor]) -> Tensor:
        known = torch.stack(list(values)).masked_fill(of_parts == 0, 0.0)
        return (known * of_parts).sum(dim=0) / samples  # 0 / 0 where there are none

    first = appraisals[0]
    return Appraisal(
        loss=mean([each.loss.detach() for each in appraisals]),
        means={name: mean([each.means[name] for each in appraisals]) for name in first.means},
        totals={name: torch.stack([each.totals[name] for each in appraisals]).sum() for name in first.totals},
        samples=samples,
        of_heads={name: mean_of_heads([each.of_heads[name] for each in appraisals]) for name in first.of_heads},
    )


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

    def record(self, appraisal: Appraisal, tally: Tally) -> None:
        """Take the figures of a minibatch into `tally`."""
        for name, figure in {**appraisal.means, **appraisal.totals}.items():
            tally.add(f"losses/{name}", figure)
        for name, figures in {"samples": appraisal.samples, **appraisal.of_heads}.items():
            tally.add_each([f"heads/{head}/{name}" for head in self._names], figures)

    @property
    def has_floors(self) -> bool:
        """Whether a head has a floor."""
        return bool(self._floors.isfinite().any())

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
        with torch.no_grad():
            samples, of_heads = self._of_heads(batch)
            totals = {"ratio_alarms": losses.alarming(ratio).float().sum()}
            means = {
                "approx_kl": losses.kl_estimate(joint).mean(),
                "clipfrac": losses.clipped(ratio, settings.clip).float().mean(),
                "ratio_deviation": (ratio - 1.0).abs().mean(),
                "policy_loss": policy.detach(),
                "value_loss": value.detach(),
                "entropy": entropy.sum(dim=-1).mean(),
            }
        loss = policy + value_weight * value - (entropy * shares).sum(dim=-1).mean()
        return Appraisal(loss, means, totals, samples, of_heads)

    def _of_heads(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
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
        return samples.float(), means

    def _per_head(self, key: str, given: Mapping[str, float], default: float) -> Float[Tensor, " heads"]:
        for name in given:
            if name not in self._names:
                raise ConfigError(
                    f"ppo.{key} names the head {name!r}, which this environment has not: it has "
                    f"{', '.join(self._names)}"
                )
        return torch.tensor([given.get(name, default) for name in self._names])
