"""Embedding encoder for categorical entries of an observation."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.environments.spec import ChoiceBlock, EnvironmentSpec


@dataclass(frozen=True)
class EmbeddingLayout:
    """Layout of categorical entries in the flat observation. The field names are part of the checkpoint format.

    Attributes:
        start: Index of the first entry.
        options: Number of categories of each entry.
        width: Embedding size.
    """

    start: int
    options: tuple[int, ...]
    width: int

    @classmethod
    def from_spec(cls, spec: EnvironmentSpec, width: int) -> tuple["EmbeddingLayout", ...]:
        """Return the layout of every block of choices that an environment declares."""
        return tuple(
            cls(start=spec.layout[block.name].start, options=block.options, width=width)
            for block in spec.observation
            if isinstance(block, ChoiceBlock)
        )

    @property
    def slices(self) -> list[slice]:
        """Slices of the observation that the entries occupy."""
        return [slice(self.start, self.start + len(self.options))]

    @property
    def features(self) -> int:
        """Number of features of all entries together."""
        return len(self.options) * self.width


class EmbeddingEncoder(nn.Module):
    """An embedding table with rows for the categories of every entry; out-of-range values are clamped."""

    first: Tensor
    last: Tensor

    def __init__(self, layout: EmbeddingLayout) -> None:
        super().__init__()
        self._layout = layout
        ends = list(itertools.accumulate(layout.options))
        self.table = nn.Embedding(ends[-1], layout.width)
        self.register_buffer("first", torch.tensor([0, *ends[:-1]]))
        self.register_buffer("last", torch.tensor(layout.options) - 1)

    def forward(self, values: Float[Tensor, "R D"]) -> Float[Tensor, "R features"]:
        """Return the embeddings of every row's entries, from observations before normalisation."""
        named = values[:, self._layout.slices[0]].long().clamp(min=0).minimum(self.last)
        return torch.flatten(self.table(self.first + named), 1)
