"""Acting alone: network step, sample and log-probability, without any environment."""

import os
from collections.abc import Sequence
from functools import partial

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.peers.workload import Workload
from benchmarks.trainer.idle_gate import IdleGate, idle_note, read_load
from benchmarks.trainer.iteration import start
from benchmarks.trainer.paired import median
from benchmarks.trainer.process import TrainerProcess
from benchmarks.trainer.trainers import Entry

ROWS = (64, 256)
"""Batch sizes."""


def measure(
    work: Workload, entries: Sequence[Entry], repeats: int, max_wait_s: float | None
) -> tuple[list[dict], IdleGate]:
    """Measure steps/s of each trainer whose network step can be called alone, and the share of matmul speed."""
    running, _ = start(entries, work)
    gate = IdleGate(max_wait_s, lambda: read_load([os.getpid(), *(each.process for each in running.values())]))
    bound = running[entries[0].name]
    actors = {name: each for name, each in running.items() if each.ask(f"act {ROWS[0]}")}
    works = {(name, rows): partial(act, each, rows, bound) for rows in ROWS for name, each in actors.items()}
    rounds = [{key: gate.measure(work) for key, work in works.items()} for _ in range(repeats)]
    for each in running.values():
        each.close()
    flop = {name: each.info["forward_flop"] for name, each in actors.items()}
    return [summarise(key, [each[key] for each in rounds], flop[key[0]]) for key in works], gate


def act(process: TrainerProcess, rows: int, bound: TrainerProcess) -> tuple[float, float]:
    """Return steps/s, and FLOP/s of one large matrix product right after."""
    return rows / process.ask(f"act {rows}")["act_s"], bound.ask("bound")["flop_per_s"]


def summarise(key: tuple[str, int], measured: Sequence[tuple[float, float] | None], flop: int) -> dict:
    """Return the medians of the counted measurements."""
    counted = [each for each in measured if each is not None]
    return {
        "trainer": key[0],
        "rows": key[1],
        "steps_per_s": median([speed for speed, _ in counted]),
        "share": median([flop * speed / bound for speed, bound in counted]),
    }


def show(console: Console, work: Workload, rows: Sequence[dict], gate: IdleGate) -> None:
    """Print one table."""
    table = Table(title=f"acting alone, {work.threads} thread(s)", title_justify="left", box=SIMPLE)
    for name in ("trainer", "rows at once", "steps/s", "of the bound"):
        table.add_column(name, justify="left" if name == "trainer" else "right")
    for row in rows:
        table.add_row(row["trainer"], str(row["rows"]), f"{row['steps_per_s']:,.0f}", f"{row['share']:.0%}")
    console.print(table)
    console.print(f"  {idle_note(gate)}\n", style="dim")
