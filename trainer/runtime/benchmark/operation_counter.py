"""Counter of operations and host synchronisations: a dispatch mode, so that it works on any device."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode, _pop_mode_temporarily
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

ROOT = Path(__file__).parents[3]
"""Folder of the packages, relative to which places in the code are named."""

PACKAGES = tuple(str(ROOT / package) + "/" for package in ("trainer", "arena"))
"""Code in which operations are placed; that of libraries and of this package counts for its caller."""

HERE = str(Path(__file__).parent) + "/"

ALLOCATIONS = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
"""Operations that allocate memory and launch nothing."""

METADATA = {"aten::_unsafe_view", "aten::_reshape_alias", "aten::set_", "aten::resize_"}
"""Operations that change metadata only, apart from views."""

SCALAR_READ = "aten::_local_scalar_dense"
"""Operation of `item`, `int`, `float` and `bool` on a tensor."""

WAITING = {
    SCALAR_READ,
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::equal",
    "aten::repeat_interleave",
}
"""Operations that wait for the device, because the host needs their result or its shape."""

READS = (Tensor.cpu, Tensor.tolist)
"""Calls that copy a tensor to the host, invisible to a dispatch mode if the tensor is already there."""

UPLOADS = (torch.tensor, torch.as_tensor, Tensor.new_tensor)
"""Calls that copy values of the host to the device, invisible to a dispatch mode."""


@dataclass(frozen=True)
class PlaceCounts:
    """Counted operations and host synchronisations, by their place in the code (`file:line`)."""

    operations: Counter[str]
    synchronizations: Counter[str]


class OperationCounter(TorchDispatchMode):
    """Counts operations and host synchronisations while active.

    Args:
        device: Device of the run. On a CPU, the host and the device share memory: a transfer is recognised by the call
            instead (`cpu`, `tolist`, `torch.tensor`, `torch.from_numpy`), and a `copy_` between the two is not.

    Attributes:
        counts: Counts so far.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = PlaceCounts(Counter(), Counter())
        self._device_type = device.type
        self._active = self._paused = False
        self._calls = _TransferCalls(self._device_type, self._count_transfer)

    def __enter__(self) -> "OperationCounter":
        """Start to count."""
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    @contextmanager
    def active(self) -> Iterator[None]:
        """Count operations and the calls that a dispatch mode does not see, from 0."""
        self.counts, self._active = PlaceCounts(Counter(), Counter()), True
        try:
            with self, self._calls:
                yield
        finally:
            self._active = False

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Leave the counter's modes, through which a compiler cannot trace."""
        is_active = torch._C._len_torch_function_stack() > 0
        with _disable_current_modes(), _pop_mode_temporarily() if is_active else nullcontext():
            yield

    def add_kernels(self, kernels: int) -> None:
        """Count the kernels of a compiled graph."""
        if self._active and not self._paused:
            self.counts.operations[_place()] += kernels

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out all operations within."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  results of any operation
        kwargs = kwargs or {}
        if self._paused:
            return func(*args, **kwargs)
        # In inference mode composite operations arrive whole, such as a `to` that has nothing to convert.
        with self:
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        result = func(*args, **kwargs)
        name = func._schema.name
        if _waits(name, args, result):
            self.counts.synchronizations[_place()] += 1
        if not (func.is_view or name in ALLOCATIONS or name in METADATA or name == SCALAR_READ):
            self.counts.operations[_place()] += 1
        return result

    @contextmanager
    def _count_transfer(self) -> Iterator[None]:
        """Count one synchronisation for a call and all that it dispatches."""
        if not self._paused:
            self.counts.synchronizations[_place()] += 1
        with self.paused():
            yield


class _TransferCalls(TorchFunctionMode):
    """Recognises calls that copy between host and device."""

    def __init__(self, device_type: str, count: Callable[[], Any]) -> None:
        super().__init__()
        self._device_type, self._count = device_type, count

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401  results of any function
        kwargs = kwargs or {}
        if not self._transfers(func, args):
            return func(*args, **kwargs)
        with self._count():
            return func(*args, **kwargs)

    def _transfers(self, func: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        if func in READS:
            return bool(args[0].device.type == self._device_type)
        if func is torch.from_numpy:  # on a device, the `to` that follows is dispatched
            return self._device_type == "cpu"
        return func in UPLOADS


def _waits(name: str, args: tuple[Any, ...], result: object) -> bool:
    """Whether an operation waits for the device or copies between host and device."""
    if name in WAITING:
        return True
    if name in ("aten::_to_copy", "aten::copy_"):
        source = args[0] if name == "aten::_to_copy" else args[1]
        return isinstance(result, Tensor) and source.device.type != result.device.type
    if name == "aten::index":
        return _has_boolean_index(args[1])
    if name in ("aten::index_put", "aten::index_put_"):
        # torch writes a single value with `masked_fill`, which does not wait
        return _has_boolean_index(args[1]) and args[2].numel() != 1
    return False


def _has_boolean_index(indices: Sequence[Tensor | None]) -> bool:
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def _place() -> str:
    """Return the innermost line of this project's code on the stack, outside this package."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGES) and not file.startswith(HERE):
            return f"{Path(file).relative_to(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "other code"
