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
    """What was found, for whoever mends it.

    Attributes:
        seen: What was seen.
        where: In which match and decision, and of whom; empty where it belongs to none.
        rule: What holds for every environment.
        way_out: What to do.
    """

    seen: str
    where: str
    rule: str
    way_out: str


@dataclass(frozen=True)
class Row:
    """One check.

    Attributes:
        check: Its name.
        verdict: What became of it.
        said: What was looked at, or why it was not; of a finding what was seen.
        finding: Of a failure or a warning; None elsewhere.
    """

    check: str
    verdict: Verdict
    said: str
    finding: Finding | None


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
    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether no check has failed; a warning is no failure."""
        return all(row.verdict is not Verdict.FAILED for row in self.rows)
