"""Warp kernels over the rows of a batch: structs that share memory with tensors, and recorded launches."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from arena.native.warp import recorded, wp


def share(kind: Any, tensors: Mapping[str, Tensor]) -> Any:  # noqa: ANN401  Warp's types
    """Return a Warp struct that shares the memory of tensors, by the same names."""
    struct = kind()
    for name, tensor in tensors.items():
        setattr(struct, name, wp.from_torch(tensor))
    return struct


def record(kernel: Any, rows: int, device: torch.device, *inputs: Any) -> Callable[[], None]:  # noqa: ANN401  as above
    """Return a recorded launch with one thread per row; packing the arguments costs more than running a few rows."""
    launch = recorded(kernel, rows, inputs, str(device)).launch
    return launch if device.type == "cpu" else lambda: launch(wp.stream_from_torch(device))  # type: ignore[no-untyped-call]
