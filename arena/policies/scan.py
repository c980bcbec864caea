"""An LSTM over runs of decisions in native code: nothing is padded, and gates pass through memory once.

The recurrence is written out in C++ (`scan.h`), which Warp compiles for the processor at hand at its first use.
Gradients of weights, which do not depend on time, are a single product over all decisions in torch.
"""

import bisect
import functools
import itertools
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, no_type_check

import torch
from torch import Tensor

from arena.errors import ArenaError
from arena.native import Call, Launch, openmp, require_memory, source, wp
from arena.policies.cores import SCANNED_UNITS

PANEL = SCANNED_UNITS
"""Columns of a panel, as in `panels.h`."""

ROWS = 64
"""Products in half precision are made of multiples of so many decisions: each number of them is compiled once."""

FEWEST_RUNS = 24
"""Runs that are worth a thread."""

SIZES, POINTERS = 7, 20
"""Numbers and addresses of a call, as in `scan.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("lanes.h", "panels.h", "scan.h"))
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


class Passed(NamedTuple):
    """What runs leave behind on their way.

    Attributes:
        output: Hidden state after each decision (N, H).
        gates: What the gates let through (N, 4H).
        cells: Cell after each decision (N, H).
        inputs: Features and hidden state before each decision (N, F + H); with half precision in bfloat16, and rows of
            zeros behind them.
    """

    output: Tensor
    gates: Tensor
    cells: Tensor
    inputs: Tensor


class Returned(NamedTuple):
    """The loss's gradient on its way back.

    Attributes:
        sums: With respect to the sums in the gates (as many rows as `Passed.inputs` has, 4H), in its precision.
        of_features: With respect to the features (N, F filled up to a multiple of 64), without columns unless wanted.
        of_bias: With respect to the bias: shares that add up to it (threads, 4H).
    """

    sums: Tensor
    of_features: Tensor
    of_bias: Tensor


def forward_call(
    features: Tensor,
    hidden: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    first: Tensor,
    half: bool,
) -> tuple[Call, Passed]:
    """What takes S runs through an LSTM; what comes of it is there once that has run.

    Args:
        features: Inputs (N, F), step by step; see `cores.Runs`.
        hidden: State (S, H) before each run. No gradient flows back beyond it.
        cell: The same.
        weight_ih: (4H, F), as in `nn.LSTM`.
        weight_hh: (4H, H), as in `nn.LSTM`.
        bias: (4H); the sum of its two.
        first: (L + 1); see `cores.Runs`.
        half: Multiply in bfloat16; see `has_half`.

    Raises:
        ArenaError: Something has another shape or type than it must have.
    """
    (decisions, width), units = features.shape, hidden.shape[1]
    _require(features, first, hidden, cell, weight_ih, weight_hh, bias)
    inputs = room(bias, decisions, width + units, half)
    gates, cells, output = (bias.new_empty(decisions, columns * units) for columns in (4, 1, 1))
    none = bias.new_empty(0)
    given = (each.contiguous() for each in (features, hidden, cell))
    tensors = (gates, inputs, cells, *given, output, bias.contiguous(), none, none, none, none)
    call = _call(Direction.FORWARD, first, (weight_ih, weight_hh), tensors, half=half, to_features=False)
    return call, Passed(output, gates, cells, inputs)


def backward_call(
    gradient: Tensor,
    passed: Passed,
    cell: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    first: Tensor,
    to_features: bool,
    in_place: bool,
) -> tuple[Call, Returned]:
    """What takes the loss's gradient with respect to the output back through all runs.

    With `in_place` that of the gates' sums may take the memory of the gates, which are gone then.
    """
    (decisions, units), width = passed.cells.shape, weight_ih.shape[1]
    half, columns = passed.inputs.dtype is torch.bfloat16, filled_up(width, PANEL) if to_features else 0
    sums = passed.gates if in_place and not half else room(cell, decisions, 4 * units, half)
    carried, of_features = cell.new_zeros(len(cell), 2 * units), cell.new_empty(decisions, columns)
    of_bias = cell.new_zeros(torch.get_num_threads(), 4 * units)
    none = cell.new_empty(0)
    given = (passed.gates, passed.inputs, passed.cells, none, none, cell.contiguous(), gradient.contiguous(), none)
    tensors = (*given, sums, carried, of_features, of_bias)
    call = _call(Direction.BACKWARD, first, (weight_ih, weight_hh), tensors, half=half, to_features=to_features)
    return call, Returned(sums, of_features, of_bias)


def _forward(
    features: Tensor,
    hidden: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor,
    first: Tensor,
    half: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Take S runs through an LSTM: see `forward_call` and `Passed`."""
    call, passed = forward_call(features, hidden, cell, weight_ih, weight_hh, bias, first, half)
    _launcher()(call.sizes, call.addresses)
    return passed.output, passed.gates, passed.cells, passed.inputs


