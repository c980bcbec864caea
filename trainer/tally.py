"""Figures of an update, gathered without waiting for any of them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


class Tally:
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
