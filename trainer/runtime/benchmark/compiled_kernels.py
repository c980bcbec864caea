"""Kernels of compiled graphs, counted without generating their code: it needs neither a compiler nor a GPU.

inductor lowers a graph and fuses its operations for the device of the run. Then each group of fused operations and
each call of a library counts as one kernel. A count from a CPU is an estimate for a GPU, where inductor may fuse
differently.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, ParamSpec, TypeVar
from unittest import mock

import torch
import torch._functorch.config
import torch._inductor.config
from torch._inductor import compile_fx
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import NopKernelSchedulerNode
from torch.fx import GraphModule

from trainer.runtime.benchmark.operation_counter import OperationCounter

P = ParamSpec("P")
R = TypeVar("R")


class _LoweredError(Exception):
    """Ends inductor once it has fused the operations of a graph."""


@contextmanager
def count_kernels(counter: OperationCounter) -> Iterator[None]:
    """Within, graphs that are compiled by inductor run in eager mode, and the counter counts their kernels."""
    compile_function, compile_graph = torch.compile, compile_fx.compile_fx

    def compile_suspended(function: Callable[P, R], **options: Any) -> Callable[P, R]:  # noqa: ANN401  any option
        compiled = compile_function(function, **options)

        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with counter.suspended():
                return compiled(*args, **kwargs)

        return call

    def compile_counted(model: GraphModule, inputs: Sequence[Any], **options: Any) -> Any:  # noqa: ANN401  see inductor
        return compile_graph(model, inputs, **{**options, "inner_compile": partial(_count_kernels, counter)})

    with (
        mock.patch.object(torch, "compile", compile_suspended),
        mock.patch.object(compile_fx, "compile_fx", compile_counted),
        # A cached graph is not lowered.
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


def _count_kernels(
    counter: OperationCounter,
    graph: GraphModule,
    inputs: Sequence[Any],
    **options: Any,  # noqa: ANN401  inductor's own
) -> Callable[[list[Any]], Any]:
    """Return the graph in eager mode, in the calling convention of a graph that inductor compiled."""
    plain = copy.deepcopy(graph)  # lowering changes the graph
    kernels = _kernels(graph, inputs, options)

    def run(args: list[Any]) -> Any:  # noqa: ANN401  any result
        given = list(args)
        args.clear()
        counter.add_kernels(kernels)
        with counter.suspended():
            return plain(*given)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _kernels(graph: GraphModule, inputs: Sequence[Any], options: dict[str, Any]) -> int:
    """Return the number of groups of fused operations."""
    found: list[int] = []

    def stop(lowering: GraphLowering) -> NoReturn:
        lowering.init_wrapper_code()
        lowering._update_scheduler()
        found.append(sum(not isinstance(node, NopKernelSchedulerNode) for node in lowering.scheduler.nodes))
        raise _LoweredError

    with mock.patch.object(GraphLowering, "codegen", stop):
        try:
            compile_fx.compile_fx_inner(graph, inputs, **options)
        except Exception:  # inductor wraps ours in its own
            if not found:
                raise
    return sum(found)
