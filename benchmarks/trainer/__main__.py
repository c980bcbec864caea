"""Training throughput against other libraries on the same workload in the same run.

    python -m benchmarks.trainer --peer pufferlib=PYTHON --peer sample_factory=PYTHON --peer sb3=PYTHON

Workload: 64 environments x 128 steps, 64-float observations, 9 continuous actions, encoder 128, LSTM 128, 4 epochs x 4
minibatches. Episodes end at random, and stepping is almost free. Each trainer runs in its own process with its real
rollout and update. Ours runs right before each iteration of another one, and only such pairs are compared.
An iteration counts if others used little of the machine meanwhile (`idle_gate`). The script of each
library below `benchmarks/peers` says how it is had, and how its ratio error is found; pufferlib-128 and sb3-defaults
are other settings of the same libraries.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from rich.console import Console

from benchmarks import record
from benchmarks.peers.workload import Workload
from benchmarks.trainer import acting, iteration, team_battle
from benchmarks.trainer.process import TrainerProcessError
from benchmarks.trainer.report import print_rows
from benchmarks.trainer.trainers import PEERS, VARIANTS, BattleSetup, own_entry, peer_entry

MAX_WAIT_S = 300.0
"""Longest wait for an idle machine, per table."""


def main() -> None:
    """Measure and print."""
    arguments = parse()
    console, report = Console(width=100), {}
    if missing := sorted(PEERS.keys() - {entry.name for entry in arguments.entries}):
        console.print(f"not measured, as --peer NAME=PYTHON does not name them: {', '.join(missing)}\n", style="dim")
    try:
        for part in arguments.parts:
            report[part] = MEASURES[part](console, arguments)
    except TrainerProcessError as error:
        raise SystemExit(f"a trainer process ended: {error}") from error
    record.write(arguments.json, "trainer", [*_rows(report)])


def _rows(report: dict[str, Any]) -> Iterator[record.Row]:
    """One row for each number of the report, named by its place in it; lists of repeats are left out."""
    for part, results in report.items():
        for result in results if isinstance(results, list) else [results]:
            for line in result.get("rows", [result]):
                name = ", ".join(str(value) for value in line.values() if isinstance(value, str))
                numbers = {key: value for key, value in line.items() if isinstance(value, float | int)}
                measured = ", ".join(f"{key} {value:,.4g}" for key, value in numbers.items())
                yield {"work": f"{part}: {name}" if name else part, "measured": measured, "details": line}


def measure_iterations(console: Console, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rollout and update of every trainer, at each setting."""
    report = []
    for threads, end_chance in product(arguments.threads, arguments.end_chance):
        work = Workload(threads=threads, end_chance=end_chance, processor_time=arguments.processor_time)
        rows, gate = iteration.measure(work, arguments.entries, arguments.repeats, arguments.patience)
        print_rows(console, work, rows, gate)
        report.append({"threads": threads, "end_chance": end_chance, "rows": [row.as_json() for row in rows]})
    return report


def measure_acting(console: Console, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Network steps without an environment, on one core."""
    work = Workload(processor_time=arguments.processor_time)
    reference, peers = arguments.entries[0], [entry for entry in arguments.entries if not entry.ours]
    rows, gate = acting.measure(work, [reference, *peers], arguments.repeats, arguments.patience)
    acting.show(console, work, rows, gate)
    return rows


def measure_company(console: Console, arguments: argparse.Namespace) -> dict[str, Any]:
    """A team battle end to end, against many opponents."""
    scene = BattleSetup(threads=max(arguments.threads), device=arguments.device)
    figures, gate = team_battle.measure(scene, arguments.repeats, arguments.patience)
    team_battle.show(console, scene, figures, gate)
    return figures


MEASURES = {"iteration": measure_iterations, "acting": measure_acting, "company": measure_company}


def parse() -> argparse.Namespace:
    """Parse the command line, with one entry per trainer."""
    parser = argparse.ArgumentParser("python -m benchmarks.trainer", description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--ours",
        nargs="+",
        default=["exact"],
        choices=list(VARIANTS),
        help="variants; the first is the reference",
    )
    parser.add_argument("--parts", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--end-chance", type=float, nargs="+", default=[0.01])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-gate", action="store_true", help="count every iteration, even if the machine is busy")
    record.add_json_option(parser)
    parser.add_argument("--processor-time", action="store_true", help="measure CPU time, not wall time")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="device of the part company")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU on this machine; take --device cpu")
    if arguments.processor_time and arguments.threads != [1]:
        parser.error(f"--processor-time needs --threads 1, not {arguments.threads}: waiting threads use no CPU time")
    try:
        arguments.entries = [
            *(own_entry(variant) for variant in arguments.ours),
            *(peer_entry(each) for each in arguments.peer),
        ]
    except ValueError as error:
        parser.error(str(error))
    arguments.patience = None if arguments.no_gate else MAX_WAIT_S
    return arguments


if __name__ == "__main__":
    main()
