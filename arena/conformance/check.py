"""A check: a rule of the environment contract, the function that tests it, and the errors that the function raises."""

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from arena.conformance.report import Finding, Verdict

REMEDY = "Remedy: "


class ViolationError(Exception):
    """A broken rule.

    Args:
        seen: The offending value, as text.
        index: Row of the batch, then the agent, as far as the fault concerns a single one.
        where: Match, decision and agent as text, for a check that knows them.
        verdict: Verdict in place of the severity of the check.
    """

    def __init__(
        self, seen: str, index: tuple[int, ...] = (), *, where: str = "", verdict: Verdict | None = None
    ) -> None:
        super().__init__(seen)
        self.index, self.where, self.verdict = index, where, verdict


class NotApplicableError(Exception):
    """A rule that does not concern this environment; the message is the reason."""


@dataclass(frozen=True)
class Check:
    """One rule of the environment contract.

    Attributes:
        name: Name of its row in the report.
        function: Tests the rule; returns details for the report, or raises ViolationError or NotApplicableError. The
            first paragraph of its docstring is the rule, and another one the remedy; the report prints both.
        severity: Verdict of a violation: a warning if a game may break the rule on purpose.
        stops: Whether a violation ends the verification, because later results would be meaningless or matches would
            not end.
    """

    name: str
    function: Callable[..., str | None]
    severity: Verdict
    stops: bool

    @property
    def rule(self) -> str:
        """The requirement for every environment."""
        rule = self._paragraphs[0]
        return rule[0].lower() + rule[1:]

    @property
    def remedy(self) -> str:
        """How to repair an environment that breaks the rule."""
        return next((text.removeprefix(REMEDY) for text in self._paragraphs if text.startswith(REMEDY)), "")

    @property
    def _paragraphs(self) -> list[str]:
        paragraphs = (inspect.getdoc(self.function) or "").split("\n\n")
        return [" ".join(paragraph.split()).removesuffix(".") for paragraph in paragraphs]

    def finding(self, verdict: Verdict, detail: str, where: str = "") -> Finding:
        """Return the row of the report."""
        explanation = (self.rule, self.remedy) if verdict in (Verdict.FAILED, Verdict.WARNING) else ()
        return Finding(self.name, verdict, detail, where, *explanation)

    def run(self, *arguments: object) -> Finding:
        """Test the rule; an error of the game breaks it."""
        try:
            return self.finding(Verdict.PASSED, self.function(*arguments) or "")
        except NotApplicableError as reason:
            return self.finding(Verdict.NOT_APPLICABLE, str(reason))
        except ViolationError as violation:
            return self.finding(violation.verdict or self.severity, str(violation), violation.where)
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises
            return self.finding(Verdict.FAILED, describe(error))


def check(
    name: str, *, severity: Verdict = Verdict.FAILED, stops: bool = False
) -> Callable[[Callable[..., str | None]], Check]:
    """Return a decorator that makes a check of a function; see `Check`."""
    return lambda function: Check(name, function, severity, stops)


def describe(error: BaseException) -> str:
    """Return an error in one line, with the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}{location}" if message else f"{type(error).__name__}{location}"
