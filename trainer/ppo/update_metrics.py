"""Metrics of an update: of each minibatch, and their means, without waiting for the device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

MEANS = ("approx_kl", "clipfrac", "ratio_deviation", "policy_loss", "value_loss", "normalized_entropy")
"""Means over all decisions."""

TOTALS = ("ratio_alarms",)
"""Numbers of decisions."""

SINGLE = ("ratio_error", *MEANS, *TOTALS)
"""All that there is one of, in the order of a row."""

PER_HEAD = ("samples", "approx_kl", "clipfrac", "entropy")
"""All that there is one of for each head, in the order of a row."""


@dataclass(frozen=True)
class MinibatchMetrics:
    """Figures of some decisions, without gradient.

    `ratio_error` is the largest |ratio - 1|: under the weights that acted it says how well the update sees what the
    rollout did, 0 but for rounding. `samples` are the decisions at which a head had something to decide, and a head's
    other figures are means over these, NaN where there are none.

    Attributes:
        row: Those of `SINGLE`, then those of `PER_HEAD`, each for all heads.
    """

    row: Float[Tensor, " figures"]

    @classmethod
    def of(
        cls, single: Mapping[str, Float[Tensor, ""]], per_head: Mapping[str, Float[Tensor, " heads"]]
    ) -> "MinibatchMetrics":
        """A row of figures that are known by their names."""
        alone = torch.stack([single[name] for name in SINGLE])
        return cls(torch.cat([alone, *(per_head[name] for name in PER_HEAD)]))

    @staticmethod
    def size(heads: int) -> int:
        """How many numbers a row has."""
        return len(SINGLE) + len(PER_HEAD) * heads

    @staticmethod
    def names(heads: Sequence[str]) -> list[str]:
        """What the numbers of a row are called in metrics, where the heads are called that."""
        return [f"losses/{name}" for name in SINGLE] + [f"heads/{head}/{name}" for name in PER_HEAD for head in heads]

    def single(self, name: str) -> Float[Tensor, ""]:
        """One of `SINGLE`."""
        return self.row[SINGLE.index(name)]

    def per_head(self, name: str) -> Float[Tensor, " heads"]:
        """One of `PER_HEAD`."""
        return self.row[len(SINGLE) :].view(len(PER_HEAD), -1)[PER_HEAD.index(name)]

    @classmethod
    def merged(cls, parts: "Sequence[MinibatchMetrics]", shares: Float[Tensor, " parts"]) -> "MinibatchMetrics":
        """What figures of the parts of a minibatch say of all of it.

        Args:
            parts: Of each part.
            shares: What share of the minibatch's decisions each part has.
        """
        if len(parts) == 1:
            return parts[0]
        rows = torch.stack([part.row for part in parts])
        errors, means, totals, rest = rows.tensor_split([1, 1 + len(MEANS), len(SINGLE)], dim=1)
        samples, per_head = rest.view(len(parts), len(PER_HEAD), -1).tensor_split([1], dim=1)
        sums = (per_head.masked_fill(samples == 0, 0.0) * samples).sum(dim=0)
        count = samples.sum(dim=0)
        singles = [errors.amax(dim=0), (means * shares.unsqueeze(1)).sum(dim=0), totals.sum(dim=0)]
        return cls(torch.cat([*singles, count.flatten(), (sums / count).flatten()]))  # 0 / 0 where there are none


class MetricAccumulator:
    """Means of numbers over an update; they stay tensors until asked for, and what is not a number does not count."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, ...], list[Tensor]] = {}

    def __len__(self) -> int:
        """How many different groups of names there are."""
        return len(self._values)

    def add(self, name: str, value: Float[Tensor, ""]) -> None:
        """Take in one value."""
        self.add_each((name,), value.reshape(1))

    def add_each(self, names: Sequence[str], values: Float[Tensor, " names"]) -> None:
        """Take in a value for each of several names."""
        self._values.setdefault(tuple(names), []).append(values.detach())

    def latest(self, name: str) -> Float[Tensor, ""]:
        """The value that came last."""
        return self._values[(name,)][-1][0]

    def means(self) -> dict[str, float]:
        """Mean of every name that had a number."""
        if not self._values:
            return {}
        means = torch.cat([torch.stack(values).nanmean(dim=0) for values in self._values.values()]).tolist()
        names = [name for group in self._values for name in group]
        return {name: mean for name, mean in zip(names, means, strict=True) if mean == mean}
