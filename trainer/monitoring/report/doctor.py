"""`trainer doctor`: the health alerts of a run, when they began, and advice."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from trainer.monitoring.health.monitor import STYLES, HealthAlert, Monitor, rank
from trainer.monitoring.health.rules import Severity
from trainer.monitoring.report.reader import Record, RunRecords, read_records, read_setup

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
    setup, records = read_setup(folder), read_records(folder)
    monitor = Monitor(setup)
    alerts = [alert for each in records.updates for alert in monitor.update(each.update, each.metrics)]
    alerts += monitor.alerts  # causes may be known by now
    latest = {(alert.name, alert.since): alert for alert in alerts}
    return RunReport(f"{setup.learner} on {setup.environment}", records, rank(latest.values()))


def as_json(report: RunReport) -> dict[str, Any]:
    """The report as JSON."""
    return {
        "run": report.name,
        "updates": report.last.update,
        "steps": report.last.step,
        "unreadable_lines": report.records.unreadable,
        "healthy": report.healthy,
        "findings": [
            {
                "name": alert.name,
                "severity": alert.rule.severity.name.lower(),
                "since_update": alert.since,
                "since_step": report.step_of(alert.since),
                "ended_update": alert.ended,
                "ended_step": None if alert.ended is None else report.step_of(alert.ended),
                "meaning": alert.meaning,
                "evidence": dict(alert.evidence),
                "advice": alert.advice,
                **({"follows_from": alert.cause} if alert.cause else {}),
            }
            for alert in report.alerts
        ],
    }


def print_report(report: RunReport, console: Console) -> None:
    """Print findings and advice."""
    console.print(Text(report.title))
    if not report.alerts:
        console.print(Text("no problems found", "green"))
        return
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column != "evidence", overflow="fold")
    for alert in report.alerts:
        duration = f"{alert.since:,}-{'' if alert.ended is None else f'{alert.ended:,}'}"
        cells = (alert.rule.severity.name.lower(), duration, f"{report.step_of(alert.since):,}", alert.numbers)
        table.add_row(Text(alert.name, STYLES[alert.rule.severity]), *map(Text, cells))
    advice = dict.fromkeys(f"{alert.name}: {alert.meaning}. Try: {alert.advice}." for alert in report.alerts)
    console.print(table, Group("", *map(Text, advice)))
