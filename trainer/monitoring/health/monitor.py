"""Applies the health rules to the metrics of each update and reports alerts with advice.

Pure and without torch. The same monitor serves a live run and the doctor's report on a finished one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from trainer.monitoring.health.history import History, Metrics, Setup
from trainer.monitoring.health.measurements import Measurement
from trainer.monitoring.health.rules import HEALTH_RULES, HealthRule, Severity

HEALTH = "health/"
"""Followed by a rule's name."""

WORST = "health/worst"

STYLES = {Severity.HINT: "cyan", Severity.WARNING: "yellow", Severity.ALARM: "bold red"}
"""Console styles."""


@dataclass(frozen=True)
class HealthAlert:
    """A health rule that was broken in several consecutive updates.

    Attributes:
        name: Name of the rule.
        since: First of these updates.
        began: Update at which the alert was reported.
        evidence: Measured numbers at that update.
        ended: Update at which the alert ended; None while it lasts.
        cause: Name of the alert that it follows from; empty if there is none.
        case: Case of the rule that these numbers are; empty if its general advice applies.
    """

    name: str
    since: int
    began: int
    evidence: Mapping[str, float]
    ended: int | None = None
    cause: str = ""
    case: str = ""

    @property
    def rule(self) -> HealthRule:
        """The broken rule."""
        return HEALTH_RULES[self.name]

    @property
    def meaning(self) -> str:
        """The problem and, if known, its cause."""
        return self.rule.meaning + (f", caused by {self.cause}" if self.cause else "")

    @property
    def advice(self) -> str:
        """Advice for the evidence; an alert that follows from another refers to that one's advice."""
        if self.cause and not self.case:
            return f"follow the advice for {self.cause}"
        return self.rule.cases.get(self.case, self.rule.advice)

    @property
    def style(self) -> str:
        """Console style."""
        return "green" if self.ended is not None else STYLES[self.rule.severity]

    @property
    def numbers(self) -> str:
        """The evidence as text."""
        return ", ".join(f"{words} {value:.3g}" for words, value in self.evidence.items())

    @property
    def line(self) -> str:
        """The alert as one line."""
        if self.ended is not None:
            return f"health: {self.name} of update {self.since} ended at update {self.ended}"
        summary = f"{self.rule.severity.name.lower()} {self.name} since update {self.since}: {self.meaning}"
        return f"health: {summary} ({self.numbers}). Try: {self.advice}"


def rank(alerts: Iterable[HealthAlert]) -> list[HealthAlert]:
    """Sort consequences after their causes; the sort is stable."""
    return sorted(alerts, key=lambda alert: _depth(alert.name) if alert.cause else 0)


def _depth(name: str) -> int:
    """Length of the longest chain of causes."""
    return 1 + max((_depth(cause) for cause in HEALTH_RULES[name].causes), default=0)


@dataclass
class _Watch:
    """Streak of bad or good updates of a rule, and its latest alert."""

    name: str
    streak: int = 0
    latest: HealthAlert | None = None

    @property
    def current(self) -> HealthAlert | None:
        """The latest alert, if it lasts."""
        return self.latest if self.latest is not None and self.latest.ended is None else None

    def advance(self, measurement: Measurement | None, update: int) -> bool:
        """Count an update; return whether an alert begins or ends with it."""
        hysteresis, current = HEALTH_RULES[self.name].hysteresis, self.current
        if current is None:
            counts = measurement is not None and hysteresis.bad(measurement.level)
        else:
            counts = measurement is None or hysteresis.good(measurement.level)
        self.streak = self.streak + 1 if counts else 0
        if self.streak < hysteresis.updates:
            return False
        self.streak = 0
        if current is not None:
            self.latest = replace(current, ended=update)
        elif measurement is not None:
            since = update - hysteresis.updates + 1
            self.latest = HealthAlert(self.name, since, update, measurement.evidence, case=measurement.case)
        return True


class Monitor:
    """Health monitor of one run.

    An alert begins after `Hysteresis.updates` consecutive bad updates and ends after as many good ones. Between the two
    levels nothing changes, which prevents flapping.
    """

    def __init__(self, setup: Setup) -> None:
        self._history = History(setup)
        self._watches = {name: _Watch(name) for name in HEALTH_RULES}

    def update(self, update: int, metrics: Metrics) -> list[HealthAlert]:
        """Add an update's metrics; return the alerts that begin or end with it."""
        self._history.add(metrics)
        solved = self._measure("solved")
        at_rest = solved is not None and HEALTH_RULES["solved"].hysteresis.bad(solved.level)
        changed = []
        for name, watch in self._watches.items():
            expected = self._is_expected(HEALTH_RULES[name], at_rest=at_rest)
            if watch.advance(None if expected else self._measure(name), update):
                changed.append(watch)
        self._name_causes()
        return [watch.latest for watch in changed if watch.latest is not None]

    def _measure(self, name: str) -> Measurement | None:
        rule = HEALTH_RULES[name]
        return rule.measure(self._history, rule.hysteresis.window)

    def _is_expected(self, rule: HealthRule, *, at_rest: bool) -> bool:
        """Whether a rule does not apply now: the game is solved, or the learning rate is 0."""
        without_learning = self._history.last("charts/learning_rate") == 0.0
        return (at_rest and rule.expected_when_solved) or (without_learning and rule.needs_learning)

    def _name_causes(self) -> None:
        """Name causes, also those reported after their consequences because they take longer to be sure of."""
        for watch in self._watches.values():
            if watch.current is not None and not watch.current.cause:
                watch.latest = self._with_cause(watch.current)

    def _with_cause(self, alert: HealthAlert) -> HealthAlert:
        """Name the alert that another follows from: one of its causes that lasted when it began."""
        for cause in alert.rule.causes:
            known = self._watches[cause].latest
            if known is not None and known.since <= alert.since and alert.since <= (known.ended or alert.since):
                return replace(alert, cause=cause)
        return alert

    @property
    def alerts(self) -> list[HealthAlert]:
        """Current alerts, the worst first; those that follow from another one come last."""
        current = [watch.current for watch in self._watches.values() if watch.current is not None]
        return rank(sorted(current, key=lambda alert: -alert.rule.severity))

    def metrics(self) -> dict[str, float | None]:
        """Severity of each rule by tag, 0 without an alert, and the highest severity."""
        severities: dict[str, float | None] = {f"{HEALTH}{name}": 0.0 for name in HEALTH_RULES}
        severities |= {f"{HEALTH}{each.name}": float(each.rule.severity) for each in self.alerts}
        return severities | {WORST: max((float(each.rule.severity) for each in self.alerts), default=0.0)}
