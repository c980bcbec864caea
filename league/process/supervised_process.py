"""Supervised process with a log and restarts."""

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
    """Command to run; if `permanent`, exiting with status 0 is unexpected too."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    permanent: bool


@dataclass(frozen=True)
class UnexpectedExit:
    """Unexpected exit of a process.

    `delay_s` is the delay before the next start, or None if there is none. `last_lines` are its last output.
    """

    name: str
    status: int
    lived_s: float
    delay_s: float | None
    last_lines: tuple[str, ...]
    log: Path

    @property
    def cause(self) -> str:
        """Description of the exit."""
        exit_status = f"signal {signal.Signals(-self.status).name}" if self.status < 0 else f"status {self.status}"
        exit_status += " (a dependency is unavailable)" if self.status == TRY_LATER else ""
        return f"exited with {exit_status} after {self.lived_s:.0f} s"


class SupervisedProcess:
    """Process of a job that is restarted according to a policy.

    Each process has its own session, so that a terminal's Ctrl-C does not reach it, and ends with this process. The
    caller passes times as seconds of one monotonic clock.
    """

    def __init__(self, job: Job, rule: RestartPolicy) -> None:
        self.job = job
        self.state: State = "not started"
        self.restarts = 0
        self._rule = rule
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at_s = 0.0
        self._log_offset = 0
        self._due_at_s = 0.0
        self._short_lives = self._times_unavailable = 0

    @property
    def pid(self) -> int | None:
        """Id of the process, or None."""
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self, now_s: float) -> None:
        """Start the process; its output is appended to the log."""
        wrapper = (sys.executable, "-P", "-m", "league.process.die_with_parent", str(os.getpid()))
        with self.job.log.open("ab") as log:
            # The log is appended across restarts; an error shows only the lines of the process that failed.
            self._log_offset = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                (*wrapper, *self.job.command),
                env=dict(self.job.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C then reaches the supervisor only, which stops the processes in order, and killpg reaches
                # their children too.
                start_new_session=True,
            )
        self.state, self._started_at_s = "running", now_s

    def replace(self, job: Job, now_s: float, grace_s: float) -> None:
        """Stop the process within `grace_s` and run another job."""
        self.terminate()
        self.wait(grace_s)
        self.job = job
        self.start(now_s)

    def poll(self, now_s: float) -> UnexpectedExit | None:
        """Restart the process if it is due; return an unexpected exit."""
        if self.state == "restarting" and now_s >= self._due_at_s:
            self.restarts += 1
            self.start(now_s)
        if self.state != "running" or self._process is None or (status := self._process.poll()) is None:
            return None
        # Children that outlive their process would keep ports and GPU memory, and a restarted process would fail.
        self._kill_group()
        if status == 0 and not self.job.permanent:
            self.state = "finished"
            return None
        return self._record_exit(status, now_s)

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        if self._process is not None and self.running:
            self.state = "stopping"
            self._process.terminate()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the exit, then kill the process; return True if it exited by itself."""
        ended = True
        if self._process is not None:
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                ended = False
                self._kill_group()
                self._process.wait()
            self._kill_group()
        self.state = "stopped"
        return ended

    def kill(self) -> None:
        """Kill the process and its children."""
        self._kill_group()

    def last_lines(self, count: int) -> tuple[str, ...]:
        """Return the last lines of the log."""
        return last_lines(self.job.log, count)

    def _record_exit(self, status: int, now_s: float) -> UnexpectedExit:
        lived_s = now_s - self._started_at_s
        delay_s = self._delay_s(status, lived_s)
        if delay_s is None:
            self.state = "failed"
        else:
            self.state, self._due_at_s = "restarting", now_s + delay_s
        own_lines = last_lines(self.job.log, 8, since=self._log_offset)
        return UnexpectedExit(self.job.name, status, lived_s, delay_s, own_lines, self.job.log)

    def _delay_s(self, status: int, lived_s: float) -> float | None:
        """Return the delay before the next start, or None for no restart."""
        if status in PERMANENT:
            return None
        if status == TRY_LATER:  # retried indefinitely; the supervisor logs each time
            self._times_unavailable += 1
            return backoff_delay_s(self._times_unavailable, self._rule)
        self._times_unavailable = 0
        self._short_lives = count_short_lives(self._short_lives, lived_s, self._rule)
        return restart_delay_s(self._short_lives, self._rule)

    def _kill_group(self) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


def last_lines(log: Path, count: int, since: int = 0) -> tuple[str, ...]:
    """Return the last non-empty lines of a file from byte `since` on; empty if the file does not exist."""
    if not log.exists():
        return ()
    with log.open("rb") as stream:
        stream.seek(max(since, log.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    return tuple(line.rstrip() for line in text.splitlines() if line.strip())[-count:]
