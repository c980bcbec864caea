"""`trainer doctor`: the health alerts of a run, when they began, and advice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from trainer.monitoring.health.monitor import STYLES, HealthAlert, Monitor, rank
from trainer.monitoring.health.rules import Severity
from trainer.monitoring.report.reader import Record, RunRecords, read_records, read_settings, read_setup

COLUMNS = ("finding", "severity", "updates", "since step", "evidence")


@dataclass(frozen=True)
class RunReport:
    """All alerts of a run by their start; consequences come after causes."""

    name: str
    records: RunRecords
    alerts: list[HealthAlert]

    @property
    def healthy(self) -> bool:
        """Whether there were no alerts other than hints."""
        return all(alert.rule.severity is Severity.HINT for alert in self.alerts)

    @property
    def last(self) -> Record:
        """The latest update."""
        return self.records.updates[-1]

    @property
    def title(self) -> str:
        """Name, number of updates and steps of the run, and the number of unreadable lines."""
        torn, last = self.records.unreadable, self.last
        unread = f"; {torn} line{'s' * (torn != 1)} of metrics.jsonl could not be read" if torn else ""
        return f"{self.name}: {last.update:,} updates, {last.step:,} steps{unread}"

    def step_of(self, update: int) -> int:
        """Environment step of an update, or of the next recorded one."""
        return next((each.step for each in self.records.updates if each.update >= update), self.last.step)


def diagnose(folder: Path) -> RunReport:
    """Replay the metrics of a run through a new monitor.

    Raises:
        NoRunError: The folder is not a run directory, or the run has no update yet.
    """
    settings, records = read_settings(folder), read_records(folder)
    monitor = Monitor(read_setup(folder))
    alerts = {}
    for record in records.updates:
        for alert in monitor.update(record.update, record.metrics):
            alerts[alert.name, alert.since] = alert
    alerts |= {(alert.name, alert.since): alert for alert in monitor.alerts}  # causes may be known by now
    environment = settings.get("environment", {}).get("name", "an unnamed environment")
    return RunReport(f"{settings['league']['learner']} on {environment}", records, rank(alerts.values()))


def as_json(diagnosis: RunReport) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "run": diagnosis.name,
        "updates": diagnosis.last.update,
        "steps": diagnosis.last.step,
        "unreadable_lines": diagnosis.records.unreadable,
        "healthy": diagnosis.healthy,
        "findings": [_finding(diagnosis, alert) for alert in diagnosis.alerts],
    }


def show(diagnosis: RunReport, console: Console) -> None:
    """Print findings and advice."""
    console.print(Text(diagnosis.title))
    if diagnosis.alerts:
        console.print(_table(diagnosis), Group("", *map(Text, _advice(diagnosis))))
    else:
        console.print(Text("nothing wrong was found", "green"))


def _finding(diagnosis: RunReport, alert: HealthAlert) -> dict[str, Any]:
    ended = alert.ended
    return {
        "name": alert.name,
        "severity": alert.rule.severity.name.lower(),
        "since_update": alert.since,
        "since_step": diagnosis.step_of(alert.since),
        "ended_update": ended,
        "ended_step": None if ended is None else diagnosis.step_of(ended),
        "meaning": alert.meaning,
        "evidence": dict(alert.evidence),
        "advice": alert.advice,
        **({"follows_from": alert.cause} if alert.cause else {}),
    }


def _rows(diagnosis: RunReport) -> list[tuple[str, ...]]:
    """A row of cells, as `COLUMNS` names them, for every finding."""
    rows: list[tuple[str, ...]] = []
    for alert in diagnosis.alerts:
        lasted = f"{alert.since:,}-{'' if alert.ended is None else f'{alert.ended:,}'}"
        severity = alert.rule.severity.name.lower()
        rows.append((alert.name, severity, lasted, f"{diagnosis.step_of(alert.since):,}", alert.numbers))
    return rows


def _advice(diagnosis: RunReport) -> list[str]:
    """Meaning and advice of each kind of finding, in the order of the findings."""
    lines = (f"{alert.name}: {alert.meaning}. Try: {alert.advice}." for alert in diagnosis.alerts)
    return list(dict.fromkeys(lines))


def _table(diagnosis: RunReport) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column != "evidence", overflow="fold")
    for alert, (name, *cells) in zip(diagnosis.alerts, _rows(diagnosis), strict=True):
        table.add_row(Text(name, STYLES[alert.rule.severity]), *map(Text, cells))
    return table
