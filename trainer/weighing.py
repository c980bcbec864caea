"""What the present weights make of samples: the loss of a minibatch, part by part, its gradient and its figures."""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.errors import ArenaError
from arena.policies import ActorCritic
from arena.policies.network import Readout
from trainer.auxiliary import NextObservation
from trainer.chunks import Segments
from trainer.compiling import Compiled
from trainer.errors import ConfigError
from trainer.figures import Figures
from trainer.objective import Appraisal, Batch, Objective
from trainer.recomputing import sequence_in_parts
from trainer.rollout import Rollout
from trainer.samples import Samples, Targets, at
from trainer.settings import PPOSettings
from trainer.settings.learning import Precision

if TYPE_CHECKING:
    from trainer.appraisal import NativeAppraiser
    from trainer.sweep import Sweep

CACHED_DECISIONS = 8192
"""Decisions whose activations a processor's caches still hold when the backward pass comes for them."""

Appraise = Callable[[Samples, Tensor], tuple[Appraisal, Tensor]]
"""The way from samples, and weights as `Objective.weights` says, to their appraisal and the core's features."""


class Lot(NamedTuple):
    """Segments, and which of their N decisions carry loss."""

    segments: Segments
    counts: Bool[Tensor, " N"]


@dataclass(frozen=True)
class Part:
    """What a part of a minibatch comes to under the present weights.

    Attributes:
        loss: What it adds to the minibatch's loss.
        figures: What its decisions leave behind.
        prediction_error: What it adds to the error of predictions.
    """

    loss: Float[Tensor, ""]
    figures: Figures
    prediction_error: Float[Tensor, ""]

    def flatten(self) -> Float[Tensor, " numbers"]:
        """All of it in one row of numbers."""
        return torch.cat([torch.stack([self.loss, self.prediction_error]), self.figures.row])

    @staticmethod
    def size(heads: int) -> int:
        """How many numbers `flatten` gives."""
        return 2 + Figures.size(heads)

    @classmethod
    def of(cls, numbers: Float[Tensor, " numbers"]) -> "Part":
        """The contrary of `flatten`."""
        return cls(numbers[0], Figures(numbers[2:]), numbers[1])

    @classmethod
    def merged(cls, parts: "Sequence[Part]", shares: Float[Tensor, " parts"]) -> "Part":
        """Several parts as one, with what share of these parts' decisions each has."""
        return cls(
            torch.stack([part.loss for part in parts]).sum(),
            Figures.merged([part.figures for part in parts], shares),
            torch.stack([part.prediction_error for part in parts]).sum(),
        )


