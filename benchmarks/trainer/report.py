"""Report of a comparison: a table with notes, and the same as JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks import record
from benchmarks.peers.workload import Workload
from benchmarks.trainer.idle_gate import IdleGate, idle_note
from benchmarks.trainer.paired import Series, median
from benchmarks.trainer.trainers import OURS, BattleSetup

NAN = float("nan")
AIMS = {f"{OURS}, exact": "1.3", f"{OURS}, bf16": "1.6"}
"""Aims of the ratio to PufferLib, by variant."""


@dataclass(frozen=True)
class Row:
    """One trainer at one setting. Times are in seconds, NaN if no iteration counted.

    Attributes:
        speedups: Speed relative to each variant of ours, by name.
        fresh_error: Largest |ratio - 1| of the first minibatch at learning rate 0.
        perturbed_error: The same with noise on all weights, so that the policy depends on its recurrent state.
        counted: Number of iterations on an idle machine.
        forward_flop: FLOP of one forward step of one row.
        update_share: FLOP/s of the update relative to one large matrix product; ours only.
        bound_steps_per_s: Steps/s of an iteration at the speed of that product; ours only.
        absent: Reason why it could not run.
    """

    name: str
    version: str
    remark: str
    steps_per_s: float
    rollout_s: float
    update_s: float
    speedups: dict[str, float]
    fresh_error: float
    perturbed_error: float
    counted: int
    forward_flop: int
    update_share: float
    bound_steps_per_s: float
    absent: str = ""

    @classmethod
    def not_measured(cls, name: str, remark: str, reason: str) -> "Row":
        """Return the row of a trainer that could not run."""
        return cls(name, "", remark, NAN, NAN, NAN, {}, NAN, NAN, 0, 0, NAN, NAN, reason)

    def as_json(self) -> dict[str, Any]:
        """Return the values by name, with None for NaN."""
        return without_nan(asdict(self))


def without_nan(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Replace NaN by None, recursively."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    return None if value != value else value


def summary(series: Series, work: Workload) -> dict[str, Any]:
    """Return the medians of the counted iterations."""
    counted = series.counted()
    seconds = median([times.seconds for times in counted])
    return {
        "steps_per_s": work.samples / seconds,
        "rollout_s": median([times.rollout_s for times in counted]),
        "update_s": median([times.update_s for times in counted]),
        "counted": len(counted),
    }


def iteration_records(threads: int, rows: Sequence[Row]) -> Iterator[record.Row]:
    """Yield a row of the documentation's table for each variant of ours, beside the peers that ran."""
    measured = [row for row in rows if not row.absent]
    ours = [row for row in measured if row.name in rows[0].speedups]
    for own in ours:
        peers = [row for row in measured if row not in ours]
        yield {
            "work": f"recurrent PPO, {threads} thread(s), {own.name}: time of an iteration",
            "measured": f"{1e3 * (own.rollout_s + own.update_s):,.0f} ms",
            "reference": ", ".join(f"{each.name}: {1.0 / each.speedups[own.name]:.2f}" for each in peers),
            "aim": AIMS.get(own.name, ""),
            "details": own.as_json(),
        }


def acting_records(rows: Sequence[Mapping[str, Any]]) -> Iterator[record.Row]:
    """Yield a row of the documentation's table for each number of rows at once."""
    for count in sorted({row["rows"] for row in rows}):
        own, *peers = [row for row in rows if row["rows"] == count]
        yield {
            "work": f"acting on one core, {count:,} rows at once: steps/s",
            "measured": f"{own['steps_per_s']:,.0f}",
            "reference": ", ".join(f"{each['trainer']}: {each['steps_per_s']:,.0f}" for each in peers),
            "details": own,
        }


def battle_records(setup: BattleSetup, metrics: Mapping[str, Any]) -> Iterator[record.Row]:
    """Yield the row of the documentation's table for a team battle."""
    yield {
        "work": f"{setup.environment} against {setup.opponents} opponents, {setup.threads} threads: agent steps/s",
        "measured": f"{metrics['agent_steps_per_s']:,.0f} at {metrics['peak_gb']:.2f} GB",
        "details": metrics,
    }


def print_rows(console: Console, work: Workload, rows: Sequence[Row], gate: IdleGate) -> None:
    """Print one table and its notes."""
    setting = f"{work.threads} thread(s), episodes end with p = {work.end_chance}"
    clock = ", processor time" if work.processor_time else ""
    ours = list(rows[0].speedups)
    table = Table(title=f"{work.environments} x {work.steps} steps, {setting}{clock}", title_justify="left", box=SIMPLE)
    table.add_column("trainer", no_wrap=True)
    faster = [f"{each} is" for each in ours]
    for name in ("env steps/s", "rollout ms", "update ms", *faster, "ratio error", "perturbed"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.name, *cells(row, ours))
    console.print(table)
    for note in [note for row in rows for note in notes(row)]:
        console.print(f"  {note}", style="dim")
    console.print(f"  {idle_note(gate)}\n", style="dim")


def cells(row: Row, ours: Sequence[str]) -> list[str]:
    """Return the cells of one row after the name."""
    return [
        "absent" if row.absent else number(row.steps_per_s, ",.0f"),
        number(1e3 * row.rollout_s, ",.0f"),
        number(1e3 * row.update_s, ",.0f"),
        *(number(1.0 / row.speedups[each] if row.speedups else NAN, ".2f") for each in ours),
        number(row.fresh_error, ".1g"),
        number(row.perturbed_error, ".1g"),
    ]


def notes(row: Row) -> Iterator[str]:
    """Yield the notes of one row."""
    about = (row.version, f"{row.forward_flop / 1e3:,.0f} kFLOP forward" if row.forward_flop else "", row.remark)
    yield f"{row.name}: " + "; ".join(part for part in (*about, row.absent) if part)
    if not math.isnan(row.update_share):
        pace = f"{row.bound_steps_per_s:,.0f} steps/s at the pace of one large fp32 product"
        yield f"{row.name}: {pace}; the update alone reaches {row.update_share:.0%} of that pace"


def number(value: float, form: str) -> str:
    """Format a value, or a dash for NaN."""
    return "-" if math.isnan(value) else format(value, form)
