"""Many policies' decisions as batched matrix products in torch, on any device."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies.cores import RecurrentState, reset_rows
from arena.policies.layers import FrozenLayers, Rectified, Step
from arena.policies.network import OBSERVATION_CLIP, ActorCritic, Architecture, NetworkOutput

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


class BatchedNetworks:
    """Slots for networks of one architecture on one device."""

    def __init__(self, architecture: Architecture, slots: int, device: torch.device) -> None:
        shapes = FrozenLayers.shapes(architecture)
        self._device, self._recurrent = device, shapes.gates is not None
        self._rectified = [isinstance(layer, Rectified) for layer in shapes.hidden]
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
        mean, inverse_std, *layers = self._stacks
        following = iter(layers)

        def next_layer(features: Tensor) -> Tensor:
            return _multiply(plan, next(following), next(following), features)

        before = reset_rows(state, episode_start)
        features = values[plan.row_of_place]
        for segment in plan.segments:
            segment.split(features).sub_(mean[segment.slots]).mul_(inverse_std[segment.slots])
        features.clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)
        for rectified in self._rectified:
            features = next_layer(features)
            features = _rectify(plan, next(following), next(following), features) if rectified else features.tanh_()
        placed = RecurrentState(*(part[plan.row_of_place] for part in before))
        if self._recurrent:
            placed = _advance(next_layer(torch.cat([features, placed.hidden], dim=-1)), placed.cell)
            features = placed.hidden
        readout = next_layer(F.layer_norm(features, features.shape[-1:]))[plan.place_of_row]
        rows = active.unsqueeze(-1)
        after = (torch.where(rows, new[plan.place_of_row], old) for new, old in zip(placed, before, strict=True))
        return NetworkOutput(readout[:, :-1], readout[:, -1], RecurrentState(*after))


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
    for layer in (*layers.hidden, *gates, layers.readout):
        parts += [layer.weight.t(), layer.bias[None]]
        parts += [layer.scale[None], layer.offset[None]] if isinstance(layer, Rectified) else []
    return parts


def _multiply(plan: Plan, weight: Tensor, bias: Tensor, features: Tensor) -> Tensor:
    """Every slot's layer, weight (K, in, out) and bias (K, 1, out), on its own places."""
    product = features.new_empty(len(features), weight.shape[-1])
    for segment in plan.segments:
        slots = segment.slots
        torch.baddbmm(bias[slots], segment.split(features), weight[slots], out=segment.split(product))
    return product


def _rectify(plan: Plan, scale: Tensor, offset: Tensor, features: Tensor) -> Tensor:
    """LayerNorm with every slot's scale and offset (K, 1, H), then ReLU."""
    normed = F.layer_norm(features, features.shape[-1:])
    for segment in plan.segments:
        segment.split(normed).mul_(scale[segment.slots]).add_(offset[segment.slots])
    return normed.relu_()


def _advance(gates: Float[Tensor, "places gates"], cell: Float[Tensor, "places H"]) -> RecurrentState:
    """The LSTM cell."""
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
    return RecurrentState(torch.sigmoid(leave) * torch.tanh(cell), cell)
