"""Speed, memory and restarts of a run on one GPU. See docs/guides/train/gpu.md."""

import signal
import subprocess
import sys
import time

import pytest
import torch
from gpus import DEVICE, bench_of, needs_gpus

from arena.environments import make
from arena.play.throughput import measure
from arena.policies import NetworkPolicy
from arena.seeding import derive
from trainer.config.loading import resolve
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import Opponent
from trainer.ppo.learner import build_network
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.dry_run import estimate_run
from trainer.runtime.memory import GPU_SHARE, PROGRAM
from trainer.runtime.torch_setup import configure_torch

pytestmark = [*needs_gpus(1), pytest.mark.timeout(900)]

AIMS = {"simulated": 10_000_000, "trained": 2_000_000}
"""Agent steps per second of mech-company that one H200 is meant to reach; no test requires them."""

CPU_AGENT_STEPS = 28_000
"""Agent steps per second of mech-company on one CPU core, all included."""


def gpu_clock():
    torch.cuda.synchronize(DEVICE)
    return time.perf_counter()


def test_agent_steps_per_second_are_printed_beside_the_aims(capsys, record_property):
    """A GPU that is slower than one CPU core has a defect."""
    config = resolve("mech-company", None, ["rollout.num_steps=32"], overlay="gpu")
    configure_torch(config.run)
    env = make("mech-company", num_envs=config.environment.num_envs, device=DEVICE)
    rng = torch.Generator(DEVICE).manual_seed(0)
    simulated = measure(env, steps=50, repeats=3, clock=gpu_clock, rng=rng).agent_steps_per_s
    del env
    trained = Bench(config, opponents=4).measure(2).agent_steps_per_s
    lines = [f"mech-company, {config.environment.num_envs:,} matches on {torch.cuda.get_device_name(DEVICE)}:"]
    for name, reached in (("simulated", simulated), ("trained", trained)):
        record_property(f"{name}_agent_steps_per_s", reached)
        lines.append(f"{reached:16,.0f} agent steps/s {name}, {reached / AIMS[name]:.2f} of the aim {AIMS[name]:,}")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert min(simulated, trained) > 4 * CPU_AGENT_STEPS


class NewOpponents:
    """Gives every match an opponent that was never met before, with weights on the host."""

    def __init__(self, settings, spec):
        self._settings, self._spec, self.met = settings, spec, 0

    def next_match(self, row):
        self.met += 1
        network = build_network(self._settings, self._spec, self.met).eval()
        policy = NetworkPolicy(network, self._spec.name, self._spec.signature)
        opponent = Opponent(f"opponent {self.met}", "opponent", policy)
        seed = derive(0, "met", self.met)
        return MatchAssignment(opponent, False, seed, None, self.met, self_play_match=False)


def test_memory_is_bounded_over_a_thousand_opponents():
    """Their weights on the device are those of the present ones and of a cache of `league.device_cache_bytes`."""
    sizes = ["environment.num_envs=32", "environment.self_play=0", "rollout.num_steps=32", "rollout.bptt_horizon=8"]
    bench = bench_of("rps", *sizes, "league.device_cache_bytes=8000000", opponents=1)
    [worker] = bench.collector.workers
    source = bench.collector._match_source = NewOpponents(bench.learner.config.network, worker.environment.spec)
    allocated = []
    while source.met < 2000:
        bench.collect()
        allocated.append(torch.cuda.memory_allocated(DEVICE))
        assert len(allocated) < 100, f"only {source.met} matches ended"
    filled = next(number for number, _ in enumerate(allocated) if number >= len(allocated) // 2)
    assert max(allocated[filled:]) - allocated[filled] < 2**20


def test_the_estimate_of_memory_covers_what_an_update_takes():
    settings = [f"run.device={DEVICE}", "environment.num_envs=1024", "ppo.compile=none"]
    config = resolve("mech-pack", None, settings, overlay="gpu")
    configure_torch(config.run)
    parts = estimate_run(config).memory_bytes
    estimated = sum(size for part, size in parts.items() if part != PROGRAM)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(DEVICE)
    before = torch.cuda.memory_allocated(DEVICE)
    bench = Bench(config, opponents=2)
    bench.collect()
    bench.learn()
    taken = torch.cuda.max_memory_allocated(DEVICE) - before
    assert taken < estimated / GPU_SHARE


def test_the_gpu_preset_compiles_its_update_and_moves_every_weight():
    sizes = ["environment.num_envs=64", "rollout.num_steps=32", "ppo.num_minibatches=2"]
    config = resolve("mech-duel", None, sizes, overlay="gpu")
    configure_torch(config.run)
    bench = Bench(config, opponents=2)
    weights = list(bench.learner.network.core.parameters())
    before = [each.detach().clone() for each in weights]
    bench.collect()
    bench.learn()
    assert not bench.learner.ppo._compute_loss.fell_back
    assert all(not torch.equal(each, old) for each, old in zip(weights, before, strict=True))


def start(run, *options):
    settings = [f"run.device={DEVICE}", "run.save_every_updates=2", "environment.num_envs=8", "rollout.num_steps=16"]
    words = [word for each in settings for word in ("--set", each)]
    command = [sys.executable, "-m", "trainer", "run", "--environment", "rps", "--run", str(run), *words, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_killed_run_resumes_on_the_gpu_from_its_last_saved_state(tmp_path):
    run = tmp_path / "run"
    with start(run) as killed:
        lines = iter(killed.stdout.readline, "")
        assert any("update 6 " in line for line in lines)
        killed.send_signal(signal.SIGKILL)
    with start(run, "--set", "run.total_timesteps=2560") as resumed:
        said = resumed.stdout.read()
    assert resumed.returncode == 0, said[-3000:]
    [line] = [line for line in said.splitlines() if line.startswith("resumed at step")]
    assert int(line.removeprefix("resumed at step ").replace(",", "")) >= 4 * 128
