"""The update: epochs over shuffled segments, with the stop, the clip and the guard in their places.

The loss is put together in `objective` from `losses`; indexing is in `chunks`, scales are in `normalization`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from arena.policies import ActorCritic
from trainer.auxiliary import NextObservation
from trainer.chunks import Segments, cut, minibatches
from trainer.config import OptimizerSettings, PPOSettings
from trainer.diagnostics import head_gradients, largest_ratio_error
from trainer.errors import DivergedError
from trainer.objective import Batch, Coefficients, Objective
from trainer.rollout import Rollout
from trainer.settings.learning import Precision
from trainer.staleness import state_drift
from trainer.tally import Tally


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


class PPO:
    """Recurrent proximal policy optimisation of one network.

    Attributes:
        auxiliary: Predicts observations; None where that has no weight.
        optimizer: Adam over all parameters, in `parameter_groups`.
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
        self._objective = Objective(settings, network.layout, network.observation_mean.device)
        self._half = settings.precision is Precision.BFLOAT16
        self._gradient_names = [f"heads/{head.name}/gradient_norm" for head in network.layout.heads]
        self._max_gradient_norm = optimizer.max_gradient_norm
        self.auxiliary = NextObservation(network) if settings.auxiliary_weight else None
        groups = parameter_groups(network, optimizer)
        if self.auxiliary is not None:
            groups[0]["params"] += self.auxiliary.parameters()
        self.optimizer = torch.optim.AdamW(groups, eps=optimizer.epsilon, fused=True)
        self._learned = [parameter for group in groups for parameter in group["params"]]
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
            group["lr"] = coefficients.learning_rate * group["rate_factor"]
        tally = Tally()
        segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        self._network.train()
        try:
            kept_close = self._learn(rollout, targets, segments, coefficients, stopping, tally)
        finally:
            self._network.eval()
        if (drift := state_drift(self._network, rollout)) is not None:
            tally.add("losses/state_drift", drift)
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
        """Run the network over whole segments and gather the decisions that count."""
        rows, runs = segments.rows, segments.runs
        seen = _at(rollout.observation, rows)
        output = self._network.sequence(seen, segments.state, runs, half=self._half)
        parameters, value = output.parameters, output.value
        counts = segments.learned(self._settings.burn_in) & _at(targets.valid, rows)
        prediction_error = value.new_zeros(())
        if self.auxiliary is not None:
            prediction_error = self.auxiliary.error(self._network, output.features, seen, runs, counts)
        if not bool(counts.all()):
            counted = counts.nonzero().squeeze(1)
            rows, parameters, value = (each.index_select(0, counted) for each in (rows, parameters, value))
        mask = _at(rollout.mask, rows)
        distribution = self._network.distribution(parameters, mask)
        return Batch(
            log_ratio=distribution.log_prob(_at(rollout.raw, rows)) - _at(rollout.log_prob, rows),
            relevant=self._network.layout.relevant(mask),
            entropy=distribution.entropy(self._rng),
            value=value,
            old_value=_at(rollout.value, rows),
            advantage=_at(targets.advantage, rows),
            target=_at(targets.value, rows),
            index=rows,
            prediction_error=prediction_error,
        )

    def _learn(
        self,
        rollout: Rollout,
        targets: Targets,
        segments: Segments,
        coefficients: Coefficients,
        stopping: Callable[[], bool],
        tally: Tally,
    ) -> bool:
        """Go through all epochs; false if the policy moved too far on the way."""
        for _ in range(self._settings.epochs):
            for part in minibatches(segments, self._settings.minibatches, self._rng):
                if stopping():
                    return True
                if not self._step(rollout, targets, part, coefficients, tally):
                    return False
        return True

    def _step(
        self, rollout: Rollout, targets: Targets, segments: Segments, coefficients: Coefficients, tally: Tally
    ) -> bool:
        """Learn from one minibatch; false if the policy has moved too far and nothing was learned."""
        batch = self.evaluate(rollout, targets, segments)
        if batch.value.numel() == 0:
            return True
        if not len(tally):
            tally.add("losses/first_ratio_error", largest_ratio_error(batch))
        loss = self._objective.loss(batch, coefficients, tally)
        kl = float(tally.latest("losses/approx_kl"))
        if kl > self._settings.kl_stop * self._settings.target_kl:
            return False
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        of_heads = head_gradients(self._network, batch.relevant)
        norm = torch.nn.utils.clip_grad_norm_(self._learned, self._max_gradient_norm)
        if not bool(torch.isfinite(loss) & torch.isfinite(norm)):
            self.optimizer.zero_grad(set_to_none=True)
            self.reject()
            return True
        self.optimizer.step()
        self.rejected_in_a_row = 0
        tally.add("losses/gradient_norm", norm)
        tally.add("losses/gradient_clipped", (norm > self._max_gradient_norm).float())
        tally.add_each(self._gradient_names, of_heads)
        return True


def parameter_groups(network: ActorCritic, settings: OptimizerSettings) -> list[dict[str, Any]]:
    """Everything that learns, in two groups: the critic's own layer, and all else.

    `rate_factor` is what the scheduled learning rate is multiplied by.
    """
    critic = list(network.critic.parameters())
    own = {id(parameter) for parameter in critic}
    shared = [parameter for parameter in network.parameters() if id(parameter) not in own]
    return [
        {"params": shared, "rate_factor": 1.0, "weight_decay": 0.0},
        {
            "params": critic,
            "rate_factor": settings.critic_learning_rate_factor,
            "weight_decay": settings.critic_weight_decay,
        },
    ]


def _at(field: Shaped[Tensor, "T R ..."], rows: Int[Tensor, " N"]) -> Shaped[Tensor, "N ..."]:
    """What stands at N positions t * R + r."""
    return field.flatten(0, 1).index_select(0, rows)
