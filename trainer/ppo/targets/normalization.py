"""Scales: running moments, and the only places where observations, rewards and values change units.

Statistics are merged in float64, and older samples may count ever less; nothing else in the trainer moves a mean or
divides by a deviation.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.policies import ActorCritic, Architecture
from trainer.process_group import SINGLE_PROCESS, ProcessGroup

SLICE, NUMBERS = 1024, 2**17
"""Samples whose moments are taken together, in their own precision: so many, or more of few numbers each, as long as
they stay in a core's cache."""

LEAST_UNIT = 1e-4
"""Least deviation that the critic's units are made of, in scaled rewards: less is its own noise."""


@dataclass(frozen=True)
class RunningMoments:
    """Count, mean and sum of squared deviations of everything merged so far.

    Attributes:
        count: Samples, a float64 scalar.
        mean: Mean per feature, float64.
        squares: Sum of squared deviations from the mean per feature, float64.
    """

    count: Float[Tensor, ""]
    mean: Float[Tensor, "..."]
    squares: Float[Tensor, "..."]

    @classmethod
    def empty(cls, shape: tuple[int, ...], device: torch.device | str = "cpu") -> "RunningMoments":
        """Moments of nothing."""
        zeros = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(torch.zeros((), dtype=torch.float64, device=device), zeros, zeros)

    def with_samples(self, batch: Float[Tensor, "n ..."]) -> "RunningMoments":
        """Moments of everything so far and a batch; an empty batch changes nothing.

        Source: Chan, Golub and LeVeque 1983, equation 2.1.
        """
        moments = self
        for part in torch.split(batch, _at_once(batch)) if len(batch) else ():
            mean = part.mean(dim=0)
            squares = (part - mean).square().sum(dim=0).double()
            moments = moments.merge(RunningMoments(self.count.new_tensor(len(part)), mean.double(), squares))
        return moments

    def merge(self, other: "RunningMoments") -> "RunningMoments":
        """Moments of what both are of."""
        count, delta = self.count + other.count, other.mean - self.mean
        share = other.count / count.clamp(min=1.0)
        squares = self.squares + other.squares + delta.square() * (self.count * share)
        return RunningMoments(count, self.mean + delta * share, squares)

    def merge_across_ranks(
        self, batch: "RunningMoments", ranks: ProcessGroup, *, keep: float = 1.0
    ) -> "RunningMoments":
        """Moments of everything so far and the batches of all ranks, the same to the last bit on each.

        Args:
            batch: Of this rank.
            ranks: Whose batches count.
            keep: What earlier samples' weight falls to, unless all batches are empty.
        """
        batches = ranks.all_gather(torch.cat([batch.count.reshape(1), batch.mean.flatten(), batch.squares.flatten()]))
        moments, size = self, self.mean.numel()
        if keep < 1.0:
            weight = 1.0 - (1.0 - keep) * (torch.stack(batches)[:, 0].sum() > 0).double()
            moments = RunningMoments(self.count * weight, self.mean, self.squares * weight)
        for each in batches:
            count, mean, squares = torch.split(each, [1, size, size])
            moments = moments.merge(
                RunningMoments(count.squeeze(0), mean.view_as(self.mean), squares.view_as(self.squares))
            )
        return moments

    @property
    def variance(self) -> Float[Tensor, "..."]:
        """Population variance; 0 before any sample."""
        return self.squares / self.count.clamp(min=1.0)

    def rescaled(self, factor: float) -> "RunningMoments":
        """Moments of the same samples in other units: each is `factor` times what it was."""
        return RunningMoments(self.count, self.mean * factor, self.squares * factor**2)

    def split(self, sizes: Sequence[int]) -> list["RunningMoments"]:
        """Moments of so many neighbouring features each."""
        parts = zip(torch.split(self.mean, list(sizes)), torch.split(self.squares, list(sizes)), strict=True)
        return [RunningMoments(self.count, mean, squares) for mean, squares in parts]

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to continue."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], device: torch.device) -> "RunningMoments":
        """Continue from `tensors`, on a device."""
        return cls(*(tensors[name].to(device) for name in ("count", "mean", "squares")))


