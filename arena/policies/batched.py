"""Many policies' decisions as batched matrix products in torch, on any device."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.choices import actor_parts, choose
from arena.policies.cores import RecurrentState, reset_rows
from arena.policies.layers import FrozenLayers, Rectified, Step
from arena.policies.network import OBSERVATION_CLIP, ActorCritic, Architecture, NetworkOutput
from arena.policies.sets import outside

CALL_ROWS = 64
"""What a product of its own costs, in rows of padding."""

WIDTH_STEP = 8
"""Slots are padded to a multiple of this, so that there are few different shapes."""


@dataclass(frozen=True)
class Segment:
    """Neighbouring slots with equally many places each."""

    slots: slice
    places: slice

    def split(self, tensor: Float[Tensor, "places n"]) -> Float[Tensor, "slots rows n"]:
        """The segment's places, slot by slot."""
        return tensor[self.places].view(self.slots.stop - self.slots.start, -1, tensor.shape[1])

    def of_members(self, each: int) -> "Segment":
        """The same, where every place is one of as many members."""
        return Segment(self.slots, slice(each * self.places.start, each * self.places.stop))


@dataclass(frozen=True)
class Plan:
    """Places in which the rows of every slot lie together.

    Attributes:
        row_of_place: Row in every place; places that nobody needs repeat row 0.
        place_of_row: Place of every row.
        segments: All slots side by side, then, one by one, what crowded slots have over.
    """

    row_of_place: Int[Tensor, " places"]
    place_of_row: Int[Tensor, " R"]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, slot_of_row: Int[Tensor, " R"], slots: int, device: torch.device) -> "Plan":
        """Plan for rows that sit in these slots; these are known on the host."""
        counts = torch.bincount(slot_of_row, minlength=slots)
        width = _padded_width(counts)
        excess = (counts - width).clamp(min=0)
        excess_end = slots * width + excess.cumsum(0)
        rows = slot_of_row.argsort(stable=True)
        slot = slot_of_row[rows]
        rank = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[slot]
        places = torch.where(rank < width, slot * width, (excess_end - excess - width)[slot]) + rank
        total = slots * width + int(excess.sum())
        row_of_place = torch.zeros(total, dtype=torch.int64).scatter_(0, places, rows)
        place_of_row = torch.empty_like(rows).scatter_(0, rows, places)
        segments = [Segment(slice(0, slots), slice(0, slots * width))] if width else []
        for crowded in excess.nonzero().squeeze(1).tolist():
            end, size = int(excess_end[crowded]), int(excess[crowded])
            segments.append(Segment(slice(crowded, crowded + 1), slice(end - size, end)))
        return cls(row_of_place.to(device), place_of_row.to(device), tuple(segments))

    def of_members(self, each: int) -> "Plan":
        """The same segments over as many members of every place."""
        return replace(self, segments=tuple(segment.of_members(each) for segment in self.segments))


