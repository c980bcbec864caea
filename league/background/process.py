"""Background process: closes rating periods, evaluates gates, finds regressions, reports events and deletes old rows.

`league serve` runs these tasks in a separate process, because they would otherwise block requests in the same
interpreter. See docs/contributing/decisions/0004-rating-periods-are-ranges-of-match-ids.md.

    python -m league.background.process      # for the league of the LEAGUE_* variables, until stdin closes
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

from arena.malloc import keep_freed_memory
from league import log_config as logs
from league.background.analysis import AnalysisTask
from league.background.gates import GateTask
from league.background.lost_workers import LostWorkerTask
from league.background.pair_models import PairModelTask
from league.background.rating_periods import RatingPeriodTask
from league.background.retention import ReplayRetentionTask, RetentionTask
from league.background.task import PeriodicTask
from league.background.webhooks import WebhookTask
from league.db import schema
from league.db.engine import Database
from league.errors import LeagueError
from league.services.replays.service import ReplayService
from league.settings import Settings
from league.storage.factory import open_store

_FIRST_S = 0.001
_PAUSE_MAX_S = 60.0
_STOP_GRACE_S = 10.0

log = logging.getLogger(__name__)


class BackgroundProcess(PeriodicTask):
    """Runs the background tasks in a child process and restarts it when it exits.

    The child exits with its parent, even if the parent is killed, because it reads from a pipe to the parent. If
    children exit early, the pause before the next one doubles, up to a minute.

    Args:
        settings: Settings of the league from `LEAGUE_*`; home and database may differ.

    Attributes:
        state: `ok` while a child runs, otherwise the problem in one line.
    """

    name = "background process"

    def __init__(self, settings: Settings) -> None:
        self._pause_s = min(settings.aggregation_interval_s, _PAUSE_MAX_S)
        super().__init__(_FIRST_S, self._pause_s)
        self.state = "not started yet"
        self._settings = settings
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run_once(self) -> None:
        """Start a child and wait for its exit, which is logged unless the server is stopping."""
        with self._lock:
            if self._stopping.is_set():
                return
            # Under the lock: `stop` either sees the process, or this method sees that it must not start one.
            self._process = _started(self._settings)
        self.state = "ok"
        log.debug("started background process %d", self._process.pid)
        began_s = time.monotonic()
        # Waits without the lock, because `stop` acquires it to find the process that it terminates.
        with self._process as process:
            status = process.wait()
        lasted_s = time.monotonic() - began_s
        self._every_s = next_pause_s(self._pause_s, self._every_s, lasted_s)
        self.state = f"the process exited with {_cause(status)}; restart in {self._every_s:g} s"
        if not self._stopping.is_set():
            log.warning(
                "background process %d exited with %s after %.0f s; restarting it in %g s",
                *(process.pid, _cause(status), lasted_s, self._every_s),
            )

    def stop(self) -> None:
        """Stop the child after its current transaction."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            _stop(process)
        super().stop()


def next_pause_s(first_s: float, last_s: float, lasted_s: float) -> float:
    """Return the pause before the next start.

    Args:
        first_s: Pause after a long-lived process.
        last_s: Pause before the current process.
        lasted_s: Lifetime of the current process.
    """
    return min(2.0 * last_s, _PAUSE_MAX_S) if lasted_s < _PAUSE_MAX_S else first_s


def periodic_tasks(database: Database, settings: Settings) -> list[PeriodicTask]:
    """Return the tasks of the background process."""
    always: list[PeriodicTask] = [
        RatingPeriodTask(database, settings, _now),
        GateTask(database, settings, _now),
        AnalysisTask(database, settings, _now),
        PairModelTask(database, settings, _now),
        ReplayRetentionTask(ReplayService(database, open_store(settings).recordings, settings.replays), _now),
        LostWorkerTask(database, settings.heartbeat_s, _now),
        *(WebhookTask(database, settings, url, _now) for url in dict.fromkeys(settings.webhooks.urls)),
    ]
    return (
        always if settings.retention_days is None else [*always, RetentionTask(database, settings.retention_days, _now)]
    )


def main() -> None:
    """Run the background tasks until SIGTERM or until stdin closes."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    settings = Settings.load()
    logs.configure(settings.log_level, settings.log_format)
    keep_freed_memory()
    # Callbacks run in reverse order: all tasks have stopped before the database is closed.
    with ExitStack() as stack:
        database = Database(settings.database_address, settings.database_connections)
        stack.callback(database.close)
        _require_schema(database)
        for task in periodic_tasks(database, settings):
            task.start()
            stack.callback(task.stop)
        # Blocks until the parent closes the pipe, or dies.
        sys.stdin.read()


def _require_schema(database: Database) -> None:
    try:
        schema.check(database)
    except (LeagueError, OperationalError) as error:
        cause = str(error.orig).strip() if isinstance(error, OperationalError) else error
        log.error("background tasks cannot run: %s", cause)  # noqa: TRY400 - the message says it all
        sys.exit(1)


def _exit(number: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the exit, which stops the tasks and closes the database.
    signal.signal(number, signal.SIG_IGN)
    sys.exit()


def _started(settings: Settings) -> "subprocess.Popen[bytes]":
    """Start a background process in its own process group, so that Ctrl-C reaches only the server."""
    address = settings.database_url or settings.database_address  # the child reads a separate password itself
    variables = os.environ | {"LEAGUE_HOME": str(settings.home), "LEAGUE_DATABASE_URL": address}
    command = [
        sys.executable,
        "-P",
        "-m",
        "league.background.process",
    ]  # -P: never import modules from the working directory
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=variables, process_group=0)  # noqa: S603 - ours


def _cause(status: int) -> str:
    """Describe the exit status of a process, or the signal that killed it."""
    try:
        return f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"signal {-status}"


def _stop(process: "subprocess.Popen[bytes]") -> None:
    # SIGTERM ends the child after its current transaction, because its tasks are stopped on the way out.
    process.terminate()
    try:
        process.wait(_STOP_GRACE_S)
    except subprocess.TimeoutExpired:
        # A hanging task must not keep the server from stopping; the database rolls back its transaction.
        process.kill()


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    main()