class ObservationNormalizer:
    """Mean and deviation per feature of what the learner saw; they travel inside the network.

    Images and choices have none there: the environment declares their scale.

    A feature of the members of a set has one mean and one deviation wherever they stand; empty places do not count.

    Args:
        architecture: Of the network.
        std_floor: Least deviation of a feature.
        device: Where statistics live.
        ranks: Whose observations count.
        keep: What the weight of earlier observations falls to at every update.

    Attributes:
        moments: Of every place of the observation.
        members: Of every feature of the members of each set.
    """

    def __init__(
        self,
        architecture: Architecture,
        std_floor: float,
        device: torch.device,
        ranks: ProcessGroup = SINGLE_PROCESS,
        *,
        keep: float = 1.0,
    ) -> None:
        self.moments = RunningMoments.empty((architecture.observation_size,), device)
        self.members = [RunningMoments.empty((layout.features,), device) for layout in architecture.sets]
        self._sets, self._std_floor, self._ranks, self._keep = architecture.sets, std_floor, ranks, keep

    def update(self, values: Float[Tensor, "n D"]) -> None:
        """Take in observations of active agents."""
        self._pool(*self._seen(values, *self._nothing()))

    def update_where(self, active: Bool[Tensor, "T R"], values: Float[Tensor, "T R D"]) -> None:
        """Take in the observations of those who are active."""
        flat, seen = values.flatten(0, 1), self._nothing()
        for rows in torch.split(active.flatten().nonzero().squeeze(1), _at_once(flat)):
            seen = self._seen(flat.index_select(0, rows), *seen)
        self._pool(*seen)

    def _nothing(self) -> tuple[RunningMoments, list[RunningMoments]]:
        def empty(like: RunningMoments) -> RunningMoments:
            return RunningMoments.empty(tuple(like.mean.shape), like.mean.device)

        return empty(self.moments), [empty(each) for each in self.members]

    def _seen(
        self, values: Tensor, moments: RunningMoments, members: list[RunningMoments]
    ) -> tuple[RunningMoments, list[RunningMoments]]:
        """Moments with those of more observations."""
        grown = []
        for layout, own in zip(self._sets, members, strict=True):
            there = layout.present_mask(values)
            grown.append(own.with_samples(layout.rows(values, there)[there.squeeze(-1)]))
        return moments.with_samples(values), grown

    def _pool(self, moments: RunningMoments, members: list[RunningMoments]) -> None:
        seen = zip([self.moments, *self.members], [moments, *members], strict=True)
        self.moments, *self.members = [own.merge_across_ranks(each, self._ranks, keep=self._keep) for own, each in seen]

    def write_to(self, network: ActorCritic) -> None:
        """Make the network normalise by the present statistics."""
        self._write(network, slice(None), self.moments)
        for layout, moments in zip(self._sets, self.members, strict=True):
            lengths = [length for _, length in layout.blocks]
            for place, own in zip(layout.slices[1:], moments.split(lengths), strict=True):
                self._write(network, place, own)
        network.apply_declared_scales()

    def _write(self, network: ActorCritic, place: slice, moments: RunningMoments) -> None:
        """Scales of a place, over and over again where it has several rows."""
        mean, std = network.observation_mean[place], network.observation_std[place]
        mean.copy_(moments.mean.repeat(len(mean) // len(moments.mean)))
        std.copy_(moments.variance.sqrt().clamp(min=self._std_floor).repeat(len(std) // len(moments.mean)))


class ReturnBasedRewardScaler:
    """Divides rewards by the standard deviation of the discounted return; their mean stays.

    At every update the weight of earlier returns falls to `keep`, unless nothing was earned in it: that says nothing of
    the scale that rewards have when they come, and the scale of the last ones is kept.
    """

    def __init__(
        self,
        rows: int,
        gamma: float,
        clip: float,
        device: torch.device,
        ranks: ProcessGroup = SINGLE_PROCESS,
        *,
        keep: float = 1.0,
    ) -> None:
        self.moments, self._ranks, self._keep = RunningMoments.empty((), device), ranks, keep
        self._trace = torch.zeros(rows, dtype=torch.float64, device=device)
        self._gamma, self._clip = gamma, clip

    def update(
        self,
        reward: Float[Tensor, "T R"],
        known: Bool[Tensor, "T R"],
        valid: Bool[Tensor, "T R"],
        episode_end: Bool[Tensor, "T R"],
    ) -> None:
        """Follow the discounted return of every row over the known turns; the statistics are those of the valid.

        trace[t] = gamma trace[t-1] (1 - episode_end[t-1]) + r[t]
        """
        earned = reward.double().masked_fill(~known, 0.0)
        kept = torch.full_like(earned, self._gamma).masked_fill_(~known, 1.0)
        kept[1:].masked_fill_(known[:-1] & episode_end[:-1], 0.0)
        traces = [self._trace]
        for gained, factor in zip(earned.unbind(), kept.unbind(), strict=True):
            traces.append(torch.addcmul(gained, factor, traces[-1]))
        self._trace = traces[-1].masked_fill(known[-1] & episode_end[-1], 0.0)
        samples = torch.stack(traces[1:])[valid]
        moments = _moments(samples)
        if self._keep < 1.0:
            moments = replace(moments, count=moments.count * samples.any())
        self.moments = self.moments.merge_across_ranks(moments, self._ranks, keep=self._keep)

    def scale(self, reward: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Rewards in units of the return's deviation, clipped; unchanged in size while nothing varied."""
        return (reward / self.deviation).clamp(-self._clip, self._clip)

    @property
    def deviation(self) -> float:
        """What rewards are divided by."""
        deviation = float(self.moments.variance.sqrt())
        return deviation if deviation > 0.0 else 1.0


class ChangeOfUnits(NamedTuple):
    """From predictions v in the units of mean mu and deviation sigma to those of mu' and sigma': factor v + shift.

    PopArt: the critic's output layer is corrected by it, so that what it says in the units of rewards stays the same
    when the statistics move. Without a deviation before or behind there is nothing to preserve: nothing changes.

        factor = sigma / sigma',   shift = (mu - mu') / sigma'

    Source: van Hasselt et al., "Learning values across many orders of magnitude" (2016), proposition 1.
    """

    factor: Float[Tensor, ""]
    shift: Float[Tensor, ""]

    @classmethod
    def between(cls, before: RunningMoments, behind: RunningMoments) -> "ChangeOfUnits":
        """From the units of some moments to those of others."""
        old, new = _deviation(before), _deviation(behind)
        both = (old > 0.0) & (new > 0.0)
        return cls(torch.where(both, old / new, 1.0), torch.where(both, (before.mean - behind.mean) / new, 0.0))

    def convert(self, predictions: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Predictions in the new units."""
        return predictions * self.factor.to(predictions.dtype) + self.shift.to(predictions.dtype)

    @torch.no_grad()
    def correct(self, layer: nn.Linear) -> None:
        """Make a critic's output layer predict in the new units."""
        layer.weight.mul_(self.factor)
        layer.bias.mul_(self.factor).add_(self.shift)


class ValueNormalizer:
    """The critic predicts returns in units of their running mean and deviation.

    Before any return was seen the critic knows nothing: its predictions count as 0, whatever the scale of rewards.
    At every update the weight of earlier returns falls to `keep`.
    """

    def __init__(self, device: torch.device, ranks: ProcessGroup = SINGLE_PROCESS, *, keep: float = 1.0) -> None:
        self.moments, self._ranks, self._keep = RunningMoments.empty((), device), ranks, keep

    def update(self, returns: Float[Tensor, " n"]) -> "ChangeOfUnits":
        """Take in returns; the change of the critic's units, which its output layer has to follow."""
        before = self.moments
        self.moments = before.merge_across_ranks(_moments(returns), self._ranks, keep=self._keep)
        return ChangeOfUnits.between(before, self.moments)

    def rescaled(self, factor: float) -> "ValueNormalizer":
        """The same in other units of rewards: returns, and so predictions, are `factor` times what they were."""
        other = copy.copy(self)
        other.moments = self.moments.rescaled(factor)
        return other

    def normalise(self, returns: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """From the units of rewards to those of the critic; only centred while nothing varied."""
        deviation = self._deviation
        centred = returns - self.moments.mean.to(returns.dtype)
        return centred / torch.where(deviation > 0.0, deviation, 1.0).to(returns.dtype)

    def denormalise(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """From the units of the critic to those of rewards."""
        return values * self._deviation.to(values.dtype) + self.moments.mean.to(values.dtype)

    @property
    def _deviation(self) -> Float[Tensor, ""]:
        return _deviation(self.moments)


def normalise_advantages(
    advantages: Float[Tensor, "T R"], valid: Bool[Tensor, "T R"], std_floor: float, ranks: ProcessGroup = SINGLE_PROCESS
) -> Float[Tensor, "T R"]:
    """Centre and scale advantages over the valid samples of all ranks; the others become 0.

    A spread under `std_floor` is noise: such advantages are centred and not scaled up.
    """
    chosen = _moments(advantages[valid])
    return _normalised(
        advantages, valid, RunningMoments.empty((), advantages.device).merge_across_ranks(chosen, ranks), std_floor
    )


def normalise_by_role(
    advantages: Float[Tensor, "T R"],
    valid: Bool[Tensor, "T R"],
    role: Int[Tensor, " R"],
    std_floor: float,
    least_samples: int,
    ranks: ProcessGroup = SINGLE_PROCESS,
) -> Float[Tensor, "T R"]:
    """Normalise the advantages of every role apart; a role with fewer valid samples is normalised among all.

    Args:
        advantages: Before normalisation.
        valid: Samples that count.
        role: Number of the role behind each row.
        std_floor: As in `normalise_advantages`.
        least_samples: Fewest samples whose mean and spread are trusted.
        ranks: Whose samples count.
    """
    result = normalise_advantages(advantages, valid, std_floor, ranks)
    for number in range(int(role.max()) + 1):
        own = valid & (role == number)
        moments = RunningMoments.empty((), advantages.device).merge_across_ranks(_moments(advantages[own]), ranks)
        if float(moments.count) >= least_samples:
            result = torch.where(own, _normalised(advantages, own, moments, std_floor), result)
    return result


def _normalised(advantages: Tensor, valid: Tensor, moments: RunningMoments, std_floor: float) -> Tensor:
    deviation = moments.variance.sqrt().to(advantages.dtype)
    scale = torch.where(deviation > std_floor, deviation, 1.0)
    return ((advantages - moments.mean.to(advantages.dtype)) / scale).masked_fill(~valid, 0.0)


def _deviation(returns: RunningMoments) -> Float[Tensor, ""]:
    """A unit of the critic; 0 if returns have never varied."""
    deviation = returns.variance.sqrt()
    return torch.where(deviation > 0.0, deviation.clamp(min=LEAST_UNIT), 0.0)


def _moments(samples: Float[Tensor, " n"]) -> RunningMoments:
    return RunningMoments.empty((), samples.device).with_samples(samples)


def _at_once(samples: Float[Tensor, "n ..."]) -> int:
    """How many of these samples have their moments taken together."""
    return max(SLICE, NUMBERS // max(1, samples[:1].numel()))
