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

import torch
from rich.console import Console

from benchmarks import record
from benchmarks.peers.workload import Workload
from benchmarks.trainer import acting, iteration, team_battle
from benchmarks.trainer.process import TrainerProcessError
from benchmarks.trainer.report import acting_records, battle_records, iteration_records, print_rows
from benchmarks.trainer.trainers import PEERS, VARIANTS, BattleSetup, own_entry, peer_entry

MAX_WAIT_S = 300.0
"""Longest wait for an idle machine, per table."""


def main() -> None:
    """Measure and print."""
    arguments = parse()
    console = Console(width=100)
    rows: list[record.Row] = []
    if missing := sorted(PEERS.keys() - {entry.name for entry in arguments.entries}):
        console.print(f"not measured, as --peer NAME=PYTHON does not name them: {', '.join(missing)}\n", style="dim")
    try:
        for part in arguments.parts:
            rows += MEASURES[part](console, arguments)
    except TrainerProcessError as error:
        raise SystemExit(f"a trainer process ended: {error}") from error
    record.write(arguments.json, "trainer", rows)


def measure_iterations(console: Console, arguments: argparse.Namespace) -> Iterator[record.Row]:
    """Rollout and update of every trainer, at each setting."""
    for threads, end_chance in product(arguments.threads, arguments.end_chance):
        work = Workload(threads=threads, end_chance=end_chance, processor_time=arguments.processor_time)
        rows, gate = iteration.measure(work, arguments.entries, arguments.repeats, arguments.patience)
        print_rows(console, work, rows, gate)
        yield from iteration_records(threads, rows)


def measure_acting(console: Console, arguments: argparse.Namespace) -> Iterator[record.Row]:
    """Network steps without an environment, on one core."""
    work = Workload(processor_time=arguments.processor_time)
    reference, peers = arguments.entries[0], [entry for entry in arguments.entries if not entry.ours]
    rows, gate = acting.measure(work, [reference, *peers], arguments.repeats, arguments.patience)
    acting.show(console, work, rows, gate)
    return acting_records(rows)


def measure_company(console: Console, arguments: argparse.Namespace) -> Iterator[record.Row]:
    """A team battle end to end, against many opponents."""
    setup = BattleSetup(threads=max(arguments.threads), device=arguments.device)
    metrics, gate = team_battle.measure(setup, arguments.repeats, arguments.patience)
    team_battle.show(console, setup, metrics, gate)
    return battle_records(setup, metrics)


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
