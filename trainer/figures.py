"""What the decisions of a minibatch leave behind beside their loss: a row of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

MEANS = ("approx_kl", "clipfrac", "ratio_deviation", "policy_loss", "value_loss", "entropy")
"""Means over all decisions."""

TOTALS = ("ratio_alarms",)
"""Numbers of decisions."""

SINGLE = ("ratio_error", *MEANS, *TOTALS)
"""All that there is one of, in the order of a row."""

OF_HEADS = ("samples", "approx_kl", "clipfrac", "entropy")
"""All that there is one of for each head, in the order of a row."""


@dataclass(frozen=True)
class Figures:
    """Figures of some decisions, without gradient.

    `ratio_error` is the largest |ratio - 1|: under the weights that acted it says how well the update sees what the
    rollout did, 0 but for rounding. `samples` are the decisions at which a head had something to decide, and a head's
    other figures are means over these, NaN where there are none.

    Attributes:
        row: Those of `SINGLE`, then those of `OF_HEADS`, each for all heads.
    """

    row: Float[Tensor, " figures"]

    @classmethod
    def of(cls, single: Mapping[str, Float[Tensor, ""]], of_heads: Mapping[str, Float[Tensor, " heads"]]) -> "Figures":
        """A row of figures that are known by their names."""
        alone = torch.stack([single[name] for name in SINGLE])
        return cls(torch.cat([alone, *(of_heads[name] for name in OF_HEADS)]))

    @staticmethod
    def size(heads: int) -> int:
        """How many numbers a row has."""
        return len(SINGLE) + len(OF_HEADS) * heads

    @staticmethod
    def names(heads: Sequence[str]) -> list[str]:
        """What the numbers of a row are called in metrics, where the heads are called that."""
        return [f"losses/{name}" for name in SINGLE] + [f"heads/{head}/{name}" for name in OF_HEADS for head in heads]

    def single(self, name: str) -> Float[Tensor, ""]:
        """One of `SINGLE`."""
        return self.row[SINGLE.index(name)]

    def of_heads(self, name: str) -> Float[Tensor, " heads"]:
        """One of `OF_HEADS`."""
        return self.row[len(SINGLE) :].view(len(OF_HEADS), -1)[OF_HEADS.index(name)]

    @classmethod
    def merged(cls, parts: "Sequence[Figures]", shares: Float[Tensor, " parts"]) -> "Figures":
        """What figures of the parts of a minibatch say of all of it.

        Args:
            parts: Of each part.
            shares: What share of the minibatch's decisions each part has.
        """
        if len(parts) == 1:
            return parts[0]
        rows = torch.stack([part.row for part in parts])
        errors, means, totals, rest = rows.tensor_split([1, 1 + len(MEANS), len(SINGLE)], dim=1)
        samples, of_heads = rest.view(len(parts), len(OF_HEADS), -1).tensor_split([1], dim=1)
        sums = (of_heads.masked_fill(samples == 0, 0.0) * samples).sum(dim=0)
        count = samples.sum(dim=0)
        singles = [errors.amax(dim=0), (means * shares.unsqueeze(1)).sum(dim=0), totals.sum(dim=0)]
        return cls(torch.cat([*singles, count.flatten(), (sums / count).flatten()]))  # 0 / 0 where there are none
