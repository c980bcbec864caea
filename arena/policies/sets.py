"""Sets in an observation, read whatever their order.

One layer is shared by all members of a set. What it makes of them is pooled for the core, which therefore never learns
in which place a member stands.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from arena.environments.spec import EnvironmentSpec, MemberMask
from arena.errors import ArenaError
from arena.policies.encoder import EncoderKind, make_layers

MEMBER = 0.5
"""Entries of a mask above this say that a member is there."""


@dataclass(frozen=True)
class SetLayout:
    """Where a set lies in the flat observation.

    Attributes:
        members: M, the most that there can be.
        mask: Where the M entries begin that say who is there.
        blocks: Where each block of M rows begins, and the length of a row.
        heads: Heads whose last M options choose a member.
        width: E, features that the encoder makes of a member.
    """

    members: int
    mask: int
    blocks: tuple[tuple[int, int], ...]
    heads: tuple[str, ...]
    width: int

    @classmethod
    def all_of(cls, spec: EnvironmentSpec, width: int) -> tuple["SetLayout", ...]:
        """Every set that an environment declares.

        Raises:
            ArenaError: A set is described by a block that there is none of, or that has not a row for every member.
        """
        shapes = {block.name: block.shape for block in spec.observation}
        starts = {name: place.start for name, place in spec.layout.items()}
        for mask in spec.observation:
            for name in mask.describes if isinstance(mask, MemberMask) else ():
                if name not in shapes or shapes[name][:1] != mask.shape:
                    raise ArenaError(
                        f"{spec.name}: {mask.name} has {mask.size} members and is described by {name!r} of shape "
                        f"{shapes.get(name)}: name blocks of shape ({mask.size}, features)"
                    )
        return tuple(
            cls(
                members=mask.size,
                mask=starts[mask.name],
                blocks=tuple((starts[name], math.prod(shapes[name][1:])) for name in mask.describes),
                heads=mask.chosen_by,
                width=width,
            )
            for mask in spec.observation
            if isinstance(mask, MemberMask)
        )

    @property
    def features(self) -> int:
        """F: what is known of one member."""
        return sum(length for _, length in self.blocks)

    @property
    def summary_size(self) -> int:
        """Floats in the summary of the set."""
        return 2 * self.width + 1

    @property
    def places(self) -> list[slice]:
        """What the set takes up of the observation: its mask and its blocks."""
        blocks = [slice(start, start + self.members * length) for start, length in self.blocks]
        return [slice(self.mask, self.mask + self.members), *blocks]

    def there(self, values: Float[Tensor, "... D"]) -> Bool[Tensor, "... M 1"]:
        """Which places have a member, from an observation before normalisation."""
        return (values[..., self.mask : self.mask + self.members] > MEMBER).unsqueeze(-1)

    def rows(self, normalised: Float[Tensor, "... D"], there: Bool[Tensor, "... M 1"]) -> Float[Tensor, "... M F"]:
        """What is known of every member; 0 in empty places, whatever stands there."""
        shape = (*normalised.shape[:-1], self.members)
        blocks = [
            normalised[..., place].reshape(*shape, length)
            for place, (_, length) in zip(self.places[1:], self.blocks, strict=True)
        ]
        return torch.cat(blocks, dim=-1).where(there, 0.0)

    def summary(self, members: Float[Tensor, "... M E"], there: Bool[Tensor, "... M 1"]) -> Float[Tensor, "... S"]:
        """Largest and mean features over the members, and the share of places taken; all 0 of an empty set."""
        count = there.sum(dim=-2)
        largest = members.masked_fill(~there, -torch.inf).amax(dim=-2).masked_fill(count == 0, 0.0)
        mean = members.masked_fill(~there, 0.0).sum(dim=-2) / count.clamp(min=1)
        return torch.cat([largest, mean, count / self.members], dim=-1)


class SetEncoder(nn.Module):
    """A layer that all members share."""

    def __init__(self, kind: EncoderKind, layout: SetLayout) -> None:
        super().__init__()
        self._layout = layout
        self.layer = make_layers(kind, (layout.features, layout.width))

    def forward(
        self, values: Float[Tensor, "... D"], normalised: Float[Tensor, "... D"]
    ) -> tuple[Float[Tensor, "... M E"], Float[Tensor, "... S"]]:
        """Features of every member, and the summary of the set."""
        there = self._layout.there(values)
        members = self.layer(self._layout.rows(normalised, there))
        return members, self._layout.summary(members, there)


def known(values: Float[Tensor, "... D"], sets: Iterable[SetLayout]) -> Bool[Tensor, "... D"]:
    """What of an observation has a meaning: all but the empty places of sets."""
    meant = torch.ones_like(values, dtype=torch.bool)
    for layout in sets:
        there = layout.there(values)
        for place, (_, length) in zip(layout.places[1:], layout.blocks, strict=True):
            meant[..., place] = there.expand(*there.shape[:-1], length).flatten(-2)
    return meant


@runtime_checkable
class Placed(Protocol):
    """Something that takes up parts of an observation: a set, an image, choices."""

    @property
    def places(self) -> list[slice]:
        """Which parts."""
        ...


def outside(size: int, layouts: Iterable[Placed]) -> list[slice]:
    """What of an observation of `size` floats belongs to none of these.

    Raises:
        ArenaError: One of them does not lie inside the observation, or two share a place.
    """
    gaps, end = [], 0
    for place in sorted((place for layout in layouts for place in layout.places), key=lambda place: place.start):
        if not end <= place.start < place.stop <= size:
            raise ArenaError(
                f"a set, an image or choices take up [{place.start}, {place.stop}) of an observation of {size} floats: "
                "keep them inside it and apart"
            )
        gaps.append(slice(end, place.start))
        end = place.stop
    return [gap for gap in (*gaps, slice(end, size)) if gap.stop > gap.start]
