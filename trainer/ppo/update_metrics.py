"""Metrics of an update: one tensor per minibatch, averaged without waiting for the device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from jaxtyping import Bool, Float
from torch import Tensor

MEANS = ("approx_kl", "clipfrac", "ratio_deviation", "policy_loss", "value_loss", "normalized_entropy")
"""Means over all samples."""

TOTALS = ("ratio_alarms",)
"""Counts of samples."""

SINGLE = ("ratio_error", *MEANS, *TOTALS)
"""Metrics of the whole action, in the order of a row."""

PER_HEAD = ("samples", "approx_kl", "clipfrac", "entropy")
"""Metrics of each head, in the order of a row."""


@dataclass(frozen=True)
class MinibatchMetrics:
    """Metrics of a minibatch or micro-batch, without gradient.

    `ratio_error` is the largest |ratio - 1|. Before the first optimiser step it is rounding error, unless rollout and
    update disagree. `samples` counts the samples at which a head had a choice. The other metrics of a head are means
    over these, NaN if there are none.

    Attributes:
        row: The metrics of `SINGLE`, then those of `PER_HEAD`, each for all heads.
    """

    row: Float[Tensor, " metrics"]

    @classmethod
    def of(
        cls,
        ratio_error: Float[Tensor, ""],
        single: Mapping[str, Float[Tensor, " n"]],
        per_head: Mapping[str, Float[Tensor, "n heads"]],
        head_has_choice: Bool[Tensor, "n heads"],
    ) -> "MinibatchMetrics":
        """Reduce the metrics of n samples, by name, to a row.

        Args:
            ratio_error: The largest |ratio - 1|.
            single: Metrics of the whole action.
            per_head: Metrics of each head; those of a head without a choice are ignored.
            head_has_choice: Whether the head had a choice.
        """
        heads = torch.stack([per_head[name] for name in PER_HEAD[1:]], dim=1)
        heads = heads.masked_fill(~head_has_choice.unsqueeze(1), 0.0)
        columns = [single[name].unsqueeze(1) for name in (*MEANS, *TOTALS)]
        # All sums at once: on a device, a kernel for each metric would take longer than its arithmetic.
        sums = torch.cat([*columns, head_has_choice.to(heads.dtype), heads.flatten(1)], dim=1).sum(dim=0)
        counts = [len(MEANS), len(TOTALS), head_has_choice.shape[1]]
        means, totals, samples, head_sums = torch.split(sums, [*counts, len(sums) - sum(counts)])
        # 0 / 0 is NaN: a head without samples.
        head_means = head_sums.view(-1, len(samples)) / samples
        row = [ratio_error.reshape(1), means / len(head_has_choice), totals, samples, head_means.flatten()]
        return cls(torch.cat(row))

    @staticmethod
    def size(heads: int) -> int:
        """Return the length of a row."""
        return len(SINGLE) + len(PER_HEAD) * heads

    @staticmethod
    def names(heads: Sequence[str]) -> list[str]:
        """Return the logged names of a row's metrics, given the names of the heads."""
        return [f"losses/{name}" for name in SINGLE] + [f"heads/{head}/{name}" for name in PER_HEAD for head in heads]

    def single(self, name: str) -> Float[Tensor, ""]:
        """Return a metric of the whole action."""
        return self.row[SINGLE.index(name)]

    def per_head(self, name: str) -> Float[Tensor, " heads"]:
        """Return a metric of all heads."""
        return self.row[len(SINGLE) :].view(len(PER_HEAD), -1)[PER_HEAD.index(name)]

    @classmethod
    def combine(cls, parts: "Sequence[MinibatchMetrics]", shares: Sequence[float]) -> "MinibatchMetrics":
        """Combine the metrics of micro-batches into those of their minibatch.

        Args:
            parts: Metrics of each micro-batch.
            shares: Share of each micro-batch in the minibatch's samples.
        """
        if len(parts) == 1:
            return parts[0]
        rows = torch.stack([part.row for part in parts])
        errors, means, totals, rest = rows.tensor_split([1, 1 + len(MEANS), len(SINGLE)], dim=1)
        samples, per_head = rest.view(len(parts), len(PER_HEAD), -1).tensor_split([1], dim=1)
        sums = (per_head.masked_fill(samples == 0, 0.0) * samples).sum(dim=0)
        count = samples.sum(dim=0)
        singles = [errors.amax(dim=0), weighted_sum(means.unbind(), shares), totals.sum(dim=0)]
        return cls(torch.cat([*singles, count.flatten(), (sums / count).flatten()]))  # 0 / 0 is NaN: no samples


def weighted_sum(values: Sequence[Float[Tensor, "..."]], weights: Sequence[float]) -> Float[Tensor, "..."]:
    """Sum of tensors with weights of the host; a single tensor has the weight 1."""
    if len(values) == 1:
        return values[0]
    return torch.stack([value * weight for value, weight in zip(values, weights, strict=True)]).sum(dim=0)


class MetricAccumulator:
    """Means of metrics over an update, NaN excluded; values stay on their device until `means`."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, ...], list[Tensor]] = {}
        self._numbers: dict[str, list[float]] = {}

    def __len__(self) -> int:
        """Return the number of different groups of names."""
        return len(self._values)

    def add(self, name: str, value: Float[Tensor, ""]) -> None:
        """Add a value of one metric."""
        self.add_each((name,), value.reshape(1))

    def add_each(self, names: Sequence[str], values: Float[Tensor, " names"]) -> None:
        """Add a value of each of several metrics, detached from its graph."""
        self._values.setdefault(tuple(names), []).append(values.detach())

    def add_number(self, name: str, value: float) -> None:
        """Add a value of one metric that the host knows already."""
        self._numbers.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        """Return the mean of each metric that had a value other than NaN."""
        # On the host: on a device, every group of names would take several operations. One transfer for all.
        tables = [torch.stack(values) for values in self._values.values()]
        read = iter(torch.cat([table.flatten() for table in tables]).tolist() if tables else ())
        columns = dict(self._numbers)
        for names, table in zip(self._values, tables, strict=True):
            for name in names * len(table):
                columns.setdefault(name, []).append(next(read))
        present = {name: [value for value in values if value == value] for name, values in columns.items()}
        return {name: fmean(values) for name, values in present.items() if values}
