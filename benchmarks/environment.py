"""How fast the mech arena is: one core against VMAS in the same run, and a GPU where there is one.

    python -m benchmarks.environment --vmas-python vmas-venv/bin/python

CPU seconds of the stepping thread, one torch thread. Every repeat measures all rows one after the other, so that a busy
machine slows all of them; medians are printed. `peers/run_vmas.py` says how to install the reference.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from arena.environments import declare, make, make_baseline
from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.play.runner import play
from arena.play.throughput import measure, measure_memory
from benchmarks import record

MATCHES_AT_ONCE, DUELS_AT_ONCE, GPU_MATCHES_AT_ONCE = 256, 1024, 8192
STEPS = {"mech-duel": 400, "mech-company": 60}
VMAS_STEPS = 20
GPU_STEPS = 300
COPIED_BYTES = 2**30
NOT_MEASURED = "not measured here"

COMPANY = f"mech-company, {MATCHES_AT_ONCE} at once, random actions: agent steps/s"
DUEL = f"mech-duel, {DUELS_AT_ONCE} at once, random actions: agent steps/s"
PLAYED = {
    "mech-pack": f"mech-pack, {MATCHES_AT_ONCE} at once, lieutenants: matches of 240 decisions/s",
    "mech-company": f"mech-company, {MATCHES_AT_ONCE} at once, lieutenants: matches of 500 decisions/s",
}
FOOTBALL = f"VMAS 1.5.2 football 10 v 10, {MATCHES_AT_ONCE} at once, random actions: agent steps/s"
ROWS: list[record.Row] = []
"""What was printed."""

AIMS = {COMPANY: "250,000", DUEL: "1,000,000", PLAYED["mech-pack"]: "60", PLAYED["mech-company"]: "-", FOOTBALL: "-"}


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vmas-python", default=sys.executable, help="interpreter that has VMAS 1.5.2")
    parser.add_argument("--repeats", type=int, default=5)
    record.add_json_option(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    works = {
        COMPANY: lambda: random_play("mech-company", MATCHES_AT_ONCE),
        DUEL: lambda: random_play("mech-duel", DUELS_AT_ONCE),
        PLAYED["mech-pack"]: lambda: lieutenants("mech-pack"),
        PLAYED["mech-company"]: lambda: lieutenants("mech-company"),
    }
    if football := start_football(arguments.vmas_python):
        works[FOOTBALL] = lambda: ask(football)
    measured = repeat(works, arguments.repeats)
    if football:
        football.communicate()
    print(f"{record.processor()}, one core, CPU seconds, medians of {arguments.repeats} repeats in turn\n")
    print_row("", "measured", "aim")
    for name, values in measured.items():
        print_row(name, f"{statistics.median(values):,.0f}", AIMS[name])
    print_ratio(measured)
    print_memory()
    print_gpu(arguments.repeats)
    record.write(arguments.json, "environment", ROWS)


def repeat(works: dict[str, Callable[[], float]], repeats: int) -> dict[str, list[float]]:
    """Measure everything in turn, so often; the first round loads and compiles and does not count."""
    rounds = [{name: work() for name, work in works.items()} for _ in range(repeats + 1)]
    return {name: [each[name] for each in rounds[1:]] for name in works}


def random_play(environment: str, num_envs: int) -> float:
    """Agent steps a second under random actions: simulation, observation and reward."""
    env = make(environment, num_envs=num_envs)
    rng = torch.Generator().manual_seed(0)
    return measure(env, steps=STEPS[environment], repeats=1, clock=time.thread_time, rng=rng).agent_steps_per_s


class StepCounter:
    """Counts the decisions of all rows, those of rows that have run out of matches too."""

    def opened(self, env: Environment, observation: Observation) -> None:
        """Begin at nothing."""
        self.rows, self.decisions = env.num_envs, 0

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Count one decision of every row."""
        self.decisions += self.rows


