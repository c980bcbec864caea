"""The update: epochs over shuffled segments, with the stop, the clip and the guard in their places.

The loss is put together in `objective` from `losses`; indexing is in `chunks`, scales are in `normalization`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.policies import ActorCritic
from arena.policies.network import Readout
from trainer.auxiliary import NextObservation
from trainer.chunks import Segments, cut, minibatches
from trainer.config import OptimizerSettings, PPOSettings
from trainer.diagnostics import head_gradients, largest_ratio_error
from trainer.distributed import ALONE, Ranks, any_of, average, average_gradients
from trainer.errors import ConfigError, DivergedError
from trainer.objective import Appraisal, Batch, Coefficients, Objective
from trainer.recomputing import sequence_in_parts
from trainer.rollout import Rollout
from trainer.samples import Samples, Targets, at
from trainer.settings.learning import Precision
from trainer.staleness import state_drift
from trainer.tally import Tally

Renew = Callable[[Float[Tensor, "T R"]], Targets]
"""Takes values of all decisions, in the critic's units, for targets."""


P = ParamSpec("P")
R = TypeVar("R")


class PPO:
    """Recurrent proximal policy optimisation of one network, alone or with the same network on other ranks.

    Gradients, the KL stop and the guard against what is not finite are those of the samples of all ranks.

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
        ranks: Ranks = ALONE,
    ) -> None:
        self._network, self._settings, self._rng, self._ranks = network, settings, rng, ranks
        self._objective = Objective(settings, network.layout, network.observation_mean.device)
        self._appraise = _compiled(self._weigh, settings.compile) if settings.compile else self._weigh
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
        self,
        rollout: Rollout,
        targets: Targets,
        coefficients: Coefficients,
        stopping: Callable[[], bool],
        renew: Renew | None = None,
    ) -> dict[str, float | None]:
        """Improve the network on one rollout and say how it went.

        The update ends early, before the optimiser's step, where the policy has moved 1.5 times the target KL away
        from the one that acted, or where `stopping` says so. `renew` gives new targets for every epoch after the first.

        Raises:
            DivergedError: Losses or gradients were not finite too often in a row.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = coefficients.learning_rate * group["rate_factor"]
        tally = Tally()
        segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        self._network.train()
        try:
            kept_close = self._learn(rollout, targets, segments, coefficients, stopping, tally, renew)
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
        samples = self._gather(rollout, targets, segments)
        batch, features = self._judge(samples)
        return replace(batch, prediction_error=self._prediction_error(features, samples))

    @torch.no_grad()
    def values(self, rollout: Rollout, segments: Segments) -> Float[Tensor, "T R"]:
        """V of every decision at which the agent acted under the present weights; the rollout's elsewhere."""
        values = rollout.value.flatten().clone()
        parts = min(self._settings.minibatches, len(segments))
        for part in torch.arange(len(segments), device=values.device).tensor_split(parts):
            chosen = segments.take(part)
            seen = at(rollout.observation, chosen.rows)
            values[chosen.rows] = self._network.sequence(seen, chosen.state, chosen.runs, half=self._half).value
        return values.view_as(rollout.value)

    def _gather(self, rollout: Rollout, targets: Targets, segments: Segments) -> Samples:
        layout, burn_in = self._network.layout, self._settings.burn_in
        return Samples.gather(rollout, targets, segments, layout, self._rng, burn_in=burn_in)

    def _judge(self, samples: Samples) -> tuple[Batch, Float[Tensor, "N H"]]:
        """What the present weights make of the samples that count, and the core's features of all."""
        parameters, value, features = self._sequence(samples)
        if samples.chosen is not None:
            parameters, value = (each.index_select(0, samples.chosen) for each in (parameters, value))
        distribution = self._network.distribution(parameters, samples.mask)
        batch = Batch(
            log_ratio=distribution.log_prob(samples.raw) - samples.log_prob,
            relevant=self._network.layout.relevant(samples.mask),
            entropy=distribution.entropy_from(samples.noise),
            value=value,
            old_value=samples.old_value,
            advantage=samples.advantage,
            target=samples.target,
            index=samples.index,
            prediction_error=value.new_zeros(()),
        )
        return batch, features

    def _sequence(self, samples: Samples) -> Readout:
        if parts := self._settings.recomputed_parts:
            return sequence_in_parts(self._network, samples, parts, half=self._half)
        return self._network.sequence(samples.seen, samples.state, samples.runs, half=self._half)

    def _weigh(self, samples: Samples, weights: Float[Tensor, "3"]) -> tuple[Appraisal, Batch, Tensor]:
        """Everything between the samples and the loss but predictions: no step of it waits for a device."""
        batch, features = self._judge(samples)
        return self._objective.appraise(batch, weights), batch, features

    def _prediction_error(self, features: Tensor, samples: Samples) -> Tensor:
        if self.auxiliary is None:
            return features.new_zeros(())
        return self.auxiliary.error(self._network, features, samples.seen, samples.runs, samples.counts, self._ranks)

    def _learn(
        self,
        rollout: Rollout,
        targets: Targets,
        segments: Segments,
        coefficients: Coefficients,
        stopping: Callable[[], bool],
        tally: Tally,
        renew: Renew | None,
    ) -> bool:
        """Go through all epochs; false if the policy moved too far on the way."""
        device = segments.state.hidden.device
        fewest = min(int(each) for each in self._ranks.gather(torch.tensor(len(segments), device=device)))
        for epoch in range(self._settings.epochs if fewest else 0):
            if epoch and renew is not None:
                targets = renew(self.values(rollout, segments))
            for part in minibatches(segments, min(self._settings.minibatches, fewest), self._rng):
                if any_of(self._ranks, stopping(), device):
                    return True
                if not self._step(rollout, targets, part, coefficients, tally):
                    return False
        return True

    def _step(
        self, rollout: Rollout, targets: Targets, segments: Segments, coefficients: Coefficients, tally: Tally
    ) -> bool:
        """Learn from one minibatch; false if the policy has moved too far and nothing was learned."""
        samples = self._gather(rollout, targets, segments)
        count = samples.target.new_tensor(float(len(samples.target)))
        if not any_of(self._ranks, len(samples.target) > 0, count.device):
            return True
        loss, kl, relevant = self._loss(samples, coefficients, tally)
        if float(average(self._ranks, kl, count)) > self._settings.kl_stop * self._settings.target_kl:
            return False
        self.optimizer.zero_grad(set_to_none=True)
        if loss.requires_grad:
            torch.autograd.backward(loss)
        average_gradients(self._ranks, self._learned, count)
        loss = average(self._ranks, loss.detach(), count)
        of_heads = head_gradients(self._network, relevant)
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

    def _loss(
        self, samples: Samples, coefficients: Coefficients, tally: Tally
    ) -> tuple[Tensor, Tensor, Bool[Tensor, "n heads"]]:
        """Loss, KL estimate and which heads mattered; zeros where only other ranks have samples."""
        if len(samples.target) == 0:
            zero = samples.target.new_zeros(())
            features = samples.seen.new_zeros(len(samples.seen), self._network.architecture.recurrent_size)
            self._prediction_error(features, samples)  # the other ranks wait for this one's share of it
            return zero, zero, self._network.layout.relevant(samples.mask)
        appraisal, batch, features = self._appraise(samples, self._objective.weights(coefficients))
        if not len(tally):
            tally.add("losses/first_ratio_error", largest_ratio_error(batch))
        loss = self._objective.complete(appraisal, self._prediction_error(features, samples), tally)
        return loss, appraisal.figures["approx_kl"], batch.relevant


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


def _compiled(function: Callable[P, R], backend: str) -> Callable[P, R]:
    """A function in one graph; the network's modules are left as they are.

    Raises:
        ConfigError: There is no such backend.
    """
    known = [*torch.compiler.list_backends(), "eager", "aot_eager"]
    if backend not in known:
        raise ConfigError(f"ppo.compile is {backend!r}: torch knows {', '.join(sorted(known))}; choose one, or none")
    torch._dynamo.config.allow_rnn = True
    return torch.compile(function, fullgraph=True, backend=backend)
