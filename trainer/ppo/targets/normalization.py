"""Running mean and variance, and the normalisation of observations, rewards, values and advantages by them.

No other module changes the units of rewards, values or advantages. Statistics are merged in float64, over the samples
of all ranks. They can decay, so that old samples count less.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.policies import ActorCritic, Architecture
from trainer.ppo.targets.gae import discounted_sums
from trainer.process_group import SINGLE_PROCESS, ProcessGroup

MIN_SLICE, SLICE_ELEMENTS, DEVICE_SLICE_ELEMENTS = 1024, 2**17, 2**26
"""Samples are reduced in slices, in their own precision, of at least `MIN_SLICE` samples. On a CPU, a slice fits a
core's cache. On other devices, each slice costs some launches, so that it only bounds the memory of a copy."""

MIN_CRITIC_STD = 1e-4
"""Smallest standard deviation that values are normalised by, in scaled rewards: anything below is noise."""

MOMENTS = ("count", "mean", "squares")
"""Attributes of `RunningMoments` in a saved state."""


@dataclass(frozen=True)
class RunningMoments:
    """Running mean and variance of all samples so far, per feature.

    Attributes:
        count: Number of samples, a float64 scalar; fractional if old samples have decayed.
        mean: Mean, float64.
        squares: Sum of squared deviations from the mean, float64.
    """

    count: Float[Tensor, ""]
    mean: Float[Tensor, "..."]
    squares: Float[Tensor, "..."]

    @classmethod
    def empty(cls, shape: tuple[int, ...], device: torch.device | str = "cpu") -> "RunningMoments":
        """Create the moments of no samples, of the given feature shape."""
        zeros = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(torch.zeros((), dtype=torch.float64, device=device), zeros, zeros)

    @classmethod
    def of(cls, batch: Float[Tensor, "n ..."]) -> "RunningMoments":
        """Return the moments of n samples."""
        if not len(batch):
            return cls.empty(tuple(batch.shape[1:]), batch.device)
        return reduce(cls.merge, map(cls._of_slice, torch.split(batch, _slice_length(batch))))

    @classmethod
    def _of_slice(cls, part: Float[Tensor, "n ..."]) -> "RunningMoments":
        # Deviations from the mean of the slice, because E[x^2] - E[x]^2 cancels for features far from 0.
        mean = part.mean(dim=0)
        squares = (part - mean).square().sum(dim=0).double()
        return cls(torch.full((), len(part), dtype=torch.float64, device=part.device), mean.double(), squares)

    def merge(self, other: "RunningMoments") -> "RunningMoments":
        """Return the moments of the samples of both.

        Source: Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance" (1983), equation 2.1.
        """
        count, delta = self.count + other.count, other.mean - self.mean
        share = other.count / count.clamp(min=1.0)
        squares = self.squares + other.squares + delta.square() * (self.count * share)
        return RunningMoments(count, self.mean + delta * share, squares)

    def merge_across_ranks(
        self, batch: "RunningMoments", ranks: ProcessGroup, *, decay: float = 1.0
    ) -> "RunningMoments":
        """Return the moments with the batches of all ranks, bit-identical on each of them.

        Args:
            batch: Moments of this rank's batch.
            ranks: The process group.
            decay: Factor on the weight of earlier samples, unless the batches of all ranks are empty.
        """
        # Gathered and merged in the order of ranks: an all-reduce could add in another order, with other bits, on each.
        batches = ranks.all_gather(torch.cat([batch.count.reshape(1), batch.mean.flatten(), batch.squares.flatten()]))
        moments, size = self, self.mean.numel()
        if decay < 1.0:
            # Arithmetic and no branch, which would wait for the device.
            weight = 1.0 - (1.0 - decay) * (torch.stack(batches)[:, 0].sum() > 0).double()
            moments = RunningMoments(self.count * weight, self.mean, self.squares * weight)
        for each in batches:
            count, mean, squares = torch.split(each, [1, size, size])
            moments = moments.merge(
                RunningMoments(count.squeeze(0), mean.view_as(self.mean), squares.view_as(self.squares))
            )
        return moments

    @cached_property
    def variance(self) -> Float[Tensor, "..."]:
        """Population variance; 0 without samples."""
        return self.squares / self.count.clamp(min=1.0)

    def rescaled(self, factor: Float[Tensor, ""]) -> "RunningMoments":
        """Return the moments of the samples times `factor`."""
        return RunningMoments(self.count, self.mean * factor, self.squares * factor**2)

    def split(self, sizes: Sequence[int]) -> list["RunningMoments"]:
        """Split the features into consecutive blocks of the given sizes."""
        parts = zip(torch.split(self.mean, list(sizes)), torch.split(self.squares, list(sizes)), strict=True)
        return [RunningMoments(self.count, mean, squares) for mean, squares in parts]

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return the moments by name, for a saved state."""
        return {f"{prefix}{name}": getattr(self, name) for name in MOMENTS}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], prefix: str, device: torch.device) -> "RunningMoments":
        """Load the result of `tensors` onto a device."""
        return cls(*(tensors[f"{prefix}{name}"].to(device) for name in MOMENTS))


class ObservationNormalizer:
    """Running mean and standard deviation of observations, per feature; stored inside the network.

    Images and categorical features are not measured: the environment declares their scale. The members of a set share
    one mean and one standard deviation per feature, over the members that are present.

    Args:
        architecture: Architecture of the network.
        std_floor: Smallest standard deviation of a feature.
        device: Device of the statistics.
        ranks: The process group.
        decay: Factor on the weight of earlier observations at each update.

    Attributes:
        moments: Moments of the whole observation (D,).
        members: Moments of the features of the members of each set.
    """

    def __init__(
        self,
        architecture: Architecture,
        std_floor: float,
        device: torch.device,
        ranks: ProcessGroup = SINGLE_PROCESS,
        *,
        decay: float = 1.0,
    ) -> None:
        self.moments = RunningMoments.empty((architecture.observation_size,), device)
        self.members = [RunningMoments.empty((layout.features,), device) for layout in architecture.sets]
        self._sets, self._std_floor, self._ranks, self._decay = architecture.sets, std_floor, ranks, decay

    def update(self, observation: Float[Tensor, "T R D"], active: Bool[Tensor, "T R"]) -> None:
        """Add the observations of active agents."""
        current, flat = [self.moments, *self.members], observation.flatten(0, 1)
        slices = [
            [RunningMoments.of(each) for each in self._samples(flat.index_select(0, rows))]
            for rows in torch.split(active.flatten().nonzero().squeeze(1), _slice_length(flat))
        ]
        new = [reduce(RunningMoments.merge, each) for each in zip(*slices, strict=True)]
        self.moments, *self.members = [
            moments.merge_across_ranks(batch, self._ranks, decay=self._decay)
            for moments, batch in zip(current, new, strict=True)
        ]

    def _samples(self, observation: Float[Tensor, "n D"]) -> Iterator[Float[Tensor, "_ _"]]:
        """Yield the observations, then the present members of each set."""
        yield observation
        for layout in self._sets:
            present = layout.present_mask(observation)
            yield layout.rows(observation, present)[present.squeeze(-1)]

    def write_to(self, network: ActorCritic) -> None:
        """Copy the statistics into the network, which normalises its inputs by them."""
        # All columns first: the shared scale of a set's members then replaces that of its columns.
        self._write(network, slice(None), self.moments)
        for layout, moments in zip(self._sets, self.members, strict=True):
            blocks = moments.split([length for _, length in layout.blocks])
            for columns, block in zip(layout.slices[1:], blocks, strict=True):
                self._write(network, columns, block)
        network.apply_declared_scales()

    def _write(self, network: ActorCritic, columns: slice, moments: RunningMoments) -> None:
        """Write the scale of some columns, repeated for each member of a set."""
        mean, std = network.observation_mean[columns], network.observation_std[columns]
        mean.copy_(moments.mean.repeat(len(mean) // len(moments.mean)))
        std.copy_(moments.variance.sqrt().clamp(min=self._std_floor).repeat(len(std) // len(moments.mean)))

    def tensors(self) -> dict[str, Tensor]:
        """Return the statistics by name, for a saved state."""
        named = self.moments.tensors("observations.")
        for number, moments in enumerate(self.members):
            named |= moments.tensors(f"members{number}.")
        return named

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the result of `tensors`.

        Raises:
            KeyError: A tensor is missing.
        """
        device = self.moments.mean.device
        self.moments = RunningMoments.from_tensors(tensors, "observations.", device)
        self.members = [
            RunningMoments.from_tensors(tensors, f"members{number}.", device) for number in range(len(self.members))
        ]


