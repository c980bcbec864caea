"""An LSTM over runs of decisions in native code: nothing is padded, and gates pass through memory once.

The recurrence is written out in C++ (`scan.h`), which Warp compiles for the processor at hand at its first use; what
does not depend on time is done in torch by single products over all decisions.
"""

import bisect
import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from arena.native import wp

LANES, PANEL = 16, 64
"""Units of a vector and columns of a panel, as in `scan.h`."""

FEWEST_RUNS = 24
"""Runs that are worth a thread."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(resources.files("arena.policies").joinpath("scan.h").read_text())
@no_type_check
def scan_runs(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `scan.h`."""


@wp.kernel
@no_type_check
def scan_part(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """One thread takes its share of the runs through time."""
    scan_runs(sizes, addresses)


def fits(units: int) -> bool:
    """Whether `scan.h` can run an LSTM of so many units."""
    return units % PANEL == 0


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
        features: Inputs (N, F), step by step; see `cores.Runs`.
        hidden: State (S, H) before each run. No gradient flows back beyond it.
        cell: The same.
        weight_ih: (4H, F), as in `nn.LSTM`.
        weight_hh: (4H, H), as in `nn.LSTM`.
        bias: (4H); the sum of its two.
        first: (L + 1); see `cores.Runs`.

    Returns:
        Hidden state after each decision (N, H); then, for the gradient: what the gates let through (N, 4H), the cell
        after each decision and the hidden state before it (N, H).
    """
    decisions, units = len(features), hidden.shape[1]
    gates = torch.addmm(_side_by_side(bias), features, _side_by_side(weight_ih).t())
    before, cells, output = (features.new_empty(decisions, units) for _ in range(3))
    before[: len(hidden)] = hidden
    weights = _side_by_side(weight_hh).view(-1, PANEL, units).transpose(1, 2).contiguous()
    none = first.new_empty(0)
    _run(False, units, first, (weights, gates, before, cells, cell.contiguous(), output, none, none))
    return output, gates, cells, before


@torch.library.custom_op("arena::scan_backward", mutates_args=())
def scan_backward(
    gradient: Tensor,
    gates: Tensor,
    cells: Tensor,
    before: Tensor,
    cell: Tensor,
    weight_hh: Tensor,
    first: Tensor,
) -> Tensor:
    """The loss's gradient with respect to the sums in the gates (N, 4H), given that with respect to the output."""
    units = cell.shape[1]
    weights = _side_by_side(weight_hh).view(4 * units, -1, PANEL).transpose(0, 1).contiguous()
    into, carried = torch.empty_like(gates), cell.new_zeros(len(cell), 2 * units)
    tensors = (weights, gates, before, cells, cell.contiguous(), gradient.contiguous(), into, carried)
    _run(True, units, first, tensors)
    return into


@scan.register_fake
def _(features: Tensor, hidden: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    decisions, units = len(features), hidden.shape[1]
    return tuple(features.new_empty(decisions, width * units) for width in (1, 4, 1, 1))  # type: ignore[return-value]


@scan_backward.register_fake
def _(gradient: Tensor, gates: Tensor, *_: Tensor) -> Tensor:
    return torch.empty_like(gates)


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401  torch's own
    features, _, cell, weight_ih, weight_hh, _, first = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(features, cell, weight_ih, weight_hh, first, *output[1:])


def _backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:  # noqa: ANN401  torch's own
    features, cell, weight_ih, weight_hh, first, gates, cells, before = ctx.saved_tensors
    sums = torch.ops.arena.scan_backward(gradient, gates, cells, before, cell, weight_hh, first)
    of_features = sums @ _side_by_side(weight_ih) if ctx.needs_input_grad[0] else None
    of_weights = (_in_torchs_order((inputs.t() @ sums).t()) for inputs in (features, before))
    return of_features, None, None, *of_weights, _in_torchs_order(sums.sum(dim=0)), None


scan.register_autograd(_backward, setup_context=_remember)


class _Part:
    """A launch of the kernel with arguments of its own."""

    def __init__(self) -> None:
        sizes, addresses = torch.zeros(5, dtype=torch.int32), torch.zeros(9, dtype=torch.int64)
        self._sizes, self._addresses = sizes.numpy(), addresses.numpy()
        places = [wp.from_torch(sizes), wp.from_torch(addresses, dtype=wp.uint64)]
        self._launch = wp.launch(scan_part, dim=1, inputs=places, device="cpu", record_cmd=True)

    def __call__(self, sizes: Sequence[int], addresses: Sequence[int]) -> None:
        self._sizes[:], self._addresses[:] = sizes, addresses
        self._launch.launch()


class _Crew:
    """Threads that share a scan's runs. Which thread takes which runs changes nothing: runs share no sums."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._threads = ThreadPoolExecutor(thread_name_prefix="scan")
        self._lock = threading.Lock()

    def run(self, backward: bool, units: int, bounds: Sequence[int], steps: int, addresses: Sequence[int]) -> None:
        """Run the parts between `bounds`, the first in this thread."""
        with self._lock:
            while len(self._parts) < len(bounds) - 1:
                self._parts.append(_Part())
            shares = [
                (part, (backward, units, steps, *share), addresses)
                for part, share in zip(self._parts, itertools.pairwise(bounds), strict=False)
            ]
            others = [self._threads.submit(part, *given) for part, *given in shares[1:]]
            first, *given = shares[0]
            first(*given)
            for other in others:
                other.result()


_crew = _Crew()


def _run(backward: bool, units: int, first: Tensor, tensors: tuple[Tensor, ...]) -> None:
    starts = first.tolist()
    parts = min(torch.get_num_threads(), max(1, starts[1] // FEWEST_RUNS))
    _crew.run(
        backward, units, bounds(starts, parts), len(starts) - 1, [tensor.data_ptr() for tensor in (first, *tensors)]
    )


def bounds(starts: Sequence[int], parts: int) -> list[int]:
    """Runs at which to part them, so that every part has about as many decisions."""
    counts = [end - begin for begin, end in itertools.pairwise(starts)]
    within = range(counts[0] + 1)
    return [
        bisect.bisect_left(within, starts[-1] * part // parts, key=lambda run: sum(min(run, each) for each in counts))
        for part in range(parts + 1)
    ]


def _side_by_side(gates: Float[Tensor, "gates ..."]) -> Float[Tensor, "gates ..."]:
    """The four gates of 16 units next to each other."""
    return gates.view(4, -1, LANES, *gates.shape[1:]).transpose(0, 1).reshape(gates.shape)


def _in_torchs_order(gates: Float[Tensor, "gates ..."]) -> Float[Tensor, "gates ..."]:
    """The contrary of `_side_by_side`."""
    return gates.view(-1, 4, LANES, *gates.shape[1:]).transpose(0, 1).reshape(gates.shape)
