"""One supervised process: its log, its deaths, its restarts, its end."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arena.exit_status import PERMANENT, TRY_LATER
from league.process.restart_policy import RestartPolicy, backoff_delay_s, count_short_lives, restart_delay_s

_TAIL_BYTES = 8192

State = Literal["not started", "running", "restarting", "finished", "failed", "stopping", "stopped"]


@dataclass(frozen=True)
class Job:
    """What to run: `permanent` says that ending by itself with status 0 is a death too."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    permanent: bool


@dataclass(frozen=True)
class UnexpectedExit:
    """An end that nobody asked for.

    `delay_s` is the wait before the next start; none: no further start. `last_lines` are the process's own.
    """

    name: str
    status: int
    lived_s: float
    delay_s: float | None
    last_lines: tuple[str, ...]
    log: Path

    @property
    def cause(self) -> str:
        """How it ended, in words."""
        how = f"signal {signal.Signals(-self.status).name}" if self.status < 0 else f"status {self.status}"
        how += " (what it needs is away)" if self.status == TRY_LATER else ""
        return f"it ended with {how} after {self.lived_s:.0f} s"


class SupervisedProcess:
    """A job's process, restarted by a rule whenever it dies.

    Each process leads a session of its own, so that a terminal's Ctrl-C does not reach it, and ends with this one.
    Times are seconds of one monotonic clock, given by the caller.
    """

    def __init__(self, job: Job, rule: RestartPolicy) -> None:
        self.job = job
        self.state: State = "not started"
        self.restarts = 0
        self._rule = rule
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at_s = 0.0
        self._said_before = 0  # bytes of the log
        self._due_at_s = 0.0
        self._short_lives = self._times_away = 0

    @property
    def pid(self) -> int | None:
        """The process's id, while there is one."""
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether there is a process that has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, now_s: float) -> None:
        """Start the process; its output is appended to the log."""
        dying = (sys.executable, "-P", "-m", "league.process.die_with_parent", str(os.getpid()))
        with self.job.log.open("ab") as log:
            self._said_before = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                (*dying, *self.job.command),
                env=dict(self.job.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.state, self._started_at_s = "running", now_s

    def replace(self, job: Job, now_s: float, grace_s: float) -> None:
        """Run another job from now on; a process that still runs gets `grace_s` to end."""
        self.terminate()
        self.wait(grace_s)
        self.job = job
        self.start(now_s)

    def poll(self, now_s: float) -> UnexpectedExit | None:
        """Look after the process: report a death, start again what is due."""
        if self.state == "restarting" and now_s >= self._due_at_s:
            self.restarts += 1
            self.start(now_s)
        if self.state != "running" or self._process is None or (status := self._process.poll()) is None:
            return None
        self._end_group()
        if status == 0 and not self.job.permanent:
            self.state = "finished"
            return None
        return self._bury(status, now_s)

    def terminate(self) -> None:
        """Ask the process to end."""
        if self._process is not None and self.running:
            self.state = "stopping"
            self._process.terminate()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end, then end by force; say whether the process ended by itself."""
        ended = True
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                ended = False
                self._end_group()
                self._process.wait()
            self._end_group()
        self.state = "stopped"
        return ended

    def kill(self) -> None:
        """End the process and all that it started by force."""
        self._end_group()

    def last_lines(self, count: int) -> tuple[str, ...]:
        """Return the end of the log."""
        return last_lines(self.job.log, count)

    def _bury(self, status: int, now_s: float) -> UnexpectedExit:
        lived_s = now_s - self._started_at_s
        delay_s = self._delay_s(status, lived_s)
        if delay_s is None:
            self.state = "failed"
        else:
            self.state, self._due_at_s = "restarting", now_s + delay_s
        own_lines = last_lines(self.job.log, 8, since=self._said_before)
        return UnexpectedExit(self.job.name, status, lived_s, delay_s, own_lines, self.job.log)

    def _delay_s(self, status: int, lived_s: float) -> float | None:
        """Return how long to wait before the next start; None where there is to be none."""
        if status in PERMANENT:
            return None
        if status == TRY_LATER:  # however long that takes: whoever supervises is told each time
            self._times_away += 1
            return backoff_delay_s(self._times_away, self._rule)
        self._times_away = 0
        self._short_lives = count_short_lives(self._short_lives, lived_s, self._rule)
        return restart_delay_s(self._short_lives, self._rule)

    def _end_group(self) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


def last_lines(log: Path, count: int, since: int = 0) -> tuple[str, ...]:
    """Return the last non-empty lines of a file from byte `since` on, or none where there is no file."""
    if not log.exists():
        return ()
    with log.open("rb") as stream:
        stream.seek(max(since, log.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-count:]