def lieutenants(environment: str) -> float:
    """Matches of full length a second, players included."""
    policy, counter = make_baseline(environment, "lieutenant"), StepCounter()
    start = time.thread_time()
    play(
        environment,
        policy,
        policy,
        range(MATCHES_AT_ONCE),
        torch.Generator(),
        max_envs=MATCHES_AT_ONCE,
        watcher=counter,
    )
    seconds = time.thread_time() - start
    return counter.decisions / declare(environment).max_decisions / seconds


def start_football(python: str) -> "subprocess.Popen[str] | None":
    """The other side, warmed up; nothing where its interpreter has no VMAS."""
    command = [python, str(Path(__file__).parent / "peers" / "run_vmas.py"), str(MATCHES_AT_ONCE), str(VMAS_STEPS)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line == "ready\n":
            return child
    child.wait()
    return None


def ask(football: "subprocess.Popen[str]") -> float:
    """One repeat of the other side."""
    assert football.stdin is not None
    assert football.stdout is not None
    football.stdin.write("go\n")
    football.stdin.flush()
    return float(football.stdout.readline())


def print_row(name: str, value: str, aim: str) -> None:
    """Print one line of the table, and keep it for the record if it has a measured value."""
    print(f"{name:78}{value:>20}{aim:>12}")
    if name and value != NOT_MEASURED:
        ROWS.append({"work": name.strip(), "measured": value, "aim": "" if aim == "-" else aim})


def print_ratio(measured: dict[str, list[float]]) -> None:
    """Print mech-company over football, repeat by repeat."""
    name = "mech-company over VMAS football, the same core and run: ratio of agent steps/s"
    if FOOTBALL in measured:
        ratios = [ours / theirs for ours, theirs in zip(measured[COMPANY], measured[FOOTBALL], strict=True)]
        print_row(name, f"{statistics.median(ratios):.2f}", "above 1")
    else:
        print_row(name, NOT_MEASURED, "above 1")
        print("    VMAS is not installed for --vmas-python: see benchmarks/peers/run_vmas.py")


def print_memory() -> None:
    """Print what one match takes."""
    memory = measure_memory(make("mech-company", num_envs=MATCHES_AT_ONCE))
    total = memory.state + memory.observation
    print_row("mech-company, memory of a match: state and observation, kB", f"{total / 1000:.1f}", "200")
    print_row("    of it the state, kB", f"{memory.state / 1000:.1f}", "-")
    print_row("    beside it, once for all matches: maps and constants, kB", f"{memory.shared / 1000:,.0f}", "-")


def print_gpu(repeats: int) -> None:
    """Print the rows that need a GPU; seconds there are those of the wall."""
    name = f"mech-company on a GPU, {GPU_MATCHES_AT_ONCE} at once, captured in a graph: agent steps/s"
    share = "    bytes of state and observation per step, as a share of what copying moves"
    if not torch.cuda.is_available():
        print_row(name, NOT_MEASURED, "10,000,000")
        print_row(share, NOT_MEASURED, "-")
        return
    env = make("mech-company", num_envs=GPU_MATCHES_AT_ONCE, device="cuda")
    rng = torch.Generator("cuda").manual_seed(0)
    speed = measure(env, steps=GPU_STEPS, repeats=repeats, clock=gpu_clock, rng=rng)
    memory = measure_memory(env)
    moved = (2 * memory.state + memory.observation) * speed.env_steps_per_s
    print_row(f"{torch.cuda.get_device_name()}: {name}", f"{speed.agent_steps_per_s:,.0f}", "10,000,000")
    print_row(share, f"{moved / copying_bandwidth(repeats):.1%}", "-")


def gpu_clock() -> float:
    """Seconds, once the GPU has done what it was told."""
    torch.cuda.synchronize()
    return time.perf_counter()


def copying_bandwidth(repeats: int) -> float:
    """Bytes a second that copying reads and writes on the GPU."""
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = []
    for _ in range(repeats + 1):
        start = gpu_clock()
        target.copy_(source)
        seconds.append(gpu_clock() - start)
    return 2 * COPIED_BYTES / statistics.median(seconds[1:])


if __name__ == "__main__":
    main()
