"""What to look at in the first hour with a GPU. See docs/guides/train/gpu.md."""

import json

import pytest
import torch
from gpus import DEVICE, bench_of, needs_gpus, run_python
from torch.utils._python_dispatch import TorchDispatchMode

from trainer.runtime.torch_setup import device_bytes

pytestmark = [*needs_gpus(1), pytest.mark.timeout(900)]

SMALL = ["environment.num_envs=32", "rollout.num_steps=32"]
GAMES = ["mech-duel", "mech-company"]


def largest_ratio_error(game, *settings):
    words = [word for each in (f"run.device={DEVICE}", *SMALL, *settings) for word in ("--set", each)]
    command = ["-m", "trainer", "bench", "--environment", game, "--consistency", "--json", *words]
    printed, said = run_python(*command)
    assert "single contiguous chunk" not in said, "cuDNN copies the weights of the LSTM at every call"
    return json.loads(printed.splitlines()[-1])["largest"]


# --- rollout and update agree ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", GAMES)
def test_rollout_and_update_agree_in_float32(game):
    """One of them in TF32 would be off by about 1e-3."""
    assert largest_ratio_error(game) < 1e-4


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("setting", ["ppo.precision=bfloat16", "run.matmul_precision=high"], ids=["bfloat16", "tf32"])
def test_rollout_and_update_agree_in_a_lower_precision_within_its_rounding(game, setting):
    """A CPU's bfloat16 is off by 4e-4 in mech-duel, and by 1e-3 in mech-company."""
    assert largest_ratio_error(game, setting) < 5e-3


# --- one update ------------------------------------------------------------------------------------------------------


class Types(TorchDispatchMode):
    """Types of all tensors that operations give."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        results = result if isinstance(result, tuple | list) else [result]
        self.seen |= {each.dtype for each in results if isinstance(each, torch.Tensor)}
        return result


def learn(bench):
    """One rollout and its update; how far it moved each parameter of the LSTM."""
    weights = list(bench.learner.network.core.parameters())
    before = [each.detach().clone() for each in weights]
    bench.collect()
    bench.learn()
    assert bench.learner.ppo.rejected_steps == 0
    return [float((each.detach() - old).abs().max()) for each, old in zip(weights, before, strict=True)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_update_moves_every_weight_of_the_lstm(precision):
    """A warning, such as that weights are not in one chunk of memory, is an error here."""
    moved = learn(bench_of("mech-duel", *SMALL, f"ppo.precision={precision}", opponents=2))
    assert min(moved) > 0.0


def test_an_update_in_half_precision_uses_bfloat16_and_never_float16():
    bench = bench_of("mech-duel", *SMALL, "ppo.precision=bfloat16")
    bench.collect()
    with Types() as types:
        bench.learn()
    assert torch.bfloat16 in types.seen
    assert torch.float16 not in types.seen


def test_weights_of_the_lstm_stay_in_one_chunk_of_memory():
    bench = bench_of("mech-duel", *SMALL)
    learn(bench)
    weights = bench.learner.network.core.lstm.all_weights[0]
    assert len({each.untyped_storage().data_ptr() for each in weights}) == 1
    assert weights[0].storage_offset() == 0


def test_environments_of_several_processes_are_learned_from():
    bench = bench_of("zoo_games:relay", "environment.num_envs=8", "environment.processes=2", "rollout.num_steps=32")
    assert len(bench.collector.workers) == 2
    assert min(learn(bench)) > 0.0


def test_a_game_of_images_is_learned_from():
    bench = bench_of("space_games:bazaar", "environment.num_envs=8", "rollout.num_steps=32", "network.image_channels=8")
    (encoder,) = bench.learner.network.images
    before = [each.detach().clone() for each in encoder.parameters()]
    learn(bench)
    for parameter, old in zip(encoder.parameters(), before, strict=True):
        assert not torch.equal(parameter.detach(), old)


# --- the same again --------------------------------------------------------------------------------------------------


REPEATED = f"""
from gpus import bench_of, digest

bench = bench_of("mech-duel", *{SMALL}, "run.deterministic=true", opponents=2)
for _ in range(2):
    bench.collect()
    bench.learn()
print(digest(bench.learner.network))
"""


def test_a_deterministic_run_repeats_to_the_last_bit():
    """In processes of their own, since the workspace of cuBLAS is chosen before its first product."""
    one, other = (run_python("-c", REPEATED)[0] for _ in range(2))
    assert one == other
    assert len(one.strip()) == 64


# --- memory and time -------------------------------------------------------------------------------------------------


def test_a_dry_run_asks_the_gpu_for_its_memory():
    printed, _ = run_python(
        *("-m", "trainer", "run", "--environment", "mech-duel", "--dry-run", "--json"), "--set", f"run.device={DEVICE}"
    )
    planned = json.loads(printed)
    _, whole = torch.cuda.mem_get_info(DEVICE)
    assert 0 < planned["device_bytes"] <= whole
    assert 0 < device_bytes(torch.device(DEVICE)) <= whole


DECISIONS = 10
LAUNCHES_OF_A_DECISION, WAITS_OF_A_DECISION = 400, 4
LAUNCHES_OF_A_STEP, WAITS_OF_A_STEP = 1200, 40
"""About twice what was counted on a CPU: 151 operations and 1 to 2 blocking copies of a decision, 438 and 15 of an
optimiser's step. Lower them once they were measured."""


def counted(work):
    """Kernels that were launched, and times that the host waited for the device."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        work()
        torch.cuda.synchronize(DEVICE)
    counts = {each.key: each.count for each in profile.key_averages()}
    launches = sum(count for name, count in counts.items() if name.startswith(("cudaLaunchKernel", "cuLaunchKernel")))
    return launches, counts.get("cudaStreamSynchronize", 0)


def test_decisions_and_updates_launch_and_wait_no_more_than_was_counted(record_property):
    """The same by hand: `nsys profile trainer bench --environment mech-duel --set run.device=cuda`."""
    bench = bench_of("mech-duel", *SMALL[:1], f"rollout.num_steps={DECISIONS}", "rollout.bptt_horizon=5", opponents=4)
    bench.collect()
    bench.learn()
    launches, waits = counted(bench.collect)
    record_property("launches_of_a_decision", launches / DECISIONS)
    record_property("waits_of_a_decision", waits / DECISIONS)
    assert launches <= DECISIONS * LAUNCHES_OF_A_DECISION
    assert waits <= DECISIONS * WAITS_OF_A_DECISION
    steps = bench.learner.ppo.optimizer.steps
    launches, waits = counted(bench.learn)
    steps = bench.learner.ppo.optimizer.steps - steps
    record_property("launches_of_a_step", launches / steps)
    record_property("waits_of_a_step", waits / steps)
    assert launches <= steps * LAUNCHES_OF_A_STEP
    assert waits <= steps * WAITS_OF_A_STEP
