"""Operations and host synchronisations per decision and per optimiser step: the launch overhead of a run on a device.

On a CPU the native kernels are switched off, so that the same Python code runs as on a device. Functions under
torch.compile count the kernels of their graphs, see `compiled_kernels.py`.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode, _pop_mode_temporarily
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from arena.policies.ensemble.torch_backend import DEVICE_CALL_OVERHEAD_ROWS
from trainer.config.algorithm import CompileBackend
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.learner import Learner
from trainer.ppo.targets.normalization import DEVICE_SLICE_ELEMENTS
from trainer.runtime.benchmark.bench import Bench

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


@dataclass(frozen=True)
class OperationCounts:
    """Counts per decision of a rollout, without the environment's own step, and per optimiser step of an update.

    Attributes:
        ops_per_decision: Operations, without views, allocations and changes of metadata.
        syncs_per_decision: Host synchronisations: scalar reads, boolean indices, copies to and from the host.
        ops_per_optimizer_step: Operations of whole updates, divided by their optimiser steps.
        syncs_per_optimizer_step: Host synchronisations, likewise.
        decisions: Number of counted decisions.
        optimizer_steps: Number of counted optimiser steps.
        places: For each of the four counts, the count at each place in the code, most frequent first.
    """

    ops_per_decision: float
    syncs_per_decision: float
    ops_per_optimizer_step: float
    syncs_per_optimizer_step: float
    decisions: int
    optimizer_steps: int
    places: Mapping[str, Mapping[str, float]]


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


@contextmanager
def device_code_on_cpu() -> Iterator[None]:
    """Run the code of a device on a CPU: no native kernels, no flat storage, one micro-batch, one transfer a step."""
    with ExitStack() as stack:
        for target, value in {
            "arena.policies.ensemble.ensemble.make_native_backend": lambda *_: None,
            "arena.policies.ensemble.torch_backend.CALL_OVERHEAD_ROWS": DEVICE_CALL_OVERHEAD_ROWS,
            "arena.policies.nn.recurrent.has_native_lstm": lambda _: False,
            "trainer.ppo.ppo.PPO._native_loss": lambda _: None,
            "trainer.ppo.ppo.CPU_MICRO_BATCH": sys.maxsize,
            "trainer.ppo.targets.normalization.SLICE_ELEMENTS": DEVICE_SLICE_ELEMENTS,
            "trainer.ppo.optim.optimizer.uses_flat_storage": lambda _: False,
            "trainer.rollout.vector_worker.HOST": None,
        }.items():
            stack.enter_context(mock.patch(target, value))
        yield


def count_operations(config: TrainerConfig, *, opponents: int = 0) -> OperationCounts:
    """Count one rollout and one update, after a first iteration that does not count.

    Args:
        config: Settings. Environments step in one batch, because counting covers one thread.
        opponents: Number of frozen opponents, as in `Bench`.

    Raises:
        ConfigError: The algorithm does not derive from `trainer.ppo.learner`, its compiler's kernels are not known, or
            the update took no optimiser step.
    """
    device = torch.device(config.run.device)
    backend = config.ppo.compile.for_device(device.type)
    if backend not in (CompileBackend.NONE, CompileBackend.INDUCTOR):
        raise ConfigError(
            f"ppo.compile is {backend.value!r}, whose kernels --count does not know: set it to inductor or none"
        )
    counter = OperationCounter(device)
    with ExitStack() as stack:
        if device.type == "cpu":
            stack.enter_context(device_code_on_cpu())
        if backend is CompileBackend.INDUCTOR:
            from trainer.runtime.benchmark.compiled_kernels import count_kernels  # it loads the compiler

            stack.enter_context(count_kernels(counter))
        bench = Bench(_in_one_thread(config), opponents=opponents)
        if not isinstance(bench.learner, Learner):
            raise ConfigError(
                f"algorithm.name is {config.algorithm.name!r}, which does not derive from trainer.ppo.learner: its "
                "optimiser steps cannot be counted; omit --count"
            )
        bench.collect()
        bench.learn()
        rollout = _count(counter, bench, bench.collect)
        optimizer, before = bench.learner.ppo.optimizer, bench.learner.ppo.optimizer.steps
        update = _count(counter, bench, bench.learn)
    decisions, steps = bench.rollout.reward.shape[0], optimizer.steps - before
    if not steps:
        raise ConfigError("the update took no optimiser step: raise rollout.num_steps or environment.num_envs")
    counters = {
        "ops_per_decision": (rollout.operations, decisions),
        "syncs_per_decision": (rollout.synchronizations, decisions),
        "ops_per_optimizer_step": (update.operations, steps),
        "syncs_per_optimizer_step": (update.synchronizations, steps),
    }
    places = {
        name: {place: count / per for place, count in counter.most_common()}
        for name, (counter, per) in counters.items()
    }
    totals = {name: counter.total() / per for name, (counter, per) in counters.items()}
    return OperationCounts(**totals, decisions=decisions, optimizer_steps=steps, places=places)


def _in_one_thread(config: TrainerConfig) -> TrainerConfig:
    return config.model_copy(
        update={
            "run": config.run.model_copy(update={"threads": 1}),
            "environment": config.environment.model_copy(update={"processes": 0}),
        }
    )


def _count(counter: OperationCounter, bench: Bench, work: Callable[[], None]) -> PlaceCounts:
    """Count the operations of a call, without the steps of environments."""
    with ExitStack() as stack:
        for worker in bench.collector.workers:
            environment = worker.environment
            step = _without(counter, environment.step)
            stack.enter_context(mock.patch.object(environment, "step", step))
        stack.enter_context(counter.active())
        work()
    return counter.counts


def _without(counter: OperationCounter, plain: Callable[..., Any]) -> Callable[..., Any]:
    def uncounted(*arguments: Any) -> Any:  # noqa: ANN401  arguments of any method
        with counter.paused():
            return plain(*arguments)

    return uncounted


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
