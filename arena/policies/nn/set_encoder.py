"""Permutation-invariant encoder for sets in an observation (Deep Sets).

All members of a set share one layer. Its outputs are pooled by maximum and mean, so that the order of members does not
matter to the core.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from arena.environments.spec import EnvironmentSpec, MemberMask
from arena.errors import GameError
from arena.policies.nn.mlp import EncoderKind, make_layers

PRESENT_ABOVE = 0.5
"""A member is present if its mask entry is above this value."""


@dataclass(frozen=True)
class SetLayout:
    """Layout of a set in the flat observation. The field names are part of the checkpoint format.

    Attributes:
        members: M, the largest number of members.
        mask: Start of the M mask entries that mark present members.
        blocks: (start, row length) of each block of M rows.
        heads: Names of the heads whose last M options select a member.
        width: E, encoded features per member.
    """

    members: int
    mask: int
    blocks: tuple[tuple[int, int], ...]
    heads: tuple[str, ...]
    width: int

    @classmethod
    def from_spec(cls, spec: EnvironmentSpec, width: int) -> tuple["SetLayout", ...]:
        """Return the layout of every set that an environment declares.

        Raises:
            ArenaError: A mask refers to a block that does not exist, or that does not have one row per member.
        """
        shapes = {block.name: block.shape for block in spec.observation}
        starts = {name: columns.start for name, columns in spec.layout.items()}
        for mask in spec.observation:
            for name in mask.describes if isinstance(mask, MemberMask) else ():
                if name not in shapes or shapes[name][:1] != mask.shape:
                    raise GameError(
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
        """F, raw features per member."""
        return sum(length for _, length in self.blocks)

    @property
    def summary_size(self) -> int:
        """S, floats in the pooled summary."""
        return 2 * self.width + 1

    @property
    def slices(self) -> list[slice]:
        """Slices of the observation that the set occupies: its mask, then its blocks."""
        blocks = [slice(start, start + self.members * length) for start, length in self.blocks]
        return [slice(self.mask, self.mask + self.members), *blocks]

    def present_mask(self, values: Float[Tensor, "... D"]) -> Bool[Tensor, "... M 1"]:
        """Presence of every member, from an observation before normalisation."""
        return (values[..., self.mask : self.mask + self.members] > PRESENT_ABOVE).unsqueeze(-1)

    def rows(
        self, normalised: Float[Tensor, "... D"], present_mask: Bool[Tensor, "... M 1"]
    ) -> Float[Tensor, "... M F"]:
        """Return the features of every member; those of absent members are 0."""
        shape = (*normalised.shape[:-1], self.members)
        blocks = [
            normalised[..., columns].reshape(*shape, length)
            for columns, (_, length) in zip(self.slices[1:], self.blocks, strict=True)
        ]
        # `where` and not a product: 0 times infinity is NaN.
        return torch.cat(blocks, dim=-1).where(present_mask, 0.0)

    def summary(
        self, members: Float[Tensor, "... M E"], present_mask: Bool[Tensor, "... M 1"]
    ) -> Float[Tensor, "... S"]:
        """Pool members into their maximum, their mean and the fraction present; all 0 for an empty set."""
        count = present_mask.sum(dim=-2)
        # The maximum of no members is -inf, which becomes 0.
        largest = members.masked_fill(~present_mask, -torch.inf).amax(dim=-2).masked_fill(count == 0, 0.0)
        mean = members.masked_fill(~present_mask, 0.0).sum(dim=-2) / count.clamp(min=1)
        return torch.cat([largest, mean, count / self.members], dim=-1)


class SetEncoder(nn.Module):
    """One layer, shared by all members of a set."""

    def __init__(self, kind: EncoderKind, layout: SetLayout) -> None:
        super().__init__()
        self._layout = layout
        self.layer = make_layers(kind, (layout.features, layout.width))

    def forward(
        self, values: Float[Tensor, "... D"], normalised: Float[Tensor, "... D"]
    ) -> tuple[Float[Tensor, "... M E"], Float[Tensor, "... S"]]:
        """Return the encoded members and the pooled summary."""
        present_mask = self._layout.present_mask(values)
        members = self.layer(self._layout.rows(normalised, present_mask))
        return members, self._layout.summary(members, present_mask)


def observed_mask(values: Float[Tensor, "... D"], sets: Iterable[SetLayout]) -> Bool[Tensor, "... D"]:
    """Mask of the observation without the features of absent set members."""
    numeric_mask = torch.ones_like(values, dtype=torch.bool)
    for layout in sets:
        present_mask = layout.present_mask(values)
        for columns, (_, length) in zip(layout.slices[1:], layout.blocks, strict=True):
            numeric_mask[..., columns] = present_mask.expand(*present_mask.shape[:-1], length).flatten(-2)
    return numeric_mask


@runtime_checkable
class HasSlices(Protocol):
    """A layout that occupies slices of the observation: a set, an image or choices."""

    @property
    def slices(self) -> list[slice]:
        """Slices of the flat observation."""
        ...


def remaining_slices(size: int, layouts: Iterable[HasSlices]) -> list[slice]:
    """Return the slices of an observation of `size` floats that no layout occupies.

    Raises:
        ArenaError: A layout reaches outside the observation, or two layouts overlap.
    """
    gaps, end = [], 0
    for columns in sorted(
        (columns for layout in layouts for columns in layout.slices), key=lambda columns: columns.start
    ):
        if not end <= columns.start < columns.stop <= size:
            raise GameError(
                f"a set, an image or choices occupy [{columns.start}, {columns.stop}) of an observation of {size} "
                "floats: keep them inside it and apart"
            )
        gaps.append(slice(end, columns.start))
        end = columns.stop
    return [gap for gap in (*gaps, slice(end, size)) if gap.stop > gap.start]
