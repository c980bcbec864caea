"""LSTM over packed runs as a CPU kernel: no padding, and gates pass through memory once.

The recurrence is written in C++ (`lstm.h`), which Warp compiles for this machine's processor at first use. Gradients of
the weights do not depend on time and are one matrix product over all decisions in torch.
"""

import bisect
import functools
import itertools
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, no_type_check

import torch
from torch import Tensor

from arena.errors import InputError
from arena.native.warp import Launch, openmp, require_memory, source, wp

PANEL = 64
"""Columns of a weight panel, as in `simd.h`; the number of LSTM units must be a multiple of it."""

ROW_MULTIPLE = 64
"""Rows of bfloat16 factors are padded to a multiple of this: oneDNN compiles a kernel for every number of rows."""

MIN_RUNS_PER_THREAD = 24
"""Fewest runs per thread; below that, starting a thread costs more than it saves."""

SIZES, POINTERS = 8, 20
"""Number of sizes and addresses of a call, as in `lstm.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("simd.h", "gemm_panels.h", "lstm.h"))
@no_type_check
def run_lstm(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `lstm.h`."""


@wp.kernel
@no_type_check
def lstm_kernel(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """A single Warp thread that calls `run_lstm`."""
    run_lstm(sizes, addresses)


class Direction(IntEnum):
    """Operation of a call, as in `lstm.h`."""

    FORWARD = 0
    BACKWARD = 1
    QUERY_BFLOAT16 = 2


@functools.cache
def supports_bfloat16() -> bool:
    """Whether this processor has bfloat16 dot products; using them requires an even number of inputs."""
    return bool(_query_bfloat16()[0])


@functools.cache
def supports_tiles() -> bool:
    """Whether this processor multiplies bfloat16 in tiles (Intel AMX), and the system lets this process use them."""
    init_amx = getattr(torch.cpu, "_init_amx", None)  # private; it asks the kernel for the tiles' state
    return init_amx is not None and bool(_query_bfloat16()[1]) and init_amx()


def _query_bfloat16() -> list[int]:
    return _launcher()((Direction.QUERY_BFLOAT16, *[0] * (SIZES - 1)), [0] * POINTERS)


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
    """Run the forward pass of S runs.

    Args:
        features: Inputs (N, F) in the order of `PackedRuns`.
        hidden: Hidden state (S, H) before each run. No gradient flows to it.
        cell: Cell (S, H) before each run. No gradient flows to it.
        weight_ih: (4H, F), as in `nn.LSTM`.
        weight_hh: (4H, H), as in `nn.LSTM`.
        bias: (4H), the sum of both biases of `nn.LSTM`.
        first: (L + 1), see `PackedRuns`.
        half: Multiply in bfloat16; see `supports_bfloat16`.

    Returns:
        The hidden state after each decision (N, H), the gate activations (N, 4H), the cell after each decision (N, H),
        and the features and previous hidden state of each decision (N, F + H). The last are bfloat16 in half precision,
        padded with rows of zeros.

    Raises:
        ArenaError: A tensor has the wrong shape, type or device.
    """
    (decisions, width), units = features.shape, hidden.shape[1]
    _require(features, first, hidden, cell, weight_ih, weight_hh, bias)
    # The backward pass multiplies with these again, so they are stored in the precision of the product.
    inputs = _allocate_factors(bias, decisions, width + units, half)
    gates, cells, output = (bias.new_empty(decisions, columns * units) for columns in (4, 1, 1))
    # Forward and backward pass share one list of addresses; those of the other direction are empty.
    none = bias.new_empty(0)
    given = (each.contiguous() for each in (features, hidden, cell))
    tensors = (gates, inputs, cells, *given, output, bias.contiguous(), none, none, none, none)
    _launch(Direction.FORWARD, first, (weight_ih, weight_hh), tensors, half=half, to_features=False)
    return output, gates, cells, inputs


def _run_backward(
    gradient: Tensor,
    gates: Tensor,
    cells: Tensor,
    inputs: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    first: Tensor,
    to_features: bool,
    *,
    in_place: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the backward pass from the gradient of the output, and the results of `_forward`.

    With `in_place`, the gradient of the gates may overwrite the gate activations.

    Returns:
        Gradients with respect to the gates before activation (rows of `inputs`, 4H), in the precision of `inputs`; to
        the features (N, F rounded up to a multiple of 64), without columns unless `to_features`; and to the bias (4H).
    """
    (decisions, units), width = cells.shape, weight_ih.shape[1]
    half, columns = inputs.dtype is torch.bfloat16, _round_up(width, PANEL) if to_features else 0
    sums = gates if in_place and not half else _allocate_factors(cell, decisions, 4 * units, half)
    carried, of_features = cell.new_zeros(len(cell), 2 * units), cell.new_empty(decisions, columns)
    # One row of partial sums per thread, so that threads never write to the same memory.
    of_bias = cell.new_zeros(torch.get_num_threads(), 4 * units)
    none = cell.new_empty(0)
    given = (gates, inputs, cells, none, none, cell.contiguous(), gradient.contiguous(), none)
    tensors = (*given, sums, carried, of_features, of_bias)
    _launch(Direction.BACKWARD, first, (weight_ih, weight_hh), tensors, half=half, to_features=to_features)
    return sums, of_features, of_bias.sum(dim=0)


def _backward(
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
    """Run the backward pass; see `_run_backward`."""
    return _run_backward(gradient, gates, cells, inputs, cell, weight_ih, weight_hh, first, to_features, in_place=False)


def _backward_in_place(gradient: Tensor, gates: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    """Run `_backward` and reuse the memory of the gates, so that a second backward pass raises torch's error."""
    torch.autograd.graph.increment_version(gates)
    return _run_backward(gradient, gates, *rest, in_place=True)


lstm_forward = torch.library.custom_op("arena::lstm_forward", _forward, mutates_args=())
lstm_backward = torch.library.custom_op("arena::lstm_backward", _backward, mutates_args=())


@lstm_forward.register_fake
def _(
    features: Tensor,
    hidden: Tensor,
    *rest: Any,  # noqa: ANN401  torch's own
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (decisions, width), units = features.shape, hidden.shape[1]
    output, gates, cells = (hidden.new_empty(decisions, columns * units) for columns in (1, 4, 1))
    return output, gates, cells, _empty_factors(features, decisions, width + units, half=rest[-1])


@lstm_backward.register_fake
def _(
    gradient: Tensor,
    gates: Tensor,
    cells: Tensor,
    inputs: Tensor,
    cell: Tensor,
    weight_ih: Tensor,
    *rest: Any,  # noqa: ANN401  torch's own
) -> tuple[Tensor, Tensor, Tensor]:
    columns = _round_up(weight_ih.shape[1], PANEL) if rest[-1] else 0
    sums = inputs.new_empty(inputs.shape[0], gates.shape[1])
    return sums, cell.new_empty(cells.shape[0], columns), cell.new_empty(gates.shape[1])


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401  torch's own
    _, _, cell, weight_ih, weight_hh, _, first, _ = inputs
    # Without this, torch would allocate zeros as large as the gates for outputs that have no gradient.
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(cell, weight_ih, weight_hh, first, *output[1:])


def _backward_by(
    run_backward: Callable[..., tuple[Tensor, Tensor, Tensor]],
) -> Callable[..., tuple[Tensor | None, ...]]:
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:  # noqa: ANN401  torch's own
        cell, weight_ih, weight_hh, first, gates, cells, inputs = ctx.saved_tensors
        wanted, width = ctx.needs_input_grad[0], weight_ih.shape[1]
        sums, of_features, of_bias = run_backward(
            gradient, gates, cells, inputs, cell, weight_ih, weight_hh, first, wanted
        )
        # `inputs` has features and hidden states side by side, so one product gives the gradients of both weights.
        of_weights = torch.split((sums.t() @ inputs).float(), [width, cell.shape[1]], dim=1)
        return of_features[:, :width] if wanted else None, None, None, *of_weights, of_bias, None, None

    return backward


lstm_forward.register_autograd(_backward_by(torch.ops.arena.lstm_backward), setup_context=_setup_context)


class _LSTMFunction(torch.autograd.Function):
    """The same operator for eager mode, without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, ...]:  # noqa: ANN401  torch's own
        output = _forward(*given)
        _setup_context(ctx, given, output)
        return output

    backward = staticmethod(_backward_by(_backward_in_place))


def lstm_over_runs(*given: Any) -> Tensor:  # noqa: ANN401  see `_forward`
    """Return the hidden state after each decision; see `_forward` for the arguments.

    Under torch.compile this is an opaque operator. In eager mode it bypasses the dispatcher, whose overhead for custom
    operators is that of about ten small operations.
    """
    apply: Any = torch.ops.arena.lstm_forward if torch.compiler.is_compiling() else _LSTMFunction.apply
    output: Tensor = apply(*given)[0]
    return output


@functools.cache
def _launcher() -> Launch:
    return Launch(lstm_kernel, SIZES, POINTERS)


def _require(features: Tensor, first: Tensor, hidden: Tensor, cell: Tensor, *weights: Tensor) -> None:
    """Raise ArenaError unless all tensors match the features and the runs in `first`."""
    (runs, units), (decisions, width) = hidden.shape, features.shape
    shapes = ((decisions, width), (runs, units), (runs, units), (4 * units, width), (4 * units, units), (4 * units,))
    tensors = (features, hidden, cell, *weights)
    require_memory((*tensors, first), (*shapes, (len(first),)), (torch.float32,) * 6 + (torch.int32,))
    starts = first.tolist()
    opened, made = starts[1], starts[-1]
    if opened > runs or made != decisions:
        raise InputError(
            f"{made} decisions of {opened} runs do not fit {decisions} inputs and {runs} states: pass one row of "
            "features per decision and one state per run"
        )


def _allocate_factors(like: Tensor, decisions: int, columns: int, half: bool) -> Tensor:
    """Allocate a factor of a matrix product; in half precision, rows of zeros pad it to ROW_MULTIPLE."""
    memory = _empty_factors(like, decisions, columns, half)
    memory[decisions:] = 0.0
    return memory


def _round_up(count: int, unit: int) -> int:
    """Round a count up to a multiple of `unit`."""
    return -(-count // unit) * unit


def _empty_factors(like: Tensor, decisions: int, columns: int, half: bool) -> Tensor:
    if not half:
        return like.new_empty(decisions, columns)
    return like.new_empty(_round_up(decisions, ROW_MULTIPLE), columns, dtype=torch.bfloat16)


def _launch(
    direction: Direction,
    first: Tensor,
    weights: tuple[Tensor, Tensor],
    tensors: tuple[Tensor, ...],
    *,
    half: bool,
    to_features: bool,
) -> None:
    (width, units), starts, team = (each.shape[1] for each in weights), first.tolist(), openmp()
    parts = min(torch.get_num_threads(), max(1, starts[1] // MIN_RUNS_PER_THREAD)) if team else 1
    parted = torch.tensor(balance_runs(starts, parts), dtype=torch.int32)
    panels = weights[0].new_empty(4 * units, _round_up(width, PANEL) + units)
    own = (first, *(each.contiguous() for each in weights), panels)
    sizes = (direction, half, half and supports_tiles(), to_features, units, width, len(starts) - 1, parts)
    # The address of an empty tensor is 0.
    addresses = [each.data_ptr() for each in (*own, *tensors, parted)]
    _launcher()(sizes, [*addresses, *(team or (0, 0, 0))])


def balance_runs(starts: Sequence[int], parts: int) -> list[int]:
    """Return boundaries that split the runs into `parts` with about equally many decisions."""
    counts = [end - begin for begin, end in itertools.pairwise(starts)]
    if parts == 1:
        return [0, counts[0]]
    within = range(counts[0] + 1)
    return [
        bisect.bisect_left(within, starts[-1] * part // parts, key=lambda run: sum(min(run, each) for each in counts))
        for part in range(parts + 1)
    ]
