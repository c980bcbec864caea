"""Errors that end `league up`: a process failed permanently or crashed too often."""

from typing import ClassVar

from arena.exit_status import PERMANENT
from league.errors import LeagueError
from league.process.supervised_process import UnexpectedExit

_ERROR_LINES = ("league: ", "trainer: ", "Error: ")
"""Prefixes of the processes' one-line errors; the last one marks invalid options."""


class PartRefusedError(LeagueError):
    """A process failed permanently.

    Attributes:
        exit_status: Exit status of the process.
    """

    type: ClassVar[str] = "part-refused"
    title: ClassVar[str] = "cannot run"
    exit_status: int = 1


class UnusableInstallationError(LeagueError):
    """A package that the environment or the trainer needs is not installed."""

    type: ClassVar[str] = "unusable-installation"
    title: ClassVar[str] = "cannot train on"


class GaveUpError(LeagueError):
    """A process crashed too often in a row."""

    type: ClassVar[str] = "gave-up"
    title: ClassVar[str] = "gave up on"


def error_of(death: UnexpectedExit) -> LeagueError:
    """Return the error of a process that is not restarted: its own error line if the failure is permanent."""
    line = _error_line(death.last_lines)
    if death.status not in PERMANENT or line is None:
        return GaveUpError(death.name, death.cause, f"see its last lines above and its log {death.log}")
    error = PartRefusedError(f"the {death.name}", line, f"see its log {death.log}")
    error.exit_status = death.status
    return error


def _error_line(lines: tuple[str, ...]) -> str | None:
    for line in reversed(lines):
        for prefix in _ERROR_LINES:
            if line.startswith(prefix):
                return line.removeprefix(prefix)
    return None
