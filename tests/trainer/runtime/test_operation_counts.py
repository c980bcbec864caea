import json
import subprocess
import sys

import pytest
import torch

from trainer.config.loading import resolve
from trainer.errors import ConfigError
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.operation_counter import OperationCounter
from trainer.runtime.benchmark.operation_counts import count_operations, device_code_on_cpu

CPU = torch.device("cpu")
SMALL = [
    "environment.num_envs=8",
    "rollout.num_steps=32",
    "rollout.bptt_horizon=16",
    "network.encoder_sizes=[16]",
    "network.recurrent_size=16",
    "ppo.num_minibatches=4",
    "ppo.update_epochs=2",
]


def counted(work):
    counter = OperationCounter(CPU)
    with counter.active():
        work()
    return counter.counts.operations.total(), counter.counts.synchronizations.total()


@pytest.mark.parametrize(
    ("environment", "ops", "syncs", "step_ops", "step_syncs"),
    [("mech-duel", 122, 1.1, 308, 3.1), ("mech-pack", 136, 1.1, 337, 3.1)],
)
def test_counts_stay_within_their_bounds(environment, ops, syncs, step_ops, step_syncs):
    counts = count_operations(resolve(environment, None, SMALL), opponents=2)
    assert counts.decisions == 32
    assert counts.optimizer_steps == 8
    assert 0 < counts.ops_per_decision <= ops
    assert 1 <= counts.syncs_per_decision <= syncs
    assert 0 < counts.ops_per_optimizer_step <= step_ops
    assert 0 < counts.syncs_per_optimizer_step <= step_syncs


@pytest.mark.integration
def test_counts_of_a_compiled_update_stay_within_their_bounds():
    """In a process of its own: shapes are not checked there, as in every run outside of these tests."""
    overrides = [word for each in [*SMALL, "ppo.compile=inductor"] for word in ("--set", each)]
    command = [sys.executable, "-m", "trainer", "bench", "--count", "--json", "--environment", "mech-pack"]
    done = subprocess.run([*command, *overrides], capture_output=True, text=True, check=True, timeout=280)
    counts = json.loads(done.stdout)
    assert 0 < counts["ops_per_decision"] <= 121
    assert 0 < counts["ops_per_optimizer_step"] <= 187
    assert 0 < counts["syncs_per_optimizer_step"] <= 3.1


def test_only_a_compiler_with_known_kernels_can_be_counted():
    with pytest.raises(ConfigError, match="aot_eager"):
        count_operations(resolve("rps", None, [*SMALL, "ppo.compile=aot_eager"]))


def test_each_total_is_the_sum_over_its_places_and_the_most_frequent_comes_first():
    counts = count_operations(resolve("rps", None, SMALL))
    for name, places in counts.places.items():
        assert sum(places.values()) == pytest.approx(getattr(counts, name))
        assert list(places.values()) == sorted(places.values(), reverse=True)
    reads = counts.places["syncs_per_decision"]
    assert next(iter(reads)).startswith("trainer/rollout/vector_worker.py:")


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda x: x + 1, (1, 0)),
        (lambda x: x.view(2, 2).t()[0].detach(), (0, 0)),
        (lambda x: x.to(torch.float32), (0, 0)),
        (lambda x: x.to(torch.float64), (1, 0)),
        (lambda x: torch.empty_like(x), (0, 0)),
        (lambda x: x.sum().item(), (1, 1)),
        (lambda x: bool((x > 0).any()), (2, 1)),
        (lambda x: x.tolist(), (0, 1)),
        (lambda x: x.cpu(), (0, 1)),
        (lambda x: x[x > 0], (2, 1)),
        (lambda x: x.nonzero(), (1, 1)),
        (lambda x: x.index_select(0, torch.tensor([1])), (1, 1)),
        (lambda x: x.new_tensor(1.0), (0, 1)),
    ],
)
@pytest.mark.parametrize("inference", [False, True])
def test_operations_and_synchronisations_are_told_apart(work, expected, inference):
    with torch.inference_mode(inference):
        values = torch.ones(4)
        assert counted(lambda: work(values)) == expected


def test_a_paused_counter_counts_nothing():
    counter = OperationCounter(CPU)
    with counter.active(), counter.paused():
        (torch.ones(4) + torch.tensor([1.0])).tolist()
    assert not counter.counts.operations
    assert not counter.counts.synchronizations


def test_counting_leaves_the_native_code_of_later_runs_on():
    with device_code_on_cpu():
        assert not Bench(resolve("rps", None, SMALL)).collector.workers[0].actor.has_native_step
    assert Bench(resolve("mech-duel", None, ["environment.num_envs=2"])).collector.workers[0].actor.has_native_step


def test_an_update_without_a_step_cannot_be_counted(monkeypatch):
    monkeypatch.setattr(Bench, "learn", lambda bench: None)
    with pytest.raises(ConfigError, match="no optimiser step"):
        count_operations(resolve("rps", None, SMALL))
