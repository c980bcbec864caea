"""The update: epochs over shuffled segments, with the stop, the clip and the guard in their places.

Arithmetic is in `losses`, indexing in `chunks`, scales in `normalization`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies import ActorCritic
from trainer import losses
from trainer.chunks import Segments, cut, minibatches
from trainer.config import OptimizerSettings, PPOSettings
from trainer.diagnostics import head_gradients
from trainer.errors import DivergedError
from trainer.metrics import Tally
from trainer.rollout import Rollout


@dataclass(frozen=True)
class Targets:
    """What an update learns from, beside the rollout.

    Attributes:
        advantage: Normalised advantage of each action.
        value: Return of each decision, in the critic's units.
        valid: Decisions that count.
    """

    advantage: Float[Tensor, "T R"]
    value: Float[Tensor, "T R"]
    valid: Bool[Tensor, "T R"]


@dataclass(frozen=True)
class Coefficients:
    """What schedules say for this update."""

    learning_rate: float
    entropy: float


@dataclass(frozen=True)
class Batch:
    """The decisions of a minibatch that count, flattened to n samples, under the present weights."""

    log_ratio: Float[Tensor, "n heads"]
    relevant: Bool[Tensor, "n heads"]
    entropy: Float[Tensor, "n heads"]
    value: Float[Tensor, " n"]
    advantage: Float[Tensor, " n"]
    target: Float[Tensor, " n"]
    index: Int[Tensor, " n"]
    """Position t * R + r of each sample in the rollout."""

    @property
    def joint_log_ratio(self) -> Float[Tensor, " n"]:
        """Log-ratio of the whole action: heads that had nothing to decide do not count."""
        return self.log_ratio.masked_fill(~self.relevant, 0.0).sum(dim=-1)


class PPO:
    """Recurrent proximal policy optimisation of one network.

    Attributes:
        optimizer: Adam over all parameters.
        rejected_steps: Optimiser steps that were not made because something was not finite.
    """

    def __init__(
        self,
        network: ActorCritic,
        settings: PPOSettings,
        optimizer: OptimizerSettings,
        rng: torch.Generator,
    ) -> None:
        self._network, self._settings, self._rng = network, settings, rng
        self._max_gradient_norm = optimizer.max_gradient_norm
        self.optimizer = torch.optim.Adam(network.parameters(), eps=optimizer.epsilon, fused=True)
        self.rejected_steps = 0
        self.rejected_in_a_row = 0

    def update(
        self, rollout: Rollout, targets: Targets, coefficients: Coefficients, stopping: Callable[[], bool]
    ) -> dict[str, float | None]:
        """Improve the network on one rollout and say how it went.

        The update ends early, before the optimiser's step, where the policy has moved 1.5 times the target KL away
        from the one that acted, or where `stopping` says so.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = coefficients.learning_rate
        tally = Tally()
        segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        self._network.train()
        try:
            kept_close = self._learn(rollout, targets, segments, coefficients.entropy, stopping, tally)
        finally:
            self._network.eval()
        return {
            **tally.means(),
            "losses/kl_stop": float(not kept_close),
            "losses/rejected_steps": float(self.rejected_steps),
        }

    def reject(self) -> None:
        """Count something that is not finite and must not reach the weights.

        Raises:
            DivergedError: It was once too often in a row.
        """
        self.rejected_steps += 1
        self.rejected_in_a_row += 1
        if self.rejected_in_a_row >= self._settings.nonfinite_limit:
            raise DivergedError(
                f"{self.rejected_in_a_row} updates in a row were not finite: the weights are those before them; "
                "lower schedules.learning_rate, or look for NaN in the environment's observations and rewards"
            )

    def evaluate(self, rollout: Rollout, targets: Targets, segments: Segments) -> Batch:
        """Run the network over whole segments and gather back the decisions that count."""
        counts = segments.inside & targets.valid.flatten()[segments.index]
        index = segments.index[counts]
        output = self._network.sequence(rollout.observation.flatten(0, 1)[segments.index], segments.state)
        mask = rollout.mask.flatten(0, 1)[index]
        distribution = self._network.distribution(output.parameters[counts], mask)
        log_prob = distribution.log_prob(rollout.raw.flatten(0, 1)[index])
        return Batch(
            log_ratio=log_prob - rollout.log_prob.flatten(0, 1)[index],
            relevant=self._network.layout.relevant(mask),
            entropy=distribution.entropy(self._rng),
            value=output.value[counts],
            advantage=targets.advantage.flatten()[index],
            target=targets.value.flatten()[index],
            index=index,
        )

    def _learn(
        self,
        rollout: Rollout,
        targets: Targets,
        segments: Segments,
        entropy_coefficient: float,
        stopping: Callable[[], bool],
        tally: Tally,
    ) -> bool:
        """Go through all epochs; false if the policy moved too far on the way."""
        for _ in range(self._settings.epochs):
            for part in minibatches(segments, self._settings.minibatches, self._rng):
                if stopping():
                    return True
                if not self._step(rollout, targets, part, entropy_coefficient, tally):
                    return False
        return True

    def _step(
        self, rollout: Rollout, targets: Targets, segments: Segments, entropy_coefficient: float, tally: Tally
    ) -> bool:
        """Learn from one minibatch; false if the policy has moved too far and nothing was learned."""
        batch = self.evaluate(rollout, targets, segments)
        if batch.value.numel() == 0:
            return True
        loss = self._loss(batch, entropy_coefficient, tally)
        kl = float(tally.latest("losses/approx_kl"))
        if kl > self._settings.kl_stop * self._settings.target_kl:
            return False
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        of_heads = head_gradients(self._network, batch.relevant)
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._max_gradient_norm)
        if not bool(torch.isfinite(loss) & torch.isfinite(norm)):
            self.optimizer.zero_grad(set_to_none=True)
            self.reject()
            return True
        self.optimizer.step()
        self.rejected_in_a_row = 0
        tally.add("losses/gradient_norm", norm)
        tally.add("losses/gradient_clipped", (norm > self._max_gradient_norm).float())
        for name, gradient in of_heads.items():
            tally.add(name, gradient)
        return True

    def _loss(self, batch: Batch, entropy_coefficient: float, tally: Tally) -> Tensor:
        joint = batch.joint_log_ratio
        ratio = losses.probability_ratio(joint)
        policy = losses.surrogate(ratio, batch.advantage, self._settings.clip).mean()
        value = losses.value_error(batch.value, batch.target).mean()
        entropy = batch.entropy.masked_fill(~batch.relevant, 0.0).sum(dim=-1).mean()
        with torch.no_grad():
            self._count(batch, joint, ratio, tally)
            tally.add("losses/policy_loss", policy)
            tally.add("losses/value_loss", value)
            tally.add("losses/entropy", entropy)
        return policy + self._settings.value_coefficient * value - entropy_coefficient * entropy

    def _count(self, batch: Batch, joint: Tensor, ratio: Tensor, tally: Tally) -> None:
        clip = self._settings.clip
        tally.add("losses/approx_kl", losses.kl_estimate(joint).mean())
        tally.add("losses/clipfrac", losses.clipped(ratio, clip).float().mean())
        tally.add("losses/ratio_deviation", (ratio - 1.0).abs().mean())
        tally.add("losses/ratio_alarms", losses.alarming(ratio).float().sum())
        kl = losses.masked_mean(losses.kl_estimate(batch.log_ratio), batch.relevant)
        clipfrac = losses.masked_mean(
            losses.clipped(losses.probability_ratio(batch.log_ratio), clip).float(), batch.relevant
        )
        entropy = losses.masked_mean(batch.entropy, batch.relevant)
        samples = batch.relevant.sum(dim=0)
        for position, head in enumerate(self._network.layout.heads):
            tally.add(f"heads/{head.name}/samples", samples[position])
            if int(samples[position]) > 0:
                tally.add(f"heads/{head.name}/approx_kl", kl[position])
                tally.add(f"heads/{head.name}/clipfrac", clipfrac[position])
                tally.add(f"heads/{head.name}/entropy", entropy[position])
