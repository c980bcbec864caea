"""LayerNorm and the linear layers of actor and critic in native code, in one pass over the rows.

In torch these are some twenty small operations forward and back, and products of few columns. They are written out in
C++ (`readout.h`), which Warp compiles for the processor at hand at its first use.
"""

import functools
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple, no_type_check

import torch
from torch import Tensor

from arena.native import Call, Launch, openmp, require_memory, source, wp
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


class Outputs(NamedTuple):
    """What is read out.

    Attributes:
        features: The normalised rows (N, H).
        parameters: The actor's outputs (N, A).
        value: The critic's (N).
        moments: Mean and inverse standard deviation of each row (N, 2), for the gradient.
    """

    features: Tensor
    parameters: Tensor
    value: Tensor
    moments: Tensor


def forward_call(
    hidden: Tensor,
    scale: Tensor,
    offset: Tensor,
    actor: Tensor,
    actor_bias: Tensor,
    critic: Tensor,
    critic_bias: Tensor,
) -> tuple[Call, Outputs]:
    """What normalises every row and takes it to the actor's and the critic's outputs; all in single precision.

    Args:
        hidden: What the core puts out (N, H); LANES divides H.
        scale: Of the LayerNorm (H), whose epsilon is torch's default.
        offset: Of the LayerNorm (H).
        actor: Weights (A, H).
        actor_bias: (A).
        critic: Weights (1, H).
        critic_bias: (1).

    Raises:
        ArenaError: Something has another shape or type than it must have.
    """
    (rows, units), actors = hidden.shape, len(actor)
    given = tuple(each.contiguous() for each in (hidden, scale, offset, actor, critic, actor_bias, critic_bias))
    shapes = ((rows, units), (units,), (units,), (actors, units), (1, units), (actors,), (1,))
    require_memory(given, shapes, (torch.float32,) * len(given))
    outputs = _outputs(hidden, actors)
    made = (outputs.moments, outputs.features, outputs.parameters, outputs.value)
    return _call(Direction.FORWARD, (*given, *made), actors), outputs


def backward_call(
    of_features: Tensor | None,
    of_parameters: Tensor,
    of_value: Tensor,
    hidden: Tensor,
    scale: Tensor,
    actor: Tensor,
    critic: Tensor,
    features: Tensor,
    moments: Tensor,
) -> tuple[Call, Tensor, Tensor]:
    """What takes the loss's gradient back, given those with respect to the outputs.

    Returns:
        It, the gradient of `hidden`, and shares (threads, _) that add up to those of everything learned, see `split`.
    """
    (rows, units), actors = hidden.shape, len(actor)
    of_hidden = hidden.new_empty(rows, units)
    shares = hidden.new_zeros(_parts(rows), sum(_sizes(units, actors)))
    none = hidden.new_empty(0)
    given = (hidden, scale, none, actor, critic, none, none, moments, features, of_parameters, of_value)
    further = none if of_features is None else of_features
    own = tuple(each.contiguous() for each in (*given, further))
    return _call(Direction.BACKWARD, (*own, of_hidden, shares), actors), of_hidden, shares


def split(of_weights: Tensor, units: int, actors: int) -> tuple[Tensor, ...]:
    """Gradients of scale, offset, the actor's weights and bias, and the critic's."""
    scale, offset, weight, critic, bias, critic_bias = torch.split(of_weights, _sizes(units, actors))
    return scale, offset, weight.view(actors, units), bias, critic.view(1, units), critic_bias


def _forward(
    hidden: Tensor,
    scale: Tensor,
    offset: Tensor,
    actor: Tensor,
    actor_bias: Tensor,
    critic: Tensor,
    critic_bias: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Read all rows out: see `forward_call` and `Outputs`."""
    call, outputs = forward_call(hidden, scale, offset, actor, actor_bias, critic, critic_bias)
    _launcher()(call.sizes, call.addresses)
    return outputs.features, outputs.parameters, outputs.value, outputs.moments


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
    """Take the loss's gradient back to `hidden` and to everything learned: see `backward_call`."""
    gradients = (of_features, of_parameters, of_value)
    call, of_hidden, shares = backward_call(*gradients, hidden, scale, actor, critic, features, moments)
    _launcher()(call.sizes, call.addresses)
    return of_hidden, shares.sum(dim=0)


readout = torch.library.custom_op("arena::readout", _forward, mutates_args=())
readout_backward = torch.library.custom_op("arena::readout_backward", _pull_back, mutates_args=())


@readout.register_fake
def _(hidden: Tensor, scale: Tensor, offset: Tensor, actor: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
    return tuple(_outputs(hidden, actor.shape[0]))


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


def _outputs(hidden: Tensor, actors: int) -> Outputs:
    rows, units = hidden.shape
    features, parameters, moments = (hidden.new_empty(rows, columns) for columns in (units, actors, 2))
    return Outputs(features, parameters, hidden.new_empty(rows), moments)


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
        return of_hidden, *split(of_weights, units, actors)

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


def _call(direction: Direction, tensors: tuple[Tensor, ...], actors: int) -> Call:
    rows, units = tensors[0].shape
    none = tensors[0].new_empty(0)
    unused = [none] * (POINTERS - 3 - len(tensors))
    return Call((direction, rows, units, actors, _parts(rows)), (*tensors, *unused), openmp() or (0, 0, 0))
