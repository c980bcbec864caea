"""Observations through the first layer of an encoder in native code, forward and back.

It is written out in C++ (`squash.h`): normalised, multiplied and squashed while they are in a core's caches. The
gradient of the weights is a product over all rows in torch.
"""

from enum import IntEnum
from typing import NamedTuple, no_type_check

import torch
from torch import Tensor

from arena.native import Call, openmp, require_memory, source, wp
from arena.policies.scan import room

FEWEST_ROWS = 256
"""Rows that are worth a thread."""

SIZES, POINTERS = 6, 14
"""Numbers and addresses of a call, as in `squash.h`."""


@wp.func_native(source("lanes.h", "panels.h", "squash.h"))
@no_type_check
def squash_rows(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `squash.h`."""


class Direction(IntEnum):
    """What a call is for, as in `squash.h`."""

    FORWARD = 0
    BACKWARD = 1


class Squashed(NamedTuple):
    """What rows leave behind on their way.

    Attributes:
        output: tanh of the layer (N, F).
        inputs: Normalised observations (N, D); with half precision in bfloat16, and rows of zeros behind them.
    """

    output: Tensor
    inputs: Tensor


class Returned(NamedTuple):
    """The loss's gradient on its way back.

    Attributes:
        sums: With respect to what tanh takes (as many rows as `Squashed.inputs` has, F), in its precision.
        of_bias: With respect to the bias: shares that add up to it (threads, F).
    """

    sums: Tensor
    of_bias: Tensor


def forward_call(
    seen: Tensor, mean: Tensor, std: Tensor, weight: Tensor, bias: Tensor, half: bool
) -> tuple[Call, Squashed]:
    """What takes rows through tanh(weight clip((seen - mean) / std) + bias); see `ActorCritic.normalise`.

    Args:
        seen: Observations (N, D).
        mean: (D).
        std: (D).
        weight: (F, D); 64 divides F.
        bias: (F).
        half: Multiply in bfloat16, see `scan.has_half`; D must be even then.

    Raises:
        ArenaError: Something has another shape or type than it must have.
    """
    (rows, width), outputs = seen.shape, len(bias)
    given = tuple(each.contiguous() for each in (seen, mean, std, weight, bias))
    shapes = ((rows, width), (width,), (width,), (outputs, width), (outputs,))
    require_memory(given, shapes, (torch.float32,) * len(given))
    seen, mean, std, weight, bias = given
    squashed = Squashed(seen.new_empty(rows, outputs), room(seen, rows, width, half))
    panels, none = torch.empty_like(weight), seen.new_empty(0)
    memory = (weight, panels, seen, mean, std, squashed.inputs, bias, squashed.output, none, none, none)
    return _call(Direction.FORWARD, squashed, memory), squashed


def backward_call(gradient: Tensor, squashed: Squashed) -> tuple[Call, Returned]:
    """What takes the loss's gradient with respect to the output back; none flows on to the observations."""
    (rows, outputs), half = squashed.output.shape, squashed.inputs.dtype is torch.bfloat16
    returned = Returned(room(gradient, rows, outputs, half), gradient.new_zeros(_parts(rows), outputs))
    none = gradient.new_empty(0)
    known = (none, none, none, none, none, squashed.inputs, none, squashed.output)
    memory = (*known, gradient.contiguous(), returned.sums, returned.of_bias)
    return _call(Direction.BACKWARD, squashed, memory), returned


def _parts(rows: int) -> int:
    return min(torch.get_num_threads(), max(1, rows // FEWEST_ROWS)) if openmp() else 1


def _call(direction: Direction, squashed: Squashed, memory: tuple[Tensor, ...]) -> Call:
    (rows, outputs), (_, inputs) = squashed.output.shape, squashed.inputs.shape
    half = squashed.inputs.dtype is torch.bfloat16
    return Call((direction, half, rows, inputs, outputs, _parts(rows)), memory, openmp() or (0, 0, 0))
