"""Operations and host synchronisations per decision and per optimiser step: the launch overhead of a run on a device.

On a CPU the native kernels are switched off, so that the same Python code runs as on a device. Functions under
torch.compile count the kernels of their graphs, see `compiled_kernels.py`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from arena.policies.ensemble.torch_backend import DEVICE_CALL_OVERHEAD_ROWS
from trainer.config.algorithm import CompileBackend
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.learner import Learner
from trainer.ppo.targets.normalization import DEVICE_SLICE_ELEMENTS
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.operation_counter import OperationCounter, PlaceCounts


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