class ReturnBasedRewardScaler:
    """Reward scaling: divide rewards by the running standard deviation of the discounted return, without centring.

    A rollout without any reward does not decay earlier samples: it carries no information about the scale of rewards.

    Args:
        rows: R, rows of a rollout.
        gamma: Discount of the return.
        clip: Scaled rewards are clipped to +- this.
        device: Device of the statistics.
        ranks: The process group.
        decay: Factor on the weight of earlier returns at each update.

    Source: Engstrom et al., "Implementation Matters in Deep Policy Gradients" (2020), section 3.
    """

    def __init__(
        self,
        rows: int,
        gamma: float,
        clip: float,
        device: torch.device,
        ranks: ProcessGroup = SINGLE_PROCESS,
        *,
        decay: float = 1.0,
    ) -> None:
        self.moments, self._ranks, self._decay = RunningMoments.empty((), device), ranks, decay
        self._trace = torch.zeros(rows, dtype=torch.float64, device=device)
        self._gamma, self._clip = gamma, clip

    def update(
        self,
        reward: Float[Tensor, "T R"],
        known: Bool[Tensor, "T R"],
        valid: Bool[Tensor, "T R"],
        episode_end: Bool[Tensor, "T R"],
    ) -> None:
        """Update the discounted return of each row over known transitions; valid ones are samples of the statistics.

        trace[t] = gamma trace[t-1] (1 - episode_end[t-1]) + r[t]
        """
        rewards = reward.double().masked_fill(~known, 0.0)
        # Padding adds no reward and passes the trace on undiscounted.
        factors = torch.full_like(rewards, self._gamma).masked_fill_(~known, 1.0)
        factors[1:].masked_fill_(known[:-1] & episode_end[:-1], 0.0)
        rewards[0].addcmul_(factors[0], self._trace)
        traces = discounted_sums(rewards.flip(0), factors.flip(0)).flip(0)
        self._trace = traces[-1].masked_fill(known[-1] & episode_end[-1], 0.0)
        samples = traces[valid]
        moments = RunningMoments.of(samples)
        if self._decay < 1.0:
            # Without any reward the count is 0, so the rollout does not decay earlier samples.
            moments = replace(moments, count=moments.count * samples.any())
        self.moments = self.moments.merge_across_ranks(moments, self._ranks, decay=self._decay)

    def scale(self, reward: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Scale and clip rewards."""
        return (reward / self.divisor).clamp(-self._clip, self._clip)

    @property
    def divisor(self) -> Float[Tensor, ""]:
        """Standard deviation of the discounted return; 1 while it is 0."""
        std = self.moments.variance.sqrt()
        return std.masked_fill(std == 0.0, 1.0)


class PopArtRescaling(NamedTuple):
    """PopArt: preserve the critic's unnormalised outputs when the statistics of returns change.

    Predictions v in units of mean mu and standard deviation sigma become factor v + shift in those of mu' and sigma':

        factor = sigma / sigma',   shift = (mu - mu') / sigma'

    Source: van Hasselt et al., "Learning values across many orders of magnitude" (2016), proposition 1.
    """

    factor: Float[Tensor, ""]
    shift: Float[Tensor, ""]

    def rescale_values(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Convert predictions to the new units."""
        return values * self.factor.to(values.dtype) + self.shift.to(values.dtype)

    @torch.no_grad()
    def rescale_layer(self, layer: nn.Linear) -> None:
        """Make the critic's output layer predict in the new units."""
        # In place, because the optimizer refers to these tensors.
        layer.weight.mul_(self.factor)
        layer.bias.mul_(self.factor).add_(self.shift)


