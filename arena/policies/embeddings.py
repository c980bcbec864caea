"""Choices in an observation that name one of many things, each thing with features of its own to be learned."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.environments.spec import ChoiceBlock, EnvironmentSpec


@dataclass(frozen=True)
class EmbeddingLayout:
    """Where choices lie in the flat observation, and how they are read.

    Attributes:
        start: Place of the first.
        options: How many things each of them may name.
        width: Features of a thing.
    """

    start: int
    options: tuple[int, ...]
    width: int

    @classmethod
    def all_of(cls, spec: EnvironmentSpec, width: int) -> tuple["EmbeddingLayout", ...]:
        """Every block of choices that an environment declares."""
        return tuple(
            cls(start=spec.layout[block.name].start, options=block.options, width=width)
            for block in spec.observation
            if isinstance(block, ChoiceBlock)
        )

    @property
    def places(self) -> list[slice]:
        """What they take up of the observation."""
        return [slice(self.start, self.start + len(self.options))]

    @property
    def features(self) -> int:
        """Features of all of them."""
        return len(self.options) * self.width


class EmbeddingEncoder(nn.Module):
    """A row of features for everything that a choice may name. What no choice may say is taken as the nearest."""

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
        """Features of what every row names, from observations before normalisation."""
        named = values[:, self._layout.places[0]].long().clamp(min=0).minimum(self.last)
        return torch.flatten(self.table(self.first + named), 1)
