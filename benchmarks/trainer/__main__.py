"""How fast the trainer is, beside other libraries on the same work in the same run.

    python -m benchmarks.trainer --peer pufferlib=PYTHON --peer sample_factory=PYTHON --peer sb3=PYTHON

The work: 64 environments x 128 steps, 64-float observations, 9 continuous actions, encoder 128, LSTM 128, 4 epochs x 4
minibatches; episodes end by chance, stepping is almost free. Every trainer runs in a process of its own and does its
real rollout and its real update; ours runs right before each other one's iteration, and only such pairs are compared.
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
from benchmarks.peers.workload import Work
from benchmarks.trainer import acting, iteration, team_battle
from benchmarks.trainer.process import ContestantError
from benchmarks.trainer.report import print_rows
from benchmarks.trainer.trainers import PEERS, VARIANTS, Scene, other, own

PATIENCE_S = 300.0
"""How long one table waits for a quiet machine."""


def main() -> None:
    """Measure and print."""
    arguments = parse()
    console, report = Console(width=100), {}
    if missing := sorted(PEERS.keys() - {entry.name for entry in arguments.entries}):
        console.print(f"not measured, as --peer NAME=PYTHON does not name them: {', '.join(missing)}\n", style="dim")
    try:
        for part in arguments.parts:
            report[part] = MEASURES[part](console, arguments)
    except ContestantError as error:
        raise SystemExit(f"nothing more can be measured: {error}") from error
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
    """Rollout and update of everybody, at each setting."""
    report = []
    for threads, end_chance in product(arguments.threads, arguments.end_chance):
        work = Work(threads=threads, end_chance=end_chance, processor_time=arguments.processor_time)
        rows, gate = iteration.measure(work, arguments.entries, arguments.repeats, arguments.patience)
        print_rows(console, work, rows, gate)
        report.append({"threads": threads, "end_chance": end_chance, "rows": [row.as_json() for row in rows]})
    return report


def measure_acting(console: Console, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps without an environment, on one core."""
    work = Work(processor_time=arguments.processor_time)
    reference, peers = arguments.entries[0], [entry for entry in arguments.entries if not entry.ours]
    rows, gate = acting.measure(work, [reference, *peers], arguments.repeats, arguments.patience)
    acting.show(console, work, rows, gate)
    return rows


def measure_company(console: Console, arguments: argparse.Namespace) -> dict[str, Any]:
    """A team battle end to end, against many opponents."""
    scene = Scene(threads=max(arguments.threads), device=arguments.device)
    figures, gate = team_battle.measure(scene, arguments.repeats, arguments.patience)
    team_battle.show(console, scene, figures, gate)
    return figures


MEASURES = {"iteration": measure_iterations, "acting": measure_acting, "company": measure_company}


def parse() -> argparse.Namespace:
    """The command line, with entries made of names and interpreters."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--ours", nargs="+", default=["exact"], choices=list(VARIANTS), help="the first runs beside all"
    )
    parser.add_argument("--parts", nargs="+", default=list(MEASURES), choices=list(MEASURES))
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--end-chance", type=float, nargs="+", default=[0.01])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-gate", action="store_true", help="count every iteration, on a crowded machine")
    record.add_json_option(parser)
    parser.add_argument("--processor-time", action="store_true", help="of one thread, where the machine is crowded")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of the part `company`")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU on this machine; take --device cpu")
    if arguments.processor_time and arguments.threads != [1]:
        parser.error(
            f"--processor-time says nothing about --threads {arguments.threads}: threads wait; take --threads 1"
        )
    try:
        arguments.entries = [*(own(variant) for variant in arguments.ours), *(other(each) for each in arguments.peer)]
    except ValueError as error:
        parser.error(str(error))
    arguments.patience = None if arguments.no_gate else PATIENCE_S
    return arguments


if __name__ == "__main__":
    main()
