"""`trainer doctor`: what went wrong in a run, when, and what to try."""

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from arena.svg import short
from trainer.health import STYLES, Monitor, Severity, Verdict
from trainer.records import Record, Records, read_records, read_settings, read_setup

BESIDE_A_CHART = 60
"""Columns of the terminal that labels and numbers take."""

CHART_WIDTHS = (16, 72)

BLOCKS = "▁▂▃▄▅▆▇█"

COLUMNS = ("finding", "severity", "updates", "since step", "evidence")

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

    @property
    def title(self) -> str:
        """What the run is, how far it came, and what of it could not be read."""
        torn, last = self.records.unreadable, self.last
        unread = f"; {torn} line{'s' * (torn != 1)} of metrics.jsonl could not be read" if torn else ""
        return f"{self.name}: {last.update:,} updates, {last.step:,} steps{unread}"

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
    console.print(Text(diagnosis.title))
    if diagnosis.verdicts:
        console.print(_findings(diagnosis), Group("", *map(Text, advice_of(diagnosis))))
    else:
        console.print(Text("nothing wrong was found", "green"))
    least, most = CHART_WIDTHS
    console.print(_charts(diagnosis, min(most, max(least, console.width - BESIDE_A_CHART))))


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


def findings(diagnosis: Diagnosis) -> list[tuple[str, ...]]:
    """A row of cells, as `COLUMNS` names them, for every finding."""
    rows: list[tuple[str, ...]] = []
    for verdict in diagnosis.verdicts:
        lasted = f"{verdict.since:,}-{'' if verdict.ended is None else f'{verdict.ended:,}'}"
        severity = verdict.symptom.severity.name.lower()
        rows.append((verdict.name, severity, lasted, f"{diagnosis.step_of(verdict.since):,}", verdict.numbers))
    return rows


def advice_of(diagnosis: Diagnosis) -> list[str]:
    """What each kind of finding means and what to try, in the order in which they began."""
    symptoms = {verdict.name: verdict.symptom for verdict in diagnosis.verdicts}
    return [f"{name}: {symptom.meaning}. Try: {symptom.advice}." for name, symptom in symptoms.items()]


def _findings(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column != "evidence", overflow="fold")
    for verdict, (name, *cells) in zip(diagnosis.verdicts, findings(diagnosis), strict=True):
        table.add_row(Text(name, STYLES[verdict.symptom.severity]), *map(Text, cells))
    return table


def _charts(diagnosis: Diagnosis, width: int) -> Table:
    table = Table("", box=None, pad_edge=False)
    table.add_column("least", justify="right")
    table.add_column("course", width=width, no_wrap=True)
    table.add_column("greatest", justify="right")
    table.add_column("last", justify="right")
    for label, metric in CHARTS.items():
        values = [value for record in diagnosis.records.updates if (value := record.metrics.get(metric)) is not None]
        if values:
            course = sparkline(means(diagnosis.records.updates, metric, width))
            table.add_row(label, short(min(values)), course, short(max(values)), short(values[-1]))
    for name in dict.fromkeys(verdict.name for verdict in diagnosis.verdicts):
        table.add_row(name, "", _timeline(diagnosis, name, width), "", "")
    return table


def means(records: list[Record], metric: str, width: int) -> list[float | None]:
    """Mean of a metric in each column of a chart."""
    columns = []
    for start, end in bounds(len(records), width):
        values = [value for record in records[start:end] if (value := record.metrics.get(metric)) is not None]
        columns.append(fmean(values) if values else None)
    return columns


def _timeline(diagnosis: Diagnosis, name: str, width: int) -> str:
    """Marks where a finding lasted."""
    records, marks = diagnosis.records.updates, []
    lasting = [verdict for verdict in diagnosis.verdicts if verdict.name == name]
    for start, end in bounds(len(records), width):
        first, last = records[start].update, records[end - 1].update
        bad = any(each.since <= last and (each.ended is None or each.ended > first) for each in lasting)
        marks.append("━" if bad else "·")
    return "".join(marks)


def bounds(count: int, width: int) -> list[tuple[int, int]]:
    """First and last record, exclusive, of each column."""
    columns = min(width, count)
    return [(count * each // columns, count * (each + 1) // columns) for each in range(columns)]
