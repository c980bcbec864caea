"""What came of a verification: a row for each check."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What became of a check."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    INFO = "info"
    NOT_APPLICABLE = "n/a"
    NOT_REACHED = "not reached"


@dataclass(frozen=True)
class Finding:
    """Result of one check: a row of the report.

    Attributes:
        check: Name of the check.
        verdict: Its result.
        said: What was checked or why it was not; for a failure or a warning, the observation.
        where: Match, decision and agent of the observation; empty if there is no such place.
        rule: The rule that was broken; empty unless the verdict is a failure or a warning.
        remedy: How to repair it; empty like the rule.
    """

    check: str
    verdict: Verdict
    said: str
    where: str = ""
    rule: str = ""
    remedy: str = ""

    @property
    def broken(self) -> bool:
        """Whether this is a failure or a warning."""
        return self.verdict in (Verdict.FAILED, Verdict.WARNING)


@dataclass(frozen=True)
class Report:
    """All checks of an environment.

    Attributes:
        environment: Its name.
        signature: Its signature; None where it has no spec that one follows from.
        matches: How many were played by players who act at random.
        seed: What all seeds were derived from.
        decisions_per_s: Decisions of all matches together, of the time that its steps took; None where none was played.
        rows: The checks, in their order.
    """

    environment: str
    signature: str | None
    matches: int
    seed: int
    decisions_per_s: float | None
    rows: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no check has failed; a warning is no failure."""
        return all(row.verdict is not Verdict.FAILED for row in self.rows)
