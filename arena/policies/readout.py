"""LayerNorm and the linear layers of actor and critic in native code, in one pass over the rows.

In torch these are some twenty small operations forward and back, and products of few columns. They are written out in
C++ (`readout.h`), which Warp compiles for the processor at hand at its first use.
"""

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import Any, no_type_check

import torch
from torch import Tensor

from arena.native import Launch, openmp, require_memory, source, wp
from arena.policies.cores import READ_UNITS

LANES = READ_UNITS
"""Units of a vector, as in `lanes.h`."""

FEWEST_ROWS = 256
"""Rows that are worth a thread."""

SIZES, POINTERS = 5, 17
"""Numbers and addresses of a call, as in `readout.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("lanes.h", "readout.h"))
@no_type_check
def read_rows(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `readout.h`."""


@wp.kernel
@no_type_check
def read_all(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """All rows are read out."""
    read_rows(sizes, addresses)


class Direction(IntEnum):
    """What a call is for, as in `readout.h`."""

    FORWARD = 0
    BACKWARD = 1


def _forward(
    hidden: Tensor,
    scale: Tensor,
    offset: Tensor,
    actor: Tensor,
    actor_bias: Tensor,
    critic: Tensor,
    critic_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalise every row, and take it to the actor's and the critic's outputs; all in single precision.

    Args:
        hidden: What the core puts out (N, H); LANES divides H.
        scale: Of the LayerNorm (H), whose epsilon is torch's default.
        offset: Of the LayerNorm (H).
        actor: Weights (A, H).
        actor_bias: (A).
        critic: Weights (1, H).
        critic_bias: (1).

    Returns:
        The normalised rows (N, H), the actor's outputs (N, A), the critic's (N), and for the gradient the mean and the
        inverse standard deviation of each row (N, 2).
    """
    (rows, units), actors = hidden.shape, len(actor)
    given = tuple(each.contiguous() for each in (hidden, scale, offset, actor, critic, actor_bias, critic_bias))
    shapes = ((rows, units), (units,), (units,), (actors, units), (1, units), (actors,), (1,))
    require_memory(given, shapes, (torch.float32,) * len(given))
    features, parameters, value, moments = _outputs(hidden, actors)
    _run(Direction.FORWARD, (*given, moments, features, parameters, value), actors)
    return features, parameters, value, moments


def _pull_back(
    of_features: Tensor | None,
    of_parameters: Tensor,
    of_value: Tensor,
    hidden: Tensor,
    scale: Tensor,
    actor: Tensor,
    critic: Tensor,
    features: Tensor,
    moments: Tensor,
) -> tuple[Tensor, Tensor]:
    """The loss's gradient on its way back, given those with respect to the outputs.

    Returns:
        The gradient of `hidden`, and those of everything in `_sizes` behind each other.
    """
    (rows, units), actors = hidden.shape, len(actor)
    of_hidden = hidden.new_empty(rows, units)
    shares = hidden.new_zeros(_parts(rows), sum(_sizes(units, actors)))
    none = hidden.new_empty(0)
    given = (hidden, scale, none, actor, critic, none, none, moments, features, of_parameters, of_value)
    further = none if of_features is None else of_features
    own = tuple(each.contiguous() for each in (*given, further))
    _run(Direction.BACKWARD, (*own, of_hidden, shares), actors)
    return of_hidden, shares.sum(dim=0)


readout = torch.library.custom_op("arena::readout", _forward, mutates_args=())
readout_backward = torch.library.custom_op("arena::readout_backward", _pull_back, mutates_args=())


@readout.register_fake
def _(hidden: Tensor, scale: Tensor, offset: Tensor, actor: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
    return _outputs(hidden, actor.shape[0])


@readout_backward.register_fake
def _(
    of_features: Tensor | None,
    of_parameters: Tensor,
    of_value: Tensor,
    hidden: Tensor,
    scale: Tensor,
    actor: Tensor,
    *_: Tensor,
) -> tuple[Tensor, Tensor]:
    rows, units = hidden.shape
    return hidden.new_empty(rows, units), hidden.new_empty(sum(_sizes(units, actor.shape[0])))


def _sizes(units: int, actors: int) -> list[int]:
    """Numbers of scale, offset, the actor's and the critic's weights, and their biases."""
    return [units, units, actors * units, units, actors, 1]


def _outputs(hidden: Tensor, actors: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, units = hidden.shape
    features, parameters, moments = (hidden.new_empty(rows, columns) for columns in (units, actors, 2))
    return features, parameters, hidden.new_empty(rows), moments


def _remember(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401  torch's own
    hidden, scale, _, actor, _, critic, _ = inputs
    features, _, _, moments = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(hidden, scale, actor, critic, features, moments)


def _backward_by(pull_back: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, ...]]:
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, ...]:  # noqa: ANN401  torch's own
        saved = ctx.saved_tensors
        hidden, _, actor, *_ = saved
        actors, units = actor.shape
        of_features, of_parameters, of_value, _ = gradients
        if of_parameters is None:
            of_parameters = hidden.new_zeros(hidden.shape[0], actors)
        if of_value is None:
            of_value = hidden.new_zeros(hidden.shape[0])
        of_hidden, of_weights = pull_back(of_features, of_parameters, of_value, *saved)
        scale, offset, weight, critic, bias, critic_bias = torch.split(of_weights, _sizes(units, actors))
        return of_hidden, scale, offset, weight.view(actors, units), bias, critic.view(1, units), critic_bias

    return backward


readout.register_autograd(_backward_by(torch.ops.arena.readout_backward), setup_context=_remember)


class _ReadOut(torch.autograd.Function):
    """The operator without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, ...]:  # noqa: ANN401  torch's own
        output = _forward(*given)
        _remember(ctx, given, output)
        return output

    backward = staticmethod(_backward_by(_pull_back))


def read_out(*given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised rows, the actor's outputs and the critic's; for arguments see `_forward`, for the ways `scan.take`."""
    apply: Any = torch.ops.arena.readout if torch.compiler.is_compiling() else _ReadOut.apply
    features, parameters, value, _ = apply(*given)
    return features, parameters, value


@functools.cache
def _launcher() -> Launch:
    return Launch(read_all, SIZES, POINTERS)


def _parts(rows: int) -> int:
    return min(torch.get_num_threads(), max(1, rows // FEWEST_ROWS)) if openmp() else 1


def _run(direction: Direction, tensors: tuple[Tensor, ...], actors: int) -> None:
    rows, units = tensors[0].shape
    addresses = [each.data_ptr() for each in tensors]
    unused = [0] * (POINTERS - 3 - len(addresses))
    _launcher()((direction, rows, units, actors, _parts(rows)), [*addresses, *unused, *(openmp() or (0, 0, 0))])