class BatchedNetworks:
    """Slots for networks of one architecture on one device."""

    def __init__(self, architecture: Architecture, slots: int, device: torch.device) -> None:
        shapes = FrozenLayers.shapes(architecture)
        self._device, self._recurrent = device, shapes.gates is not None
        self._sets, self._rest = architecture.sets, outside(architecture.observation_size, architecture.sets)
        self._parts = actor_parts(architecture.heads, architecture.sets).values()
        self._rectified = [isinstance(layer, Rectified) for layer in shapes.hidden]
        self._members_rectified = [isinstance(layer, Rectified) for layer in shapes.members]
        self._stacks = [torch.zeros(slots, *tensor.shape, device=device) for tensor in _stackable(shapes)]

    @property
    def slots(self) -> int:
        """K."""
        return len(self._stacks[0])

    @property
    def size_bytes(self) -> int:
        """Memory of all slots."""
        return sum(stack.nbytes for stack in self._stacks)

    @torch.inference_mode()
    def reserve(self, slots: int) -> None:
        """Have that many slots; those that there were keep their networks."""
        more = slots - self.slots
        self._stacks = [torch.cat([stack, stack.new_zeros(more, *stack.shape[1:])]) for stack in self._stacks]

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        for stack, tensor in zip(self._stacks, _stackable(FrozenLayers.of(network)), strict=True):
            stack[slot].copy_(tensor)

    def arrange(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """The step of rows that sit in these slots."""
        return partial(self._step, Plan.of(slot_of_row, self.slots, self._device))

    def _step(
        self,
        plan: Plan,
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        layers = _Layers(self._stacks)
        before = reset_rows(state, episode_start)
        features, members = self._encode(plan, layers, values[plan.row_of_place])
        for rectified in self._rectified:
            features = layers.hidden(plan, features, rectified=rectified)
        placed = RecurrentState(*(part[plan.row_of_place] for part in before))
        if self._recurrent:
            placed = _advance(layers.affine(plan, torch.cat([features, placed.hidden], dim=-1)), placed.cell)
            features = placed.hidden
        readout = layers.affine(plan, F.layer_norm(features, features.shape[-1:]))
        parameters = choose(self._parts, readout[:, :-1], members) if members else readout[:, :-1]
        rows = active.unsqueeze(-1)
        after = (torch.where(rows, new[plan.place_of_row], old) for new, old in zip(placed, before, strict=True))
        return NetworkOutput(parameters[plan.place_of_row], readout[plan.place_of_row, -1], RecurrentState(*after))

    def _encode(self, plan: Plan, layers: "_Layers", seen: Float[Tensor, "places D"]) -> tuple[Tensor, list[Tensor]]:
        """What the first hidden layer takes, and the features of the members of every set."""
        there = [layout.there(seen) for layout in self._sets]
        layers.normalise(plan, seen)
        members = []
        for layout, own, rectified in zip(self._sets, there, self._members_rectified, strict=True):
            rows = layout.rows(seen, own).flatten(0, 1)
            made = layers.hidden(plan.of_members(layout.members), rows, rectified=rectified)
            members.append(made.view(len(seen), layout.members, layout.width))
        if not members:
            return seen, members
        summaries = [layout.summary(*each) for layout, *each in zip(self._sets, members, there, strict=True)]
        return torch.cat([*(seen[:, place] for place in self._rest), *summaries], dim=-1), members


def _padded_width(counts: Int[Tensor, " slots"]) -> int:
    """Places of every slot for which padding and what is left over cost least together."""
    most = int(counts.max())
    widths = torch.tensor([1, 2, 4, *range(WIDTH_STEP, most + WIDTH_STEP, WIDTH_STEP)] if most else [0])
    excess = (counts - widths.unsqueeze(1)).clamp(min=0)
    costs = len(counts) * widths + excess.sum(dim=1) + CALL_ROWS * (excess > 0).sum(dim=1)
    return int(widths[costs.argmin()])


def _stackable(layers: FrozenLayers) -> list[Tensor]:
    """Tensors of one slot as they broadcast over its rows: statistics, then what each layer has, weights (in, out)."""
    gates = [] if layers.gates is None else [layers.gates]
    parts = [layers.mean[None], layers.inverse_std[None]]
    for layer in (*layers.members, *layers.hidden, *gates, layers.readout):
        parts += [layer.weight.t(), layer.bias[None]]
        parts += [layer.scale[None], layer.offset[None]] if isinstance(layer, Rectified) else []
    return parts


class _Layers:
    """The stacks of all slots, taken layer by layer in the order of `_stackable`, each on its own slot's places."""

    def __init__(self, stacks: Iterable[Tensor]) -> None:
        self._following = iter(stacks)

    def normalise(self, plan: Plan, seen: Float[Tensor, "places D"]) -> None:
        """Scale and clip observations where they are."""
        mean, inverse_std = next(self._following), next(self._following)
        for segment in plan.segments:
            segment.split(seen).sub_(mean[segment.slots]).mul_(inverse_std[segment.slots])
        seen.clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def affine(self, plan: Plan, features: Float[Tensor, "places in"]) -> Float[Tensor, "places out"]:
        """Weight (K, in, out) and bias (K, 1, out)."""
        weight, bias = next(self._following), next(self._following)
        product = features.new_empty(len(features), weight.shape[-1])
        for segment in plan.segments:
            slots = segment.slots
            torch.baddbmm(bias[slots], segment.split(features), weight[slots], out=segment.split(product))
        return product

    def hidden(self, plan: Plan, features: Tensor, *, rectified: bool) -> Tensor:
        """A tanh, or LayerNorm with scale and offset (K, 1, out) and ReLU, on top of that."""
        product = self.affine(plan, features)
        if not rectified:
            return product.tanh_()
        scale, offset = next(self._following), next(self._following)
        normed = F.layer_norm(product, product.shape[-1:])
        for segment in plan.segments:
            segment.split(normed).mul_(scale[segment.slots]).add_(offset[segment.slots])
        return normed.relu_()


def _advance(gates: Float[Tensor, "places gates"], cell: Float[Tensor, "places H"]) -> RecurrentState:
    """The LSTM cell."""
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
    return RecurrentState(torch.sigmoid(leave) * torch.tanh(cell), cell)