def _pull_back(
    gradient: Tensor,
    gates: Tensor,
    cells: Tensor,
    inputs: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    first: Tensor,
    to_features: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the loss's gradient back: see `backward_call` and `Returned`, but that shares of the bias are summed."""
    passed = Passed(gradient, gates, cells, inputs)
    call, returned = backward_call(gradient, passed, cell, weight_ih, weight_hh, first, to_features, in_place=False)
    _launcher()(call.sizes, call.addresses)
    return returned.sums, returned.of_features, returned.of_bias.sum(dim=0)


scan = torch.library.custom_op("arena::scan", _forward, mutates_args=())
scan_backward = torch.library.custom_op("arena::scan_backward", _pull_back, mutates_args=())


@scan.register_fake
def _(
    features: Tensor,
    hidden: Tensor,
    *rest: Any,  # noqa: ANN401  torch's own
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (decisions, width), units = features.shape, hidden.shape[1]
    output, gates, cells = (hidden.new_empty(decisions, columns * units) for columns in (1, 4, 1))
    return output, gates, cells, _unfilled(features, decisions, width + units, half=rest[-1])


@scan_backward.register_fake
def _(
    gradient: Tensor,
    gates: Tensor,
    cells: Tensor,
    inputs: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    *rest: Any,  # noqa: ANN401  torch's own
) -> tuple[Tensor, Tensor, Tensor]:
    columns = filled_up(weight_ih.shape[1], PANEL) if rest[-1] else 0
    sums = inputs.new_empty(inputs.shape[0], gates.shape[1])
    return sums, cell.new_empty(cells.shape[0], columns), cell.new_empty(gates.shape[1])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401  torch's own
    _, _, cell, weight_ih, weight_hh, _, first, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(cell, weight_ih, weight_hh, first, *output[1:])


def _backward_by(pull_back: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> Callable[..., tuple[Tensor | None, ...]]:
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:  # noqa: ANN401  torch's own
        cell, weight_ih, weight_hh, first, gates, cells, inputs = ctx.saved_tensors
        wanted, width = ctx.needs_input_grad[0], weight_ih.shape[1]
        sums, of_features, of_bias = pull_back(
            gradient, gates, cells, inputs, cell, weight_ih, weight_hh, first, wanted
        )
        of_weights = torch.split((sums.t() @ inputs).float(), [width, cell.shape[1]], dim=1)
        return of_features[:, :width] if wanted else None, None, None, *of_weights, of_bias, None, None

    return backward


scan.register_autograd(_backward_by(torch.ops.arena.scan_backward), setup_context=_remember)


class _Scan(torch.autograd.Function):
    """The operator without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, ...]:  # noqa: ANN401  torch's own
        output = _forward(*given)
        _remember(ctx, given, output)
        return output

    backward = staticmethod(_backward_by(_pull_back))


def take(*given: Any) -> Tensor:  # noqa: ANN401  see `_forward`
    """The hidden state after each decision of runs; for arguments see `_forward`.

    Compiled, it is an operator that torch does not look into. Else it goes without the dispatcher, which takes longer
    over it than some ten small operations last.
    """
    apply: Any = torch.ops.arena.scan if torch.compiler.is_compiling() else _Scan.apply
    output: Tensor = apply(*given)[0]
    return output


@functools.cache
def _launcher() -> Launch:
    return Launch(scan_all, SIZES, POINTERS)


def _require(features: Tensor, first: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> None:
    """Refuse what does not fit the features of the runs that begin at `first`."""
    (runs, units), (decisions, width) = hidden.shape, features.shape
    shapes = ((decisions, width), (runs, units), (runs, units), (4 * units, width), (4 * units, units), (4 * units,))
    tensors = (features, hidden, cell, *weights)
    require_memory((*tensors, first), (*shapes, (len(first),)), (torch.float32,) * 6 + (torch.int32,))
    starts = first.tolist()
    opened, made = starts[1], starts[-1]
    if opened > runs or made != decisions:
        raise ArenaError(f"{made} decisions of {opened} runs do not fit {decisions} inputs and {runs} states")


def room(like: Tensor, decisions: int, columns: int, half: bool) -> Tensor:
    """Memory for what will be multiplied in some precision; with half precision, rows of zeros fill it up."""
    memory = _unfilled(like, decisions, columns, half)
    memory[decisions:] = 0.0
    return memory


def filled_up(count: int, unit: int) -> int:
    """The next multiple of a number of units."""
    return -(-count // unit) * unit


def _unfilled(like: Tensor, decisions: int, columns: int, half: bool) -> Tensor:
    if not half:
        return like.new_empty(decisions, columns)
    return like.new_empty(filled_up(decisions, ROWS), columns, dtype=torch.bfloat16)


def _call(
    direction: Direction,
    first: Tensor,
    weights: tuple[Tensor, Tensor],
    tensors: tuple[Tensor, ...],
    *,
    half: bool,
    to_features: bool,
) -> Call:
    (width, units), starts, team = (each.shape[1] for each in weights), first.tolist(), openmp()
    parts = min(torch.get_num_threads(), max(1, starts[1] // FEWEST_RUNS)) if team else 1
    parted = torch.tensor(bounds(starts, parts), dtype=torch.int32)
    panels = weights[0].new_empty(4 * units, filled_up(width, PANEL) + units)
    own = (first, *(each.contiguous() for each in weights), panels)
    setting = (direction, half, to_features, units, width, len(starts) - 1, parts)
    return Call(setting, (*own, *tensors, parted), team or (0, 0, 0))


def bounds(starts: Sequence[int], parts: int) -> list[int]:
    """Runs at which to part them, so that every part has about as many decisions."""
    counts = [end - begin for begin, end in itertools.pairwise(starts)]
    if parts == 1:
        return [0, counts[0]]
    within = range(counts[0] + 1)
    return [
        bisect.bisect_left(within, starts[-1] * part // parts, key=lambda run: sum(min(run, each) for each in counts))
        for part in range(parts + 1)
    ]
