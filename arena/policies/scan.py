"""An LSTM over runs of decisions in native code: nothing is padded, and gates pass through memory once.

The recurrence is written out in C++ (`scan.h`), which Warp compiles for the processor at hand at its first use.
Gradients of weights and features, which do not depend on time, are single products over all decisions in torch.
"""

import bisect
import functools
import itertools
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from arena.errors import ArenaError
from arena.native import Launch, openmp, require_memory, source, wp
from arena.policies.cores import SCANNED_UNITS

LANES, PANEL = 16, SCANNED_UNITS
"""Units of a vector and columns of a panel, as in `scan.h`."""

ROWS = 64
"""Products are made of multiples of so many decisions."""

FEWEST_RUNS = 24
"""Runs that are worth a thread."""

SIZES, POINTERS = 6, 14
"""Numbers and addresses of a call, as in `scan.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("lanes.h", "scan.h"))
@no_type_check
def scan_runs(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `scan.h`."""


@wp.kernel
@no_type_check
def scan_all(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """All runs go through time."""
    scan_runs(sizes, addresses)


class Direction(IntEnum):
    """What a call is for, as in `scan.h`."""

    FORWARD = 0
    BACKWARD = 1
    ASK = 2


@functools.cache
def has_half() -> bool:
    """Whether this machine's processor multiplies bfloat16; the number of inputs must be even then."""
    return bool(_launcher()((Direction.ASK, *[0] * (SIZES - 1)), [0] * POINTERS)[0])


@torch.library.custom_op("arena::scan", mutates_args=())
def scan(
    features: Tensor,
    hidden: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    first: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Take S runs through an LSTM.

    Args:
        features: Inputs (N, F), step by step; see `cores.Runs`. In bfloat16, all factors are: see `has_half`.
        hidden: State (S, H) before each run. No gradient flows back beyond it.
        cell: The same.
        weight_ih: (4H, F), as in `nn.LSTM`.
        weight_hh: (4H, H), as in `nn.LSTM`.
        bias: (4H); the sum of its two.
        first: (L + 1); see `cores.Runs`.

    Returns:
        Hidden state after each decision (N, H); then, for the gradient: what the gates let through (N, 4H), the cell
        after each decision (N, H), features and hidden state before it (N and some rows of zeros, F + H).
    """
    (decisions, width), units = features.shape, hidden.shape[1]
    opened = _require(decisions, first, (hidden, cell, weight_ih, weight_hh, bias), width)
    inputs = features.new_empty(_filled_up(decisions), width + units)
    inputs[:decisions, :width], inputs[:opened, width:] = features, hidden[:opened]
    inputs[decisions:] = 0.0
    gates, cells, output = (bias.new_empty(decisions, columns * units) for columns in (4, 1, 1))
    half, bias = features.dtype is torch.bfloat16, _side_by_side(bias)
    weights = _panels(_side_by_side(torch.cat([weight_ih, weight_hh], dim=1)), half)
    none = first.new_empty(0)
    tensors = (weights, gates, inputs, cells, cell.contiguous(), output, none, none, bias)
    _run(Direction.FORWARD, first, tensors, half=half, units=units, inputs=width + units)
    return output, gates, cells, inputs


@torch.library.custom_op("arena::scan_backward", mutates_args=())
def scan_backward(
    gradient: Tensor,
    gates: Tensor,
    cells: Tensor,
    inputs: Tensor,
    cell: Tensor,
    weight_hh: Tensor,
    first: Tensor,
) -> Tensor:
    """The loss's gradient with respect to the sums in the gates, given that with respect to the output.

    Returns:
        (N and as many rows of zeros as `inputs` has, 4H), in its precision.
    """
    units, half = cell.shape[1], inputs.dtype is torch.bfloat16
    weights = _panels(_side_by_side(weight_hh).t(), half)
    into, carried = inputs.new_empty(len(inputs), 4 * units), cell.new_zeros(len(cell), 2 * units)
    into[len(gates) :] = 0.0
    none = first.new_empty(0)
    tensors = (weights, gates, inputs, cells, cell.contiguous(), gradient.contiguous(), into, carried, none)
    _run(Direction.BACKWARD, first, tensors, half=half, units=units, inputs=inputs.shape[1])
    return into


@scan.register_fake
def _(features: Tensor, hidden: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (decisions, width), units = features.shape, hidden.shape[1]
    output, gates, cells = (hidden.new_empty(decisions, columns * units) for columns in (1, 4, 1))
    return output, gates, cells, features.new_empty(_filled_up(decisions), width + units)


@scan_backward.register_fake
def _(gradient: Tensor, gates: Tensor, cells: Tensor, inputs: Tensor, cell: Tensor, *_: Tensor) -> Tensor:
    return inputs.new_empty(inputs.shape[0], 4 * cell.shape[1])


def _filled_up(decisions: int) -> int:
    """Rows of what is multiplied when `decisions` are; few different numbers of rows are few products to compile."""
    return -(-decisions // ROWS) * ROWS


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401  torch's own
    _, _, cell, weight_ih, weight_hh, _, first = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(cell, weight_ih, weight_hh, first, *output[1:])


def _backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:  # noqa: ANN401  torch's own
    cell, weight_ih, weight_hh, first, gates, cells, inputs = ctx.saved_tensors
    sums = torch.ops.arena.scan_backward(gradient, gates, cells, inputs, cell, weight_hh, first)
    of_features = (sums @ _side_by_side(weight_ih).to(sums.dtype))[: len(gates)] if ctx.needs_input_grad[0] else None
    of_both = _in_torchs_order((sums.t() @ inputs).float())
    of_weights = torch.split(of_both, [weight_ih.shape[1], weight_hh.shape[1]], dim=1)
    return of_features, None, None, *of_weights, _in_torchs_order(sums.sum(dim=0, dtype=torch.float32)), None


scan.register_autograd(_backward, setup_context=_remember)


@functools.cache
def _launcher() -> Launch:
    return Launch(scan_all, SIZES, POINTERS)


def _require(decisions: int, first: Tensor, tensors: tuple[Tensor, ...], inputs: int) -> int:
    """Refuse what does not fit `decisions` of the runs that begin at `first`; how many of these have any."""
    runs, units = tensors[0].shape
    shapes = ((runs, units), (runs, units), (4 * units, inputs), (4 * units, units), (4 * units,))
    require_memory((*tensors, first), (*shapes, (len(first),)), (torch.float32,) * 5 + (torch.int32,))
    opened, made = int(first[1]), int(first[-1])
    if opened > runs or made != decisions:
        raise ArenaError(f"{made} decisions of {opened} runs do not fit {decisions} inputs and {runs} states")
    return opened


def _run(
    direction: Direction, first: Tensor, tensors: tuple[Tensor, ...], *, half: bool, units: int, inputs: int
) -> None:
    starts, team = first.tolist(), openmp()
    parts = min(torch.get_num_threads(), max(1, starts[1] // FEWEST_RUNS)) if team else 1
    parted = torch.tensor(bounds(starts, parts), dtype=torch.int32)
    setting = (direction, half, units, inputs, len(starts) - 1, parts)
    _launcher()(setting, [*(tensor.data_ptr() for tensor in (first, *tensors, parted)), *(team or (0, 0, 0))])


def bounds(starts: Sequence[int], parts: int) -> list[int]:
    """Runs at which to part them, so that every part has about as many decisions."""
    counts = [end - begin for begin, end in itertools.pairwise(starts)]
    within = range(counts[0] + 1)
    return [
        bisect.bisect_left(within, starts[-1] * part // parts, key=lambda run: sum(min(run, each) for each in counts))
        for part in range(parts + 1)
    ]


def _panels(weights: Float[Tensor, "outputs inputs"], half: bool) -> Tensor:
    """Weights in panels of 64 outputs, a row for every input; with half precision, for every two of them."""
    inputs = weights.shape[1]
    panels = weights.reshape(-1, PANEL, inputs).transpose(1, 2)
    if half:
        panels = panels.reshape(-1, inputs // 2, 2, PANEL).transpose(2, 3).bfloat16()
    return panels.contiguous()


def _side_by_side(gates: Float[Tensor, "gates ..."]) -> Float[Tensor, "gates ..."]:
    """The four gates of 16 units next to each other."""
    return gates.view(4, -1, LANES, *gates.shape[1:]).transpose(0, 1).reshape(gates.shape)


def _in_torchs_order(gates: Float[Tensor, "gates ..."]) -> Float[Tensor, "gates ..."]:
    """The contrary of `_side_by_side`."""
    return gates.view(-1, 4, LANES, *gates.shape[1:]).transpose(0, 1).reshape(gates.shape)
