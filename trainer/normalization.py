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

SLICE = 1024
"""Samples whose moments are taken together, in their own precision: few enough to stay in a core's cache."""


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
        for part in torch.split(batch, SLICE) if len(batch) else ():
            moments = moments._with(part)
        return moments

    def _with(self, part: Float[Tensor, "n ..."]) -> "Moments":
        size, mean = part.shape[0], part.mean(dim=0)
        squares = (part - mean).square().sum(dim=0).double()
        count, delta = self.count + size, mean.double() - self.mean
        return Moments(
            count,
            self.mean + delta * (size / count),
            self.squares + squares + delta.square() * (self.count * size / count),
        )

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

    A feature of the members of a set has one mean and one deviation wherever they stand; empty places do not count.

    Attributes:
        moments: Of every place of the observation.
        members: Of every feature of the members of each set.
    """

    def __init__(self, architecture: Architecture, std_floor: float, device: torch.device) -> None:
        self.moments = Moments.empty((architecture.observation_size,), device)
        self.members = [Moments.empty((layout.features,), device) for layout in architecture.sets]
        self._sets, self._std_floor = architecture.sets, std_floor

    def update(self, values: Float[Tensor, "n D"]) -> None:
        """Take in observations of active agents."""
        self.moments = self.moments.merged(values)
        for number, layout in enumerate(self._sets):
            there = layout.there(values)
            members = layout.rows(values, there)[there.squeeze(-1)]
            self.members[number] = self.members[number].merged(members)

    def update_where(self, active: Bool[Tensor, "T R"], values: Float[Tensor, "T R D"]) -> None:
        """Take in the observations of those who are active."""
        flat = values.flatten(0, 1)
        for rows in torch.split(active.flatten().nonzero().squeeze(1), SLICE):
            self.update(flat.index_select(0, rows))

    def write_to(self, network: ActorCritic) -> None:
        """Make the network normalise by the present statistics."""
        self._write(network, slice(None), self.moments)
        for layout, moments in zip(self._sets, self.members, strict=True):
            lengths = [length for _, length in layout.blocks]
            for place, own in zip(layout.places[1:], moments.split(lengths), strict=True):
                self._write(network, place, own)

    def _write(self, network: ActorCritic, place: slice, moments: Moments) -> None:
        """Scales of a place, over and over again where it has several rows."""
        mean, std = network.observation_mean[place], network.observation_std[place]
        mean.copy_(moments.mean.repeat(len(mean) // len(moments.mean)))
        std.copy_(moments.variance.sqrt().clamp(min=self._std_floor).repeat(len(std) // len(moments.mean)))


class RewardScaler:
    """Divides rewards by the standard deviation of the discounted return; their mean stays."""

    def __init__(self, rows: int, gamma: float, clip: float, device: torch.device) -> None:
        self.moments = Moments.empty((), device)
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
        traces = torch.empty_like(reward, dtype=torch.float64)
        for t in range(reward.shape[0]):
            self._trace = torch.where(known[t], self._gamma * self._trace + reward[t], self._trace)
            traces[t] = self._trace
            self._trace = self._trace.masked_fill(known[t] & episode_end[t], 0.0)
        self.moments = self.moments.merged(traces[valid])

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

    def __init__(self, device: torch.device) -> None:
        self.moments = Moments.empty((), device)

    def update(self, returns: Float[Tensor, " n"]) -> None:
        """Take in returns."""
        self.moments = self.moments.merged(returns)

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
    advantages: Float[Tensor, "T R"], valid: Bool[Tensor, "T R"], std_floor: float
) -> Float[Tensor, "T R"]:
    """Centre and scale advantages over valid samples; the others become 0.

    A spread under `std_floor` is noise: such advantages are centred and not scaled up.
    """
    chosen = advantages[valid]
    if chosen.numel() == 0:
        return torch.zeros_like(advantages)
    deviation, mean = torch.std_mean(chosen, correction=0)
    scale = deviation if deviation > std_floor else torch.ones_like(deviation)
    return ((advantages - mean) / scale).masked_fill(~valid, 0.0)


def normalise_by_role(
    advantages: Float[Tensor, "T R"],
    valid: Bool[Tensor, "T R"],
    role: Int[Tensor, " R"],
    std_floor: float,
    least_samples: int,
) -> Float[Tensor, "T R"]:
    """Normalise the advantages of every role apart; a role with fewer valid samples is normalised among all.

    Args:
        advantages: Before normalisation.
        valid: Samples that count.
        role: Number of the role behind each row.
        std_floor: As in `normalise_advantages`.
        least_samples: Fewest samples whose mean and spread are trusted.
    """
    result = normalise_advantages(advantages, valid, std_floor)
    for number in range(int(role.max()) + 1):
        own = valid & (role == number)
        if int(own.sum()) >= least_samples:
            result = torch.where(own, normalise_advantages(advantages, own, std_floor), result)
    return result
