"""The update: epochs over shuffled segments, with the stop, the clip and the guard in their places.

The loss is put together in `objective` from `losses`; indexing is in `chunks`, scales are in `normalization`.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.policies import ActorCritic
from arena.policies.network import Readout
from trainer.auxiliary import NextObservation
from trainer.chunks import Segments, cut, minibatches
from trainer.diagnostics import head_gradients, largest_ratio_error
from trainer.distributed import ALONE, Ranks, any_of, average, average_gradients
from trainer.errors import ConfigError, DivergedError
from trainer.objective import Appraisal, Batch, Coefficients, Objective, merge
from trainer.recomputing import sequence_in_parts
from trainer.rollout import Rollout
from trainer.samples import Samples, Targets, at
from trainer.settings import OptimizerSettings, PPOSettings
from trainer.settings.learning import Precision
from trainer.staleness import state_drift
from trainer.tally import Tally

Renew = Callable[[Float[Tensor, "T R"]], Targets]
"""Takes values of all decisions, in the critic's units, for targets."""

MOST_GRAPHS = 64
"""Most graphs of the way to the loss: parts of one run or decision, or without idle ones, have graphs of their own."""

CACHED_DECISIONS = 8192
"""Decisions whose activations a processor's caches still hold when the backward pass comes for them."""

P = ParamSpec("P")
R = TypeVar("R")


class Lot(NamedTuple):
    """Segments, and which of their N decisions carry loss."""

    segments: Segments
    counts: Bool[Tensor, " N"]


@dataclass(frozen=True)
class Part:
    """What a part of a minibatch comes to under the present weights.

    Attributes:
        loss: What it adds to the minibatch's loss, with gradient.
        appraisal: What that is made of, but for predictions.
        prediction_error: What it adds to the error of predictions.
        relevant: Which heads had something to decide, per decision.
        ratio_error: Largest |ratio - 1|.
    """

    loss: Float[Tensor, ""]
    appraisal: Appraisal
    prediction_error: Float[Tensor, ""]
    relevant: Bool[Tensor, "n heads"]
    ratio_error: Float[Tensor, ""]


