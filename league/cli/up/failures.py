"""Errors that end `league up`: a part that must not be restarted, or that has died too often."""

from typing import ClassVar

from arena.exit_status import PERMANENT
from league.errors import LeagueError
from league.process.supervised_process import UnexpectedExit

_ERROR_LINES = ("league: ", "trainer: ", "Error: ")
"""How the parts begin their one-line errors; the last one is of unusable options."""


class PartRefusedError(LeagueError):
    """A part ended with an error that a restart cannot mend.

    Attributes:
        exit_status: The part's own.
    """

    type: ClassVar[str] = "part-refused"
    title: ClassVar[str] = "cannot run"
    exit_status: int = 1


class UnusableInstallationError(LeagueError):
    """A package that the environment or the trainer needs is not installed."""

    type: ClassVar[str] = "unusable-installation"
    title: ClassVar[str] = "cannot train on"


class GaveUpError(LeagueError):
    """A part died too often in a row."""

    type: ClassVar[str] = "gave-up"
    title: ClassVar[str] = "gave up on"


def error_of(death: UnexpectedExit) -> LeagueError:
    """Return the error of a part that is not started again: its own line if the failure is permanent and it has one."""
    line = _error_line(death.last_lines)
    if death.status not in PERMANENT or line is None:
        return GaveUpError(death.name, death.cause, f"its last lines are above, the rest in {death.log}")
    error = PartRefusedError(f"the {death.name}", line, f"its log is {death.log}")
    error.exit_status = death.status
    return error


def _error_line(lines: tuple[str, ...]) -> str | None:
    for line in reversed(lines):
        for prefix in _ERROR_LINES:
            if line.startswith(prefix):
                return line.removeprefix(prefix)
    return None
