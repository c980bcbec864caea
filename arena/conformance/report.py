"""Report of a verification: one row per check."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Result of a check."""

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
        detail: Details: the scope of a check that passed, the reason of one that did not run, or the fault.
        where: Match, decision and agent of the fault; empty if it has no single location.
        rule: The rule that was broken; empty unless the verdict is a failure or a warning.
        remedy: How to repair it; empty like the rule.
    """

    check: str
    verdict: Verdict
    detail: str
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
        environment: Name of the environment.
        signature: Signature of the environment; None if its spec is invalid.
        matches: Number of finished matches between random players.
        seed: Seed from which all other seeds are derived.
        decisions_per_s: Decisions of all parallel matches per second of stepping; None if no match was played.
        rows: Results of the checks, in the order of the report.
    """

    environment: str
    signature: str | None
    matches: int
    seed: int
    decisions_per_s: float | None
    rows: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no check has failed; warnings do not count as failures."""
        return all(row.verdict is not Verdict.FAILED for row in self.rows)
