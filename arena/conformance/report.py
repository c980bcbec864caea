"""Report of a verification: one row per check, and the exceptions that end a check without a pass."""

import traceback
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


class ViolationError(Exception):
    """A broken rule.

    Args:
        seen: The offending value, as text.
        where: Match, decision and agent; empty if the fault has no single location.
        verdict: Verdict in place of the severity of the check.
    """

    def __init__(self, seen: str, where: str = "", verdict: Verdict | None = None) -> None:
        super().__init__(seen)
        self.seen, self.where, self.verdict = seen, where, verdict


class NotApplicableError(Exception):
    """A rule that does not concern this environment; the message is the reason."""


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


def describe(error: BaseException) -> str:
    """Return an error in one line, with the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}{location}" if message else f"{type(error).__name__}{location}"
