"""Backend that stacks weights and evaluates all networks with batched matrix products, on any device."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from arena.policies.ensemble.frozen_layers import FrozenLayers, Step
from arena.policies.nn.actor_critic import OBSERVATION_CLIP, ActorCritic, NetworkOutput
from arena.policies.nn.architecture import Architecture
from arena.policies.nn.packed_runs import RecurrentState, reset_rows
from arena.policies.nn.pointer_head import head_parameters, head_rows
from arena.policies.nn.recurrent import lstm_cell
from arena.policies.nn.set_encoder import remaining_slices

CALL_OVERHEAD_ROWS = 64
"""Cost of one more matrix product on a CPU, expressed in rows of padding."""

DEVICE_CALL_OVERHEAD_ROWS = 2048
"""The same on a GPU. Estimated, not measured: five more launches of 5 us, and 10 ns for a row of 130,000 weights."""

WIDTH_STEP = 8
"""Rows per slot are padded to a multiple of this, which keeps the number of different shapes small."""


@dataclass(frozen=True)
class Segment:
    """Consecutive slots with equally many padded rows each."""

    slots: slice
    rows: slice

    def split(self, tensor: Float[Tensor, "padded n"]) -> Float[Tensor, "slots rows n"]:
        """Return a view of the segment's rows, slot by slot."""
        return tensor[self.rows].view(self.slots.stop - self.slots.start, -1, tensor.shape[1])

    def repeat_rows(self, each: int) -> "Segment":
        """Return the segment after every row has become `each` rows, one per set member."""
        return Segment(self.slots, slice(each * self.rows.start, each * self.rows.stop))


@dataclass(frozen=True)
class RowLayout:
    """Padded order in which the rows of every slot are contiguous.

    Attributes:
        source_row: Row at each padded position; padding repeats row 0.
        padded_row: Padded position of each row.
        segments: One segment of equally many rows per slot, then one for the excess of each crowded slot.
    """

    source_row: Int[Tensor, " padded"]
    padded_row: Int[Tensor, " R"]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, slot_of_row: Int[Tensor, " R"], slots: int, device: torch.device) -> "RowLayout":
        """Lay out rows by slot; `slot_of_row` is on the host."""
        counts = np.bincount(slot_of_row.numpy(), minlength=slots)
        # One crowded slot would pad all others to its size, so its excess gets a segment of its own.
        overhead = CALL_OVERHEAD_ROWS if device.type == "cpu" else DEVICE_CALL_OVERHEAD_ROWS
        width = _padded_width(counts, overhead)
        excess = (counts - width).clip(min=0)
        excess_end = slots * width + excess.cumsum()
        rows = sort_by_slot(slot_of_row).numpy()
        # The rank of a row within its slot, then its position: at the slot's own rows, or else among its excess.
        rank = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        positions = rank + np.repeat(np.arange(slots) * width, counts)
        if excess.any():
            behind = rank + np.repeat(excess_end - excess - width, counts)
            positions = np.where(rank < width, positions, behind)
        # Padding computes row 0 again; its results are never read.
        source_row = np.zeros(slots * width + excess.sum(), dtype=np.int64)
        source_row[positions] = rows
        padded_row = np.empty_like(rows)
        padded_row[rows] = positions
        segments = [Segment(slice(0, slots), slice(0, slots * width))] if width else []
        for crowded in np.flatnonzero(excess).tolist():
            end, size = int(excess_end[crowded]), int(excess[crowded])
            segments.append(Segment(slice(crowded, crowded + 1), slice(end - size, end)))
        return cls(torch.from_numpy(source_row).to(device), torch.from_numpy(padded_row).to(device), tuple(segments))

    def repeat_rows(self, each: int) -> "RowLayout":
        """Return the layout after every row has become `each` rows, one per set member."""
        return replace(self, segments=tuple(segment.repeat_rows(each) for segment in self.segments))


