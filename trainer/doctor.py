"""`trainer doctor`: what went wrong in a run, when, and what to try."""

from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from trainer.errors import ConfigError
from trainer.health import STYLES, Monitor, Severity, Verdict
from trainer.records import Record, Records, read_records, read_settings, read_setup

BESIDE_A_CHART = 60
"""Columns of the terminal that labels and numbers take."""

CHART_WIDTHS = (16, 72)

BLOCKS = "▁▂▃▄▅▆▇█"

CHARTS = {
    "KL": "losses/approx_kl",
    "clip fraction": "losses/clipfrac",
    "explained variance": "losses/explained_variance",
    "entropy": "losses/entropy",
    "gradient norm": "losses/gradient_norm",
    "policy loss": "losses/policy_loss",
    "value loss": "losses/value_loss",
    "score": "charts/score",
    "return": "charts/episodic_return",
    "steps/s": "charts/SPS",
}


@dataclass(frozen=True)
class Diagnosis:
    """A run and all that was ever wrong with it, in the order in which it began."""

    name: str
    records: Records
    verdicts: list[Verdict]

    @property
    def healthy(self) -> bool:
        """Whether there was nothing but hints."""
        return all(verdict.symptom.severity is Severity.HINT for verdict in self.verdicts)

    @property
    def last(self) -> Record:
        """The latest update."""
        return self.records.updates[-1]

    def step_of(self, update: int) -> int:
        """Environment steps at an update; those of the next one where it was not recorded."""
        return next((each.step for each in self.records.updates if each.update >= update), self.last.step)


def diagnose(folder: Path) -> Diagnosis:
    """Put a run's metrics before a fresh monitor.

    Raises:
        NoRunError: The folder is no run folder, or the run has not made an update yet.
    """
    settings, records = read_settings(folder), read_records(folder)
    monitor = Monitor(read_setup(folder))
    verdicts = {}
    for record in records.updates:
        for verdict in monitor.take(record.update, record.metrics):
            verdicts[verdict.name, verdict.since] = verdict
    environment = settings.get("environment", {}).get("name", "an unnamed environment")
    return Diagnosis(f"{settings['league']['learner']} on {environment}", records, list(verdicts.values()))


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis for scripts."""
    return {
        "run": diagnosis.name,
        "updates": diagnosis.last.update,
        "steps": diagnosis.last.step,
        "unreadable_lines": diagnosis.records.unreadable,
        "healthy": diagnosis.healthy,
        "findings": [_finding(diagnosis, verdict) for verdict in diagnosis.verdicts],
    }


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print findings, advice and charts."""
    torn = diagnosis.records.unreadable
    unread = f"; {torn} line{'s' * (torn != 1)} of metrics.jsonl could not be read" if torn else ""
    last = diagnosis.last
    console.print(Text(f"{diagnosis.name}: {last.update:,} updates, {last.step:,} steps{unread}"))
    if diagnosis.verdicts:
        console.print(_findings(diagnosis), _advice(diagnosis))
    else:
        console.print(Text("nothing wrong was found", "green"))
    least, most = CHART_WIDTHS
    console.print(_charts(diagnosis, min(most, max(least, console.width - BESIDE_A_CHART))))


def write(diagnosis: Diagnosis, path: Path) -> None:
    """Write the report as a page or a picture.

    Raises:
        ConfigError: The file's name says neither, or it cannot be written.
    """
    console = Console(record=True, file=StringIO(), width=120, force_terminal=True)
    if path.suffix not in (".html", ".svg"):
        raise ConfigError(f"--out is {str(path)!r}: its name must end in .html or .svg")
    show(diagnosis, console)
    page = console.export_html() if path.suffix == ".html" else console.export_svg(title=diagnosis.name)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out is {str(path)!r}: {error.strerror}; name a file that can be written") from error


def sparkline(values: list[float | None]) -> str:
    """One block per value, from the lowest to the highest; a gap where there is none."""
    known = [value for value in values if value is not None]
    low, span = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)
    top = len(BLOCKS) - 1
    return "".join(" " if each is None else BLOCKS[round((each - low) / span * top) if span else 0] for each in values)


def _finding(diagnosis: Diagnosis, verdict: Verdict) -> dict[str, Any]:
    ended = verdict.ended
    return {
        "name": verdict.name,
        "severity": verdict.symptom.severity.name.lower(),
        "since_update": verdict.since,
        "since_step": diagnosis.step_of(verdict.since),
        "ended_update": ended,
        "ended_step": None if ended is None else diagnosis.step_of(ended),
        "meaning": verdict.symptom.meaning,
        "evidence": dict(verdict.evidence),
        "advice": verdict.symptom.advice,
    }


def _findings(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("finding", "severity", "updates", "since step", "evidence"):
        table.add_column(column, no_wrap=column != "evidence", overflow="fold")
    for verdict in diagnosis.verdicts:
        severity = verdict.symptom.severity
        lasted = f"{verdict.since:,}-{'' if verdict.ended is None else f'{verdict.ended:,}'}"
        row = verdict.name, severity.name.lower(), lasted, f"{diagnosis.step_of(verdict.since):,}", verdict.numbers
        table.add_row(*(Text(cell, STYLES[severity] if cell == verdict.name else "") for cell in row))
    return table


def _advice(diagnosis: Diagnosis) -> Group:
    symptoms = {verdict.name: verdict.symptom for verdict in diagnosis.verdicts}
    lines = [f"{name}: {symptom.meaning}. Try: {symptom.advice}." for name, symptom in symptoms.items()]
    return Group("", *(Text(line) for line in lines))


def _charts(diagnosis: Diagnosis, width: int) -> Table:
    table = Table("", box=None, pad_edge=False)
    table.add_column("least", justify="right")
    table.add_column("course", width=width, no_wrap=True)
    table.add_column("greatest", justify="right")
    table.add_column("last", justify="right")
    for label, metric in CHARTS.items():
        values = [value for record in diagnosis.records.updates if (value := record.metrics.get(metric)) is not None]
        if values:
            course = sparkline(_columns(diagnosis.records.updates, metric, width))
            table.add_row(label, _short(min(values)), course, _short(max(values)), _short(values[-1]))
    for name in dict.fromkeys(verdict.name for verdict in diagnosis.verdicts):
        table.add_row(name, "", _timeline(diagnosis, name, width), "", "")
    return table


def _columns(records: list[Record], metric: str, width: int) -> list[float | None]:
    """Mean of a metric in each column of a chart."""
    columns = []
    for start, end in _bounds(len(records), width):
        values = [value for record in records[start:end] if (value := record.metrics.get(metric)) is not None]
        columns.append(fmean(values) if values else None)
    return columns


def _timeline(diagnosis: Diagnosis, name: str, width: int) -> str:
    """Marks where a finding lasted."""
    records, marks = diagnosis.records.updates, []
    lasting = [verdict for verdict in diagnosis.verdicts if verdict.name == name]
    for start, end in _bounds(len(records), width):
        first, last = records[start].update, records[end - 1].update
        bad = any(each.since <= last and (each.ended is None or each.ended > first) for each in lasting)
        marks.append("━" if bad else "·")
    return "".join(marks)


def _bounds(count: int, width: int) -> list[tuple[int, int]]:
    """First and last record, exclusive, of each column."""
    columns = min(width, count)
    return [(count * each // columns, count * (each + 1) // columns) for each in range(columns)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.3g}"
