"""What is shown of a contest: a table, notes below it, and the same as JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.contest.gate import Gate, gate_note
from benchmarks.contest.pairs import Series, median
from benchmarks.other.work import Work

EXACT_BELOW = 1e-5
"""Ratio error under which rollout and update agree."""


@dataclass(frozen=True)
class Row:
    """One trainer at one setting; times in seconds, nan where nothing counted.

    Attributes:
        advantages: How many times faster this trainer is than each of ours, by name.
        counted: Iterations that nobody disturbed.
        forward_flop: Of one forward step of one row.
        update_share: The update's arithmetic over what one large product reaches; for ours.
        absent: Why it could not run.
    """

    name: str
    version: str
    remark: str
    steps_per_s: float
    rollout_s: float
    update_s: float
    advantages: dict[str, float]
    ratio_error: float
    counted: int
    forward_flop: int
    update_share: float
    absent: str = ""

    @classmethod
    def of_nothing(cls, name: str, remark: str, reason: str) -> "Row":
        """A trainer that could not run."""
        unknown = float("nan")
        return cls(name, "", remark, unknown, unknown, unknown, {}, unknown, 0, 0, unknown, reason)

    def as_json(self) -> dict[str, Any]:
        """Values by name; JSON knows no nan."""
        return without_nan(asdict(self))


def without_nan(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same with nothing in the place of what is no number."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    return None if value != value else value


def summary(series: Series, work: Work) -> dict[str, float]:
    """Medians of the iterations that counted."""
    counted = series.counted()
    seconds = median([times.seconds for times in counted])
    return {
        "steps_per_s": work.samples / seconds,
        "rollout_s": median([times.rollout_s for times in counted]),
        "update_s": median([times.update_s for times in counted]),
        "counted": len(counted),
    }


def print_rows(console: Console, work: Work, rows: Sequence[Row], gate: Gate) -> None:
    """Print one table."""
    setting = f"{work.threads} thread(s), episodes end with p = {work.end_chance}"
    clock = ", processor time" if work.processor_time else ""
    title = f"{work.environments} x {work.steps} steps, {setting}{clock}"
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("trainer", no_wrap=True)
    ours = list(rows[0].advantages)
    for name in (
        "env steps/s",
        "rollout ms",
        "update ms",
        *(f"{each} is" for each in ours),
        "ratio error",
        "forward kFLOP",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        faster = [times(1 / row.advantages[each]) for each in ours] if row.advantages else ["-"] * len(ours)
        table.add_row(
            row.name,
            "absent" if row.absent else number(row.steps_per_s, ",.0f"),
            number(1e3 * row.rollout_s, ",.0f"),
            number(1e3 * row.update_s, ",.0f"),
            *faster,
            number(row.ratio_error, ".1g"),
            number(row.forward_flop / 1e3, ",.0f"),
        )
    console.print(table)
    for row in rows:
        if row.absent or row.remark:
            console.print(
                f"  {row.name}: {row.version}{'; ' if row.version else ''}{row.absent or row.remark}", style="dim"
            )
        if not math.isnan(row.update_share):
            share = f"update alone reaches {row.update_share:.0%} of one large product"
            console.print(f"  {row.name}: {share}", style="dim")
    console.print(f"  {gate_note(gate)}\n", style="dim")


def times(value: float) -> str:
    """A ratio."""
    return "-" if math.isnan(value) else f"{value:.2f} x"


def number(value: float, form: str) -> str:
    """A value, or a dash where there is none."""
    return "-" if math.isnan(value) else format(value, form)