class PPO:
    """Recurrent proximal policy optimisation of one network, alone or with the same network on other ranks.

    Gradients, the KL stop and the guard against what is not finite are those of the samples of all ranks. A minibatch
    goes through the network in parts, and back before the next: gradients add up to those of the whole. Whether the
    entropy of a head is under its floor is asked of every part, and on every rank, by itself.

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
        if settings.compile and settings.recomputed_parts:
            raise ConfigError(
                f"ppo.compile is {settings.compile!r}, but with ppo.recomputed_parts, which is "
                f"{settings.recomputed_parts}, nothing compiles: set that to 0, and ppo.microbatch to save memory"
            )
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
        batch, _ = self._judge(self._gather(rollout, targets, segments, self._counts(targets, segments)))
        return batch

    @torch.no_grad()
    def values(self, rollout: Rollout, segments: Segments) -> Float[Tensor, "T R"]:
        """V of every decision at which the agent acted under the present weights; the rollout's elsewhere."""
        values = rollout.value.flatten().clone()
        parts = max(self._settings.minibatches, self._parts(segments))
        for chosen in segments.deal(min(parts, len(segments))):
            seen = at(rollout.observation, chosen.rows)
            values[chosen.rows] = self._network.sequence(seen, chosen.state, chosen.runs, half=self._half).value
        return values.view_as(rollout.value)

    def _counts(self, targets: Targets, segments: Segments) -> Bool[Tensor, " N"]:
        """Decisions of segments that carry loss."""
        return segments.learned(self._settings.burn_in) & at(targets.valid, segments.rows)

    def _gather(self, rollout: Rollout, targets: Targets, segments: Segments, counts: Bool[Tensor, " N"]) -> Samples:
        return Samples.gather(rollout, targets, segments, counts, self._network.layout, self._rng)

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
        shares = [int(each) for each in self._ranks.gather(torch.tensor(len(segments), device=device))]
        count = min([self._settings.minibatches, *(share for share in shares if share)])
        for epoch in range(self._settings.epochs if any(shares) else 0):
            if epoch and renew is not None:
                targets = renew(self.values(rollout, segments))
            for part in minibatches(segments, count, self._rng):
                if any_of(self._ranks, stopping(), device):
                    return True
                if not self._step(rollout, targets, part, coefficients, tally):
                    return False
        return True

    def _step(
        self, rollout: Rollout, targets: Targets, segments: Segments, coefficients: Coefficients, tally: Tally
    ) -> bool:
        """Learn from one minibatch; false if the policy has moved too far and nothing was learned."""
        lots = [Lot(part, self._counts(targets, part)) for part in segments.deal(self._parts(segments))]
        lots = [lot for lot in lots if bool(lot.counts.any())]
        counts = rollout.value.new_tensor([float(lot.counts.sum()) for lot in lots])
        count = counts.sum()
        if not any_of(self._ranks, bool(lots), count.device):
            return True
        self.optimizer.zero_grad(set_to_none=True)
        parts = self._weigh_parts(rollout, targets, lots, counts, coefficients)
        kl = self._record(parts, counts / count, tally) if parts else torch.zeros_like(count)
        if float(average(self._ranks, kl, count)) > self._settings.kl_stop * self._settings.target_kl:
            self.optimizer.zero_grad(set_to_none=True)
            return False
        if parts:
            _go_back(parts[-1])
        loss = torch.stack([torch.zeros_like(count), *(part.loss.detach() for part in parts)]).sum()
        relevant = torch.cat([self._network.layout.relevant(rollout.mask[0, :0]), *(part.relevant for part in parts)])
        self._move(loss, count, relevant, tally)
        return True

    def _parts(self, segments: Segments) -> int:
        """In how many parts a minibatch goes through the network."""
        most, decisions = at_once(self._settings, segments.state.hidden.device), int(segments.lengths.sum())
        return min(len(segments), max(1, -(-decisions // most)))

    def _weigh_parts(
        self,
        rollout: Rollout,
        targets: Targets,
        lots: Sequence[Lot],
        counts: Float[Tensor, " parts"],
        coefficients: Coefficients,
    ) -> list[Part]:
        """Take all parts through the network, and all but the last one back: it may come to nothing."""
        parts: list[Part] = []
        weights, count = self._objective.weights(coefficients), counts.sum()
        predicted = self._predicted(rollout, lots, count)
        for lot, share in zip(lots, counts / count, strict=True):
            if parts:
                _go_back(parts[-1])
            samples = self._gather(rollout, targets, lot.segments, lot.counts)
            appraisal, batch, features = self._appraise(samples, weights)
            error = self._prediction_error(features, samples) / predicted
            loss = appraisal.loss * share + self._settings.auxiliary_weight * error
            parts.append(Part(loss, appraisal, error.detach(), batch.relevant, largest_ratio_error(batch)))
        return parts

    def _predicted(self, rollout: Rollout, lots: Sequence[Lot], count: Float[Tensor, ""]) -> Tensor:
        """What errors of predictions are divided by: by it, the mean over ranks is that over all their predictions."""
        if self.auxiliary is None:
            return torch.ones_like(count)
        places = torch.zeros_like(count)
        for lot in lots:
            seen = at(rollout.observation, lot.segments.rows)
            places = places + self.auxiliary.places(self._network, seen, lot.segments.runs, lot.counts)
        if self._ranks.count > 1:
            places = average(self._ranks, places / count.clamp(min=1.0), count) * count
        return places.clamp(min=torch.finfo(places.dtype).tiny)

    def _prediction_error(self, features: Tensor, samples: Samples) -> Tensor:
        if self.auxiliary is None:
            return features.new_zeros(())
        return self.auxiliary.error(self._network, features, samples.seen, samples.runs, samples.counts)

    def _record(self, parts: Sequence[Part], shares: Float[Tensor, " parts"], tally: Tally) -> Tensor:
        """Take the figures of a minibatch into `tally`; its KL estimate."""
        if not len(tally):
            tally.add("losses/first_ratio_error", torch.stack([part.ratio_error for part in parts]).max())
        if self.auxiliary is not None:
            tally.add("losses/prediction_error", torch.stack([part.prediction_error for part in parts]).sum())
        whole = merge([part.appraisal for part in parts], shares)
        self._objective.record(whole, tally)
        return whole.means["approx_kl"]

    def _move(self, loss: Tensor, count: Tensor, relevant: Bool[Tensor, "n heads"], tally: Tally) -> None:
        """Make the optimiser's step, unless something is not finite."""
        average_gradients(self._ranks, self._learned, count)
        loss = average(self._ranks, loss, count)
        of_heads = head_gradients(self._network, relevant)
        norm = torch.nn.utils.clip_grad_norm_(self._learned, self._max_gradient_norm)
        if not bool(torch.isfinite(loss) & torch.isfinite(norm)):
            self.optimizer.zero_grad(set_to_none=True)
            self.reject()
            return
        self.optimizer.step()
        self.rejected_in_a_row = 0
        tally.add("losses/gradient_norm", norm)
        tally.add("losses/gradient_clipped", (norm > self._max_gradient_norm).float())
        tally.add_each(self._gradient_names, of_heads)


def at_once(settings: PPOSettings, device: torch.device) -> int:
    """About how many decisions go through the network at a time, at most."""
    return settings.microbatch or (CACHED_DECISIONS if device.type == "cpu" else sys.maxsize)


def _go_back(part: Part) -> None:
    """Add a part's gradient to that of the parts before it."""
    if part.loss.requires_grad:
        torch.autograd.backward(part.loss)


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
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_GRAPHS)
    return torch.compile(function, fullgraph=True, backend=backend)