class TorchBackend:
    """Slots for networks of one architecture on one device."""

    def __init__(self, architecture: Architecture, slots: int, device: torch.device) -> None:
        shapes = FrozenLayers.shapes(architecture)
        self._device, self._recurrent = device, shapes.gates is not None
        self._sets, self._rest = architecture.sets, remaining_slices(architecture.observation_size, architecture.sets)
        self._parts = head_rows(architecture.heads, architecture.sets).values()
        self._rectified = [layer.norm is not None for layer in shapes.hidden]
        self._members_rectified = [layer.norm is not None for layer in shapes.members]
        self._stacks = [torch.zeros(slots, *tensor.shape, device=device) for tensor in _stacked_tensors(shapes)]

    @property
    def slots(self) -> int:
        """K."""
        return len(self._stacks[0])

    @property
    def size_bytes(self) -> int:
        """Memory of all slots, in bytes."""
        return sum(stack.nbytes for stack in self._stacks)

    @torch.inference_mode()
    def reserve(self, slots: int) -> None:
        """Grow to `slots` slots; existing slots keep their networks."""
        more = slots - self.slots
        self._stacks = [torch.cat([stack, stack.new_zeros(more, *stack.shape[1:])]) for stack in self._stacks]

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        for stack, tensor in zip(self._stacks, _stacked_tensors(FrozenLayers.of(network)), strict=True):
            stack[slot].copy_(tensor)

    def step_for(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """Return a step for rows in these slots."""
        return partial(self._step, RowLayout.of(slot_of_row, self.slots, self._device))

    def _step(
        self,
        row_layout: RowLayout,
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        layers = _Layers(self._stacks)
        before = reset_rows(state, episode_start)
        features, members = self._encode(row_layout, layers, values[row_layout.source_row])
        for rectified in self._rectified:
            features = layers.hidden(row_layout, features, rectified=rectified)
        placed = RecurrentState(*(part[row_layout.source_row] for part in before))
        if self._recurrent:
            placed = lstm_cell(layers.affine(row_layout, torch.cat([features, placed.hidden], dim=-1)), placed.cell)
            features = placed.hidden
        readout = layers.affine(row_layout, F.layer_norm(features, features.shape[-1:]))
        parameters = head_parameters(self._parts, readout[:, :-1], members) if members else readout[:, :-1]
        rows = active.unsqueeze(-1)
        after = (torch.where(rows, new[row_layout.padded_row], old) for new, old in zip(placed, before, strict=True))
        return NetworkOutput(
            parameters[row_layout.padded_row], readout[row_layout.padded_row, -1], RecurrentState(*after)
        )

    def _encode(
        self, row_layout: RowLayout, layers: "_Layers", observations: Float[Tensor, "padded D"]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the first hidden layer's input, and the encoded members of every set."""
        # Read before normalisation changes the mask's columns in place.
        present_mask = [layout.present_mask(observations) for layout in self._sets]
        layers.normalise(row_layout, observations)
        members = []
        for layout, own, rectified in zip(self._sets, present_mask, self._members_rectified, strict=True):
            rows = layout.rows(observations, own).flatten(0, 1)
            encoded = layers.hidden(row_layout.repeat_rows(layout.members), rows, rectified=rectified)
            members.append(encoded.view(len(observations), layout.members, layout.width))
        if not members:
            return observations, members
        summaries = [layout.summary(*each) for layout, *each in zip(self._sets, members, present_mask, strict=True)]
        return torch.cat([*(observations[:, columns] for columns in self._rest), *summaries], dim=-1), members


def sort_by_slot(slot_of_row: Int[Tensor, " R"]) -> Int[Tensor, " R"]:
    """Return the rows, on the host, in a stable order of their slots."""
    slots = slot_of_row.numpy()
    # NumPy sorts 16-bit numbers by radix, in an eighth of the time.
    small = slots.astype(np.int16) if len(slots) and slots.max() < 2**15 else slots
    return torch.from_numpy(np.argsort(small, kind="stable"))


def _padded_width(counts: NDArray[np.int64], call_overhead: int) -> int:
    """Return the padded rows per slot that minimise the cost of padding plus excess rows."""
    most = int(counts.max())
    widths = np.append([1, 2, 4], np.arange(WIDTH_STEP, most + WIDTH_STEP, WIDTH_STEP)) if most else np.array([0])
    # A narrow width pads little, but crowded slots then need a call of their own.
    excess = (counts - widths[:, np.newaxis]).clip(min=0)
    costs = len(counts) * widths + excess.sum(axis=1) + call_overhead * (excess > 0).sum(axis=1)
    return int(widths[costs.argmin()])


def _stacked_tensors(layers: FrozenLayers) -> list[Tensor]:
    """Tensors of one slot, shaped to broadcast over its rows: statistics, then each layer with weights (in, out)."""
    gates = [] if layers.gates is None else [layers.gates]
    parts = [layers.mean[None], layers.inverse_std[None]]
    for layer in (*layers.members, *layers.hidden, *gates, layers.readout):
        parts += [layer.weight.t(), layer.bias[None], *(each[None] for each in layer.norm or ())]
    return parts


class _Layers:
    """The stacked weights of all slots, consumed layer by layer in the order of `_stacked_tensors`."""

    def __init__(self, stacks: Iterable[Tensor]) -> None:
        self._following = iter(stacks)

    def normalise(self, row_layout: RowLayout, observations: Float[Tensor, "padded D"]) -> None:
        """Normalise and clip observations in columns."""
        mean, inverse_std = next(self._following), next(self._following)
        for segment in row_layout.segments:
            segment.split(observations).sub_(mean[segment.slots]).mul_(inverse_std[segment.slots])
        observations.clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def affine(self, row_layout: RowLayout, features: Float[Tensor, "padded in"]) -> Float[Tensor, "padded out"]:
        """Apply the next layer's weight (K, in, out) and bias (K, 1, out)."""
        weight, bias = next(self._following), next(self._following)
        product = features.new_empty(len(features), weight.shape[-1])
        for segment in row_layout.segments:
            slots = segment.slots
            # Written into views of one tensor, so that segments need no concatenation.
            torch.baddbmm(bias[slots], segment.split(features), weight[slots], out=segment.split(product))
        return product

    def hidden(self, row_layout: RowLayout, features: Tensor, *, rectified: bool) -> Tensor:
        """Apply the next layer, then tanh, or LayerNorm with scale and offset (K, 1, out) and ReLU."""
        product = self.affine(row_layout, features)
        if not rectified:
            return product.tanh_()
        scale, offset = next(self._following), next(self._following)
        normed = F.layer_norm(product, product.shape[-1:])
        for segment in row_layout.segments:
            segment.split(normed).mul_(scale[segment.slots]).add_(offset[segment.slots])
        return normed.relu_()
