"""Scales: running moments, and the only places where observations, rewards and values change units.

Statistics gather what was seen so far and are merged in float64; nothing else in the trainer moves a mean or divides by
a deviation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies import ActorCritic, Architecture
from trainer.distributed import ALONE, Ranks

SLICE, NUMBERS = 1024, 2**17
"""Samples whose moments are taken together, in their own precision: so many, or more of few numbers each, as long as
they stay in a core's cache."""


@dataclass(frozen=True)
class Moments:
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
    def empty(cls, shape: tuple[int, ...], device: torch.device | str = "cpu") -> "Moments":
        """Moments of nothing."""
        zeros = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(torch.zeros((), dtype=torch.float64, device=device), zeros, zeros)

    def merged(self, batch: Float[Tensor, "n ..."]) -> "Moments":
        """Moments of everything so far and a batch; an empty batch changes nothing.

        Source: Chan, Golub and LeVeque 1983, equation 2.1.
        """
        moments = self
        for part in torch.split(batch, _at_once(batch)) if len(batch) else ():
            mean = part.mean(dim=0)
            squares = (part - mean).square().sum(dim=0).double()
            moments = moments.joined(Moments(self.count.new_tensor(len(part)), mean.double(), squares))
        return moments

    def joined(self, other: "Moments") -> "Moments":
        """Moments of what both are of."""
        count, delta = self.count + other.count, other.mean - self.mean
        share = other.count / count.clamp(min=1.0)
        squares = self.squares + other.squares + delta.square() * (self.count * share)
        return Moments(count, self.mean + delta * share, squares)

    def pooled(self, batch: "Moments", ranks: Ranks) -> "Moments":
        """Moments of everything so far and the batches of all ranks, the same to the last bit on each."""
        moments, size = self, self.mean.numel()
        for each in ranks.gather(torch.cat([batch.count.reshape(1), batch.mean.flatten(), batch.squares.flatten()])):
            count, mean, squares = torch.split(each, [1, size, size])
            moments = moments.joined(Moments(count.squeeze(0), mean.view_as(self.mean), squares.view_as(self.squares)))
        return moments

    @property
    def variance(self) -> Float[Tensor, "..."]:
        """Population variance; 0 before any sample."""
        return self.squares / self.count.clamp(min=1.0)

    def split(self, sizes: Sequence[int]) -> list["Moments"]:
        """Moments of so many neighbouring features each."""
        parts = zip(torch.split(self.mean, list(sizes)), torch.split(self.squares, list(sizes)), strict=True)
        return [Moments(self.count, mean, squares) for mean, squares in parts]

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to continue."""
        return {"count": self.count, "mean": self.mean, "squares": self.squares}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], device: torch.device) -> "Moments":
        """Continue from `tensors`, on a device."""
        return cls(*(tensors[name].to(device) for name in ("count", "mean", "squares")))


class ObservationNormalizer:
    """Mean and deviation per feature of what the learner saw; they travel inside the network.

    Images and choices have none there: the environment declares their scale.

    A feature of the members of a set has one mean and one deviation wherever they stand; empty places do not count.

    Attributes:
        moments: Of every place of the observation.
        members: Of every feature of the members of each set.
    """

    def __init__(
        self, architecture: Architecture, std_floor: float, device: torch.device, ranks: Ranks = ALONE
    ) -> None:
        self.moments = Moments.empty((architecture.observation_size,), device)
        self.members = [Moments.empty((layout.features,), device) for layout in architecture.sets]
        self._sets, self._std_floor, self._ranks = architecture.sets, std_floor, ranks

    def update(self, values: Float[Tensor, "n D"]) -> None:
        """Take in observations of active agents."""
        self._pool(*self._seen(values, *self._nothing()))

    def update_where(self, active: Bool[Tensor, "T R"], values: Float[Tensor, "T R D"]) -> None:
        """Take in the observations of those who are active."""
        flat, seen = values.flatten(0, 1), self._nothing()
        for rows in torch.split(active.flatten().nonzero().squeeze(1), _at_once(flat)):
            seen = self._seen(flat.index_select(0, rows), *seen)
        self._pool(*seen)

    def _nothing(self) -> tuple[Moments, list[Moments]]:
        def empty(like: Moments) -> Moments:
            return Moments.empty(tuple(like.mean.shape), like.mean.device)

        return empty(self.moments), [empty(each) for each in self.members]

    def _seen(self, values: Tensor, moments: Moments, members: list[Moments]) -> tuple[Moments, list[Moments]]:
        """Moments with those of more observations."""
        grown = []
        for layout, own in zip(self._sets, members, strict=True):
            there = layout.there(values)
            grown.append(own.merged(layout.rows(values, there)[there.squeeze(-1)]))
        return moments.merged(values), grown

    def _pool(self, moments: Moments, members: list[Moments]) -> None:
        self.moments = self.moments.pooled(moments, self._ranks)
        self.members = [own.pooled(each, self._ranks) for own, each in zip(self.members, members, strict=True)]

    def write_to(self, network: ActorCritic) -> None:
        """Make the network normalise by the present statistics."""
        self._write(network, slice(None), self.moments)
        for layout, moments in zip(self._sets, self.members, strict=True):
            lengths = [length for _, length in layout.blocks]
            for place, own in zip(layout.places[1:], moments.split(lengths), strict=True):
                self._write(network, place, own)
        network.scale_as_declared()

    def _write(self, network: ActorCritic, place: slice, moments: Moments) -> None:
        """Scales of a place, over and over again where it has several rows."""
        mean, std = network.observation_mean[place], network.observation_std[place]
        mean.copy_(moments.mean.repeat(len(mean) // len(moments.mean)))
        std.copy_(moments.variance.sqrt().clamp(min=self._std_floor).repeat(len(std) // len(moments.mean)))


class RewardScaler:
    """Divides rewards by the standard deviation of the discounted return; their mean stays."""

    def __init__(self, rows: int, gamma: float, clip: float, device: torch.device, ranks: Ranks = ALONE) -> None:
        self.moments, self._ranks = Moments.empty((), device), ranks
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
        self.moments = self.moments.pooled(_moments(torch.stack(traces[1:])[valid]), self._ranks)

    def scale(self, reward: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Rewards in units of the return's deviation, clipped; unchanged in size while nothing varied."""
        return (reward / self.deviation).clamp(-self._clip, self._clip)

    @property
    def deviation(self) -> float:
        """What rewards are divided by."""
        deviation = float(self.moments.variance.sqrt())
        return deviation if deviation > 0.0 else 1.0


