"""How fast the trainer is, beside other libraries on the same work in the same run.

    python -m benchmarks.trainer --peer pufferlib=PYTHON --peer sample_factory=PYTHON --peer sb3=PYTHON

The work: 64 environments x 128 steps, 64-float observations, 9 continuous actions, encoder 128, LSTM 128, 4 epochs x 4
minibatches; episodes end by chance, stepping is almost free. Every trainer runs in a process of its own and does its
real rollout and its real update; ours runs right before each other one's iteration, and only such pairs are compared.
An iteration counts if others used little of the machine meanwhile (`benchmarks/contest/gate.py`). The script of each
library below `benchmarks/other` says how it is had, and how its ratio error is found; pufferlib-128 and sb3-defaults
are other settings of the same libraries.
"""

import argparse
import json
import os
from functools import partial
from itertools import product
from pathlib import Path

from rich.console import Console

from benchmarks.contest.contestant import Contestant, ContestantError
from benchmarks.contest.entries import OURS, PEERS, VARIANTS, Entry, other, own
from benchmarks.contest.gate import Gate, look
from benchmarks.contest.pairs import Series, Times, advantage, race
from benchmarks.contest.report import Row, print_rows, summary
from benchmarks.other.work import Work

PATIENCE_S = 30.0
WARM_UP, STILL_ITERATIONS = 2, 2


def main() -> None:
    """Measure and print."""
    arguments = parse()
    console, report = Console(width=100), []
    if missing := sorted(PEERS.keys() - {entry.name for entry in arguments.entries}):
        console.print(f"not measured, as --peer NAME=PYTHON does not name them: {', '.join(missing)}\n", style="dim")
    for threads, end_chance in product(arguments.threads, arguments.end_chance):
        work = Work(threads=threads, end_chance=end_chance, processor_time=arguments.processor_time)
        rows, gate = contest(work, arguments.entries, arguments.repeats, arguments.patience)
        print_rows(console, work, rows, gate)
        report.append({"threads": threads, "end_chance": end_chance, "rows": [row.as_json() for row in rows]})
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2))


def contest(work: Work, entries: list[Entry], repeats: int, patience_s: float | None) -> tuple[list[Row], Gate]:
    """Measure everybody at one setting; the first entry is the one that the others run beside."""
    running, absent = start(entries, work)
    gate = Gate(patience_s, lambda: look([os.getpid(), *(each.process for each in running.values())]))
    for each in running.values():
        for _ in range(WARM_UP):
            iterate(each)
    measures = {name: partial(gate.measure, partial(iterate, each)) for name, each in running.items()}
    series = race(measures[entries[0].name], measures, repeats)
    rows = [row(entry, work, series, running, absent) for entry in entries]
    return rows, gate


def start(entries: list[Entry], work: Work) -> tuple[dict[str, Contestant], dict[str, str]]:
    """Everybody who can run, and why the others cannot."""
    running, absent = {}, {}
    for entry in entries:
        try:
            running[entry.name] = entry.start(work)
        except ContestantError as error:
            absent[entry.name] = str(error)
    return running, absent


def iterate(contestant: Contestant) -> Times:
    """One rollout and its update."""
    answer = contestant.ask("iterate")
    return Times(answer["rollout_s"], answer["update_s"])


def row(
    entry: Entry, work: Work, series: dict[str, Series], running: dict[str, Contestant], absent: dict[str, str]
) -> Row:
    """What is to be said of one contestant; its process ends."""
    if entry.name in absent:
        return Row.of_nothing(entry.name, entry.remark, absent[entry.name])
    contestant, own = running[entry.name], series[entry.name]
    contestant.close()
    return Row(
        name=entry.name,
        version=contestant.introduction["version"],
        remark=entry.remark,
        **summary(own, work),
        advantages={name: advantage(own, series[name]) for name in series if name.startswith(OURS)},
        ratio_error=ratio_error(entry, work),
        forward_flop=contestant.introduction["forward_flop"],
    )


def ratio_error(entry: Entry, work: Work) -> float:
    """Largest |ratio - 1| at learning rate 0, once memories carry over from one rollout to the next."""
    contestant = entry.still(work)
    errors = [contestant.ask("iterate")["ratio_error"] for _ in range(1 + STILL_ITERATIONS)]
    contestant.close()
    return max(errors[1:])


def parse() -> argparse.Namespace:
    """The command line, with entries made of names and interpreters."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--ours", nargs="+", default=["exact"], choices=list(VARIANTS), help="the first runs beside all"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--end-chance", type=float, nargs="+", default=[0.01])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-gate", action="store_true", help="count every iteration, on a crowded machine")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--processor-time", action="store_true", help="of one thread, where the machine is crowded")
    arguments = parser.parse_args()
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
