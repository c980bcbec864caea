"""Health rules, read from `rules.toml`. Without torch."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from importlib import resources
from typing import Any

from trainer.monitoring.health import measurements
from trainer.monitoring.health.measurements import Measure


class Severity(IntEnum):
    """Severity of an alert: worth knowing, worth a change, or nothing is being learned."""

    HINT = 1
    WARNING = 2
    ALARM = 3


@dataclass(frozen=True)
class Hysteresis:
    """Levels and numbers of updates at which an alert begins and ends; see `rules.toml`."""

    trip: float
    clear: float
    updates: int
    window: int = 1

    def bad(self, level: float) -> bool:
        """Return whether the level is beyond `trip`."""
        return level >= self.trip if self.trip > self.clear else level <= self.trip

    def good(self, level: float) -> bool:
        """Return whether the level is back at `clear`."""
        return level <= self.clear if self.trip > self.clear else level >= self.clear


@dataclass(frozen=True)
class HealthRule:
    """A possible problem of training; see `rules.toml`."""

    severity: Severity
    measure: Measure
    hysteresis: Hysteresis
    meaning: str
    advice: str
    expected_when_solved: bool = False
    needs_learning: bool = True
    causes: Sequence[str] = ()
    cases: Mapping[str, str] = field(default_factory=dict)


def _rule(row: dict[str, Any]) -> HealthRule:
    """Build a rule from its table."""
    row["severity"] = Severity[row["severity"].upper()]
    row["measure"] = getattr(measurements, row["measure"])
    row["hysteresis"] = Hysteresis(**row["hysteresis"])
    row["advice"] = row["advice"].strip()
    return HealthRule(**row)


_TABLE = (resources.files("trainer.monitoring.health") / "rules.toml").read_text(encoding="utf-8")

HEALTH_RULES: Mapping[str, HealthRule] = {name: _rule(row) for name, row in tomllib.loads(_TABLE).items()}