class Weigher:
    """The way from samples to the loss of one network.

    Args:
        network: Its gradients add up.
        settings: Of the objective.
        auxiliary: Predicts observations; None where that has no weight.
        rng: Chance of the entropy's estimate.

    Raises:
        ConfigError: Settings contradict each other, or name a head or a compiler that there is not.
    """

    def __init__(
        self, network: ActorCritic, settings: PPOSettings, auxiliary: NextObservation | None, rng: torch.Generator
    ) -> None:
        self._network, self._settings, self._auxiliary, self._rng = network, settings, auxiliary, rng
        if settings.compile and settings.recomputed_parts:
            raise ConfigError(
                f"ppo.compile is {settings.compile!r}, but with ppo.recomputed_parts, which is "
                f"{settings.recomputed_parts}, nothing compiles: set that to 0, and ppo.microbatch to save memory"
            )
        self.objective = Objective(settings, network.layout, network.observation_mean.device)
        self._half = settings.precision is Precision.BFLOAT16
        self._appraise = self._choose_way()

    def deal(self, segments: Segments) -> list[Segments]:
        """The parts in which segments go through the network."""
        most, decisions = at_once(self._settings, segments.state.hidden.device), int(segments.lengths.sum())
        return segments.deal(min(len(segments), max(1, -(-decisions // most))))

    def counts(self, targets: Targets, segments: Segments) -> Bool[Tensor, " N"]:
        """Decisions of segments that carry loss."""
        return segments.learned(self._settings.burn_in) & at(targets.valid, segments.rows)

    def counts_of_each(self, targets: Targets, segments: Segments) -> Float[Tensor, " S"]:
        """How many decisions of each segment carry loss."""
        places = segments.inside.clone()
        places[segments.inside] = self.counts(targets, segments)
        return places.sum(dim=0).float()

    def lots(self, targets: Targets, segments: Segments) -> list[Lot]:
        """Segments in parts; those in which no decision carries loss are left out."""
        lots = [Lot(part, self.counts(targets, part)) for part in self.deal(segments)]
        return [lot for lot in lots if bool(lot.counts.any())]

    def gather(self, rollout: Rollout, targets: Targets, lot: Lot) -> Samples:
        """Everything that the loss of a lot hangs on but the weights."""
        return Samples.gather(rollout, targets, lot.segments, lot.counts, self._network.layout, self._rng)

    def judge(self, samples: Samples) -> tuple[Batch, Float[Tensor, "N H"]]:
        """What the present weights make of the samples that count, and the core's features of all."""
        parameters, value, features = self.sequence(samples)
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

    def sequence(self, samples: Samples) -> Readout:
        """All of the samples' runs through the network."""
        if parts := self._settings.recomputed_parts:
            return sequence_in_parts(self._network, samples, parts, half=self._half)
        return self._network.sequence(samples.seen, samples.state, samples.runs, half=self._half)

    def values(self, rollout: Rollout, segments: Segments) -> Float[Tensor, " N"]:
        """V of the decisions of segments."""
        seen = at(rollout.observation, segments.rows)
        value: Tensor = self._network.sequence(seen, segments.state, segments.runs, half=self._half).value
        return value

    def places(self, rollout: Rollout, lots: Iterable[Lot], like: Tensor) -> Float[Tensor, ""]:
        """How many numbers are predicted of the decisions that carry loss."""
        places = torch.zeros_like(like)
        if self._auxiliary is not None:
            for lot in lots:
                seen = at(rollout.observation, lot.segments.rows)
                places = places + self._auxiliary.places(self._network, seen, lot.segments.runs, lot.counts)
        return places

    def weigh(
        self,
        gathered: Iterable[Samples],
        shares: Float[Tensor, " parts"],
        predicted: Float[Tensor, ""],
        weights: Float[Tensor, " heads_and_1"],
    ) -> list[Part]:
        """Take all parts through the network and back: gradients add up to that of the minibatch.

        Args:
            gathered: The parts, each made when it is its turn.
            shares: What share of the minibatch's decisions each part has.
            predicted: What errors of predictions are divided by: how many the minibatch has.
            weights: As `Objective.weights` says.
        """
        parts: list[Part] = []
        for samples, share in zip(gathered, shares, strict=True):
            appraisal, features = self._appraise(samples, weights)
            loss, error = appraisal.loss * share, torch.zeros_like(share)
            if self._auxiliary is not None:
                own = (features, samples.seen, samples.runs, samples.counts)
                error = self._auxiliary.error(self._network, *own) / predicted
                loss = loss + self._settings.auxiliary_weight * error
            torch.autograd.backward(loss)
            parts.append(Part(loss.detach(), appraisal.figures, error.detach()))
        return parts

    def _choose_way(self) -> Appraise:
        """In native code where that runs, but compiled where the user wants that and it can be had."""
        appraiser = _native_appraiser(self._settings, self._network)
        if appraiser is None:
            way: Appraise = self._weigh
        else:
            own = functools.partial(self._weigh_natively, appraiser)
            way = _sweep(self._network, self._settings, appraiser) or own
        return Compiled(self._weigh, self._settings.compile, way) if self._settings.compile else way

    def _weigh(self, samples: Samples, weights: Float[Tensor, " heads_and_1"]) -> tuple[Appraisal, Tensor]:
        """Everything between the samples and the loss but predictions: no step of it waits for a device."""
        batch, features = self.judge(samples)
        return self.objective.appraise(batch, weights), features

    def _weigh_natively(
        self, appraiser: "NativeAppraiser", samples: Samples, weights: Float[Tensor, " heads_and_1"]
    ) -> tuple[Appraisal, Tensor]:
        """The same."""
        parameters, value, features = self.sequence(samples)
        return appraiser(parameters, value, self._network.log_std, samples, weights), features


def at_once(settings: PPOSettings, device: torch.device) -> int:
    """About how many decisions go through the network at a time, at most."""
    return settings.microbatch or (CACHED_DECISIONS if device.type == "cpu" else sys.maxsize)


def _native_appraiser(settings: PPOSettings, network: ActorCritic) -> "NativeAppraiser | None":
    """What appraises the network's decisions in native code; None where that does not run."""
    learned = network.raw_log_std
    if learned.device.type != "cpu" or learned.dtype is not torch.float32:
        return None
    try:
        # Imported here: whoever does not learn on a CPU needs no kernels.
        from trainer.appraisal import NativeAppraiser
    except ArenaError:
        return None
    return NativeAppraiser(settings, network.layout)


def _sweep(network: ActorCritic, settings: PPOSettings, appraiser: "NativeAppraiser") -> "Sweep | None":
    """The whole way in native code; None where it has a part that there is no native code for."""
    from trainer.sweep import Sweep, fits  # here: see `_native_appraiser`

    return Sweep(network, settings, appraiser) if fits(network, settings) else None