class ValueNormalizer:
    """The critic predicts returns in units of their running mean and deviation.

    Before any return was seen the critic knows nothing: its predictions count as 0, whatever the scale of rewards.
    """

    def __init__(self, device: torch.device, ranks: Ranks = ALONE) -> None:
        self.moments, self._ranks = Moments.empty((), device), ranks

    def update(self, returns: Float[Tensor, " n"]) -> None:
        """Take in returns."""
        self.moments = self.moments.pooled(_moments(returns), self._ranks)

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
        return self.moments.variance.sqrt()


def normalise_advantages(
    advantages: Float[Tensor, "T R"], valid: Bool[Tensor, "T R"], std_floor: float, ranks: Ranks = ALONE
) -> Float[Tensor, "T R"]:
    """Centre and scale advantages over the valid samples of all ranks; the others become 0.

    A spread under `std_floor` is noise: such advantages are centred and not scaled up.
    """
    chosen = _moments(advantages[valid])
    return _normalised(advantages, valid, Moments.empty((), advantages.device).pooled(chosen, ranks), std_floor)


def normalise_by_role(
    advantages: Float[Tensor, "T R"],
    valid: Bool[Tensor, "T R"],
    role: Int[Tensor, " R"],
    std_floor: float,
    least_samples: int,
    ranks: Ranks = ALONE,
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
        moments = Moments.empty((), advantages.device).pooled(_moments(advantages[own]), ranks)
        if float(moments.count) >= least_samples:
            result = torch.where(own, _normalised(advantages, own, moments, std_floor), result)
    return result


def _normalised(advantages: Tensor, valid: Tensor, moments: Moments, std_floor: float) -> Tensor:
    deviation = moments.variance.sqrt().to(advantages.dtype)
    scale = torch.where(deviation > std_floor, deviation, 1.0)
    return ((advantages - moments.mean.to(advantages.dtype)) / scale).masked_fill(~valid, 0.0)


def _moments(samples: Float[Tensor, " n"]) -> Moments:
    return Moments.empty((), samples.device).merged(samples)


def _at_once(samples: Float[Tensor, "n ..."]) -> int:
    """How many of these samples have their moments taken together."""
    return max(SLICE, NUMBERS // max(1, samples[:1].numel()))