class ValueNormalizer:
    """Value normalisation: the critic predicts returns in units of their running mean and standard deviation.

    Before the first return, denormalised values are 0: the outputs of an untrained critic mean nothing in any units.

    Args:
        device: Device of the statistics.
        ranks: The process group.
        decay: Factor on the weight of earlier returns at each update.
    """

    def __init__(self, device: torch.device, ranks: ProcessGroup = SINGLE_PROCESS, *, decay: float = 1.0) -> None:
        self.moments, self._ranks, self._decay = RunningMoments.empty((), device), ranks, decay

    def update(self, returns: Float[Tensor, " n"]) -> PopArtRescaling:
        """Add returns; return the rescaling to apply to the critic's output layer and to earlier predictions.

        It changes nothing while the standard deviation before or after the update is 0: then there is nothing to
        preserve.
        """
        before = self.moments
        self.moments = before.merge_across_ranks(RunningMoments.of(returns), self._ranks, decay=self._decay)
        old, new = _critic_std(before), _critic_std(self.moments)
        both = (old > 0.0) & (new > 0.0)
        shift = (before.mean - self.moments.mean) / new
        return PopArtRescaling(torch.where(both, old / new, 1.0), torch.where(both, shift, 0.0))

    def rescale(self, factor: Float[Tensor, ""]) -> None:
        """Convert the statistics to units in which returns are `factor` times as large."""
        self.moments = self.moments.rescaled(factor)

    def normalise(self, returns: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Convert scaled rewards to the critic's units; only centred while the standard deviation is 0."""
        std = _critic_std(self.moments)
        centred = returns - self.moments.mean.to(returns.dtype)
        return centred / torch.where(std > 0.0, std, 1.0).to(returns.dtype)

    def denormalise(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Convert the critic's units to scaled rewards."""
        return values * _critic_std(self.moments).to(values.dtype) + self.moments.mean.to(values.dtype)


def normalise_advantages(
    advantages: Float[Tensor, "T R"], valid: Bool[Tensor, "T R"], std_floor: float, ranks: ProcessGroup = SINGLE_PROCESS
) -> Float[Tensor, "T R"]:
    """Standardise advantages over the valid entries of all ranks; other entries become 0.

    Advantages with a standard deviation of at most `std_floor` are noise: they are centred, but not scaled up.
    """
    none = RunningMoments.empty((), advantages.device)
    moments = none.merge_across_ranks(RunningMoments.of(advantages[valid]), ranks)
    return _standardise(advantages, valid, moments, std_floor)


def normalise_advantages_by_role(
    advantages: Float[Tensor, "T R"],
    valid: Bool[Tensor, "T R"],
    role: Int[Tensor, " R"],
    std_floor: float,
    min_samples: int,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> Float[Tensor, "T R"]:
    """Standardise the advantages of each role separately.

    Args:
        advantages: Advantages before normalisation.
        valid: Entries to normalise.
        role: Index of the role of each row.
        std_floor: As in `normalise_advantages`.
        min_samples: A role with fewer valid entries is normalised by the statistics of all roles.
        ranks: The process group.
    """
    result = normalise_advantages(advantages, valid, std_floor, ranks)
    # Every rank visits every role, also without samples of it, because merging is a collective call.
    for number in range(int(role.max()) + 1):
        own = valid & (role == number)
        moments = RunningMoments.empty((), advantages.device).merge_across_ranks(
            RunningMoments.of(advantages[own]), ranks
        )
        if float(moments.count) >= min_samples:
            result = torch.where(own, _standardise(advantages, own, moments, std_floor), result)
    return result


def _standardise(advantages: Tensor, valid: Tensor, moments: RunningMoments, std_floor: float) -> Tensor:
    std = moments.variance.sqrt().to(advantages.dtype)
    scale = torch.where(std > std_floor, std, 1.0)
    return ((advantages - moments.mean.to(advantages.dtype)) / scale).masked_fill(~valid, 0.0)


def _critic_std(returns: RunningMoments) -> Float[Tensor, ""]:
    """Return the unit of the critic, at least `MIN_CRITIC_STD`; 0 if returns have never varied."""
    std = returns.variance.sqrt()
    return std.clamp(min=MIN_CRITIC_STD).masked_fill(std == 0.0, 0.0)


def _slice_length(samples: Float[Tensor, "n ..."]) -> int:
    """Return the number of samples that are reduced together."""
    elements = SLICE_ELEMENTS if samples.device.type == "cpu" else DEVICE_SLICE_ELEMENTS
    return max(MIN_SLICE, elements // max(1, samples[:1].numel()))
