"""Background process: rating periods closed, gates judged, regressions found, old rows deleted.

`league serve` keeps them in a process of their own: what they compute and read would otherwise hold up the calls of the
same interpreter. See docs/decisions/037-books-are-kept-apart.md.

    python -m league.background.process      # of the league that LEAGUE_* say, until its standard input ends
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from types import FrameType

from sqlalchemy.exc import OperationalError

from league import log_config as logs
from league.background.analysis import AnalysisTask
from league.background.gates import GateTask
from league.background.rating_periods import RatingPeriodTask
from league.background.retention import ReplayRetentionTask, RetentionTask
from league.background.task import PeriodicTask
from league.db import schema
from league.db.engine import Database
from league.errors import LeagueError
from league.settings import Settings

_AT_ONCE_S = 0.001
_PAUSE_MAX_S = 60.0
_PATIENCE_S = 10.0  # with a process that is to end; killed then, it loses nothing that it has committed

log = logging.getLogger(__name__)


class BackgroundProcess(PeriodicTask):
    """Has the books kept by a process of their own, and by another one where that ends.

    The process ends with the one that started it, however that ends: it reads from a pipe whose other end goes then.
    Where processes end soon, the pause before the next one doubles, up to a minute.

    Args:
        settings: Of the league, as `LEAGUE_*` say; home and database may be others.

    Attributes:
        state: `ok` while a process keeps the books, or in one line why none does.
    """

    name = "keeping the books"

    def __init__(self, settings: Settings) -> None:
        self._pause_s = min(settings.aggregation_interval_s, _PAUSE_MAX_S)
        super().__init__(_AT_ONCE_S, self._pause_s)
        self.state = "no process has begun to keep them yet"
        self._settings = settings
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run_once(self) -> None:
        """Start a process and wait for its end, which is a line of the log unless the server is stopping."""
        with self._changing:
            if self._stopping.is_set():
                return
            self._process = _started(self._settings)
        self.state = "ok"
        log.debug("process %d keeps the books", self._process.pid)
        began_s = time.monotonic()
        with self._process as process:
            status = process.wait()
        lasted_s = time.monotonic() - began_s
        self._every_s = next_pause_s(self._pause_s, self._every_s, lasted_s)
        self.state = f"nobody keeps them: the process ended with {_cause(status)}; another one in {self._every_s:g} s"
        if not self._stopping.is_set():
            log.warning(
                "the bookkeeping process %d ended with %s after %.0f s; starting another in %g s",
                *(process.pid, _cause(status), lasted_s, self._every_s),
            )

    def stop(self) -> None:
        """End the process, after the transaction that is just under way."""
        self._stopping.set()
        with self._changing:
            process = self._process
        if process is not None:
            _end(process)
        super().stop()


def next_pause_s(first_s: float, last_s: float, lasted_s: float) -> float:
    """Return how long to wait until the next process is started.

    Args:
        first_s: The wait after one that lasted.
        last_s: The wait before this one.
        lasted_s: How long this one lasted.
    """
    return min(2.0 * last_s, _PAUSE_MAX_S) if lasted_s < _PAUSE_MAX_S else first_s


def periodic_tasks(database: Database, settings: Settings) -> list[PeriodicTask]:
    """Return the tasks of the background process."""
    always: list[PeriodicTask] = [
        RatingPeriodTask(database, settings, _now),
        GateTask(database, settings, _now),
        AnalysisTask(database, settings, _now),
        ReplayRetentionTask(database, settings.replays, _now),
    ]
    return (
        always if settings.retention_days is None else [*always, RetentionTask(database, settings.retention_days, _now)]
    )


def main() -> None:
    """Keep the books until SIGTERM, or until the standard input ends."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    settings = Settings.load()
    logs.configure(settings.log_level, settings.log_format)
    with ExitStack() as stack:
        database = Database(settings.database_address, settings.database_connections)
        stack.callback(database.close)
        _require_schema(database)
        for task in periodic_tasks(database, settings):
            task.start()
            stack.callback(task.stop)
        sys.stdin.read()


def _require_schema(database: Database) -> None:
    try:
        schema.check(database)
    except (LeagueError, OperationalError) as error:
        cause = str(error.orig).strip() if isinstance(error, OperationalError) else error
        log.error("no books are kept: %s", cause)  # noqa: TRY400 - the message says it all
        sys.exit(1)


def _leave(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit()


def _started(settings: Settings) -> "subprocess.Popen[bytes]":
    """Start a process of the books, in a group of its own: a terminal's Ctrl-C is the server's alone."""
    address = settings.database_url or settings.database_address  # a password of its own it reads for itself
    variables = os.environ | {"LEAGUE_HOME": str(settings.home), "LEAGUE_DATABASE_URL": address}
    command = [
        sys.executable,
        "-P",
        "-m",
        "league.background.process",
    ]  # -P: modules of the working folder are not ours
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, process_group=0)  # noqa: S603 - ours


def _cause(status: int) -> str:
    """Name a status of a process, or the signal that ended it."""
    try:
        return f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
