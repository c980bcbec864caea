"""Gradients of weights in native code, in single precision.

It is written out in C++ (`weights.h`): of many decisions and few columns torch's product takes a seventh longer.
"""

from typing import no_type_check

import torch
from torch import Tensor

from arena.native import Call, openmp, require_memory, source, wp

SIZES, POINTERS = 5, 6
"""Numbers and addresses of a call, as in `weights.h`."""


@wp.func_native(source("lanes.h", "weights.h"))
@no_type_check
def add_weights(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `weights.h`."""


def call(sums: Tensor, inputs: Tensor, gradient: Tensor) -> Call:
    """What adds sums^T inputs to a gradient.

    Args:
        sums: The loss's gradient of what weights were multiplied into (N, outputs).
        inputs: What they were multiplied with (N, columns), maybe some columns of wider rows.
        gradient: Of the weights (outputs, columns), in one piece.

    Raises:
        ArenaError: Something has another shape or type than it must have.
    """
    (rows, outputs), columns = sums.shape, inputs.shape[1]
    shapes = ((rows, outputs), (rows, columns), (outputs, columns))
    require_memory((sums, inputs, gradient), shapes, (torch.float32,) * 3)
    parts = torch.get_num_threads() if openmp() else 1
    setting = (rows, outputs, columns, inputs.stride(0), parts)
    return Call(setting, (sums, inputs, gradient), openmp() or (0, 0, 0))


def nothing(like: Tensor) -> Call:
    """What adds nothing."""
    none = like.new_empty(0)
    return Call((0, 0, 0, 0, 1), (none, none, none), (0, 0, 0))
