"""Group commit: concurrent writes share one transaction and one fsync.

See docs/contributing/decisions/0015-frequent-writes-share-commits.md.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from league.errors import LeagueError

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

Work = Callable[[Session, Sequence[RequestT]], Sequence[AnswerT | LeagueError]]
"""Processes several requests and returns their results in order; an error as a result concerns only its caller."""

_DATABASE_ERRORS = OperationalError, PoolTimeoutError
"""Errors that would also occur one by one, after a timeout each."""

_DEADLOCK = "40P01"  # PostgreSQL's deadlock_detected
_DEADLOCK_RETRIES = 3


@dataclass(eq=False)
class _Call:
    """A waiting request for some work, with its outcome once it is `done`.

    `lead` makes its caller the leader, `finish` returns the outcome to its caller; both return at once.
    """

    work: Work[Any, Any]
    request: Any
    lead: Callable[[], object]
    finish: Callable[[], object]
    done: bool = False
    outcome: Any = None

    def result(self) -> Any:  # noqa: ANN401 - type of the work's result
        """Return the result of the request, or raise its error."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class GroupCommit:
    """Leader-follower group commit for the writes of many threads and coroutines.

    A caller that finds no active leader becomes the leader. Requests that arrive meanwhile are queued. When the leader
    is done, the first queued caller leads the next batch, and the callers of the finished batch return at once.

    Args:
        write: Opens a session whose writes are committed when the block ends or, without a transaction, by themselves.
        isolate: Within such a session, undoes the writes of one request if its work raises.

    Attributes:
        waiting: Calls that no leader has taken yet, in the order of arrival.
    """

    def __init__(
        self,
        write: Callable[[], AbstractContextManager[Session]],
        isolate: Callable[[Session], AbstractContextManager[object]] = Session.begin_nested,
    ) -> None:
        self._write, self._isolate = write, isolate
        self._lock = threading.Lock()
        self._writing = False
        self.waiting: deque[_Call] = deque()

    def run(self, work: Work[RequestT, AnswerT], request: RequestT) -> AnswerT:
        """Process a request; return its result after the commit, or raise its error.

        If the work of a request raises, only this request is rolled back, and the others may run twice. If the database
        fails, all requests of the batch fail.
        """
        # A lock as a one-shot signal: its second `acquire` waits until the leader releases it.
        turn = threading.Lock()
        turn.acquire()
        own = _Call(work, request, turn.release, turn.release)
        if self._must_wait(own):
            turn.acquire()
        if not own.done:
            self._lead(own)
        outcome: AnswerT = own.result()
        return outcome

    async def run_async(self, work: Work[RequestT, AnswerT], request: RequestT, leaders: Executor) -> AnswerT:
        """Process a request of a coroutine like `run`; only the leader of a batch takes a thread, one of `leaders`.

        In a burst of 1,500 registrations within a second, a thread for each of them took 1.2 times the CPU per call,
        and the p99 of heartbeats rose from 61 to 195 ms (PostgreSQL).
        """
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not finished.done():  # its caller may have been cancelled
                finished.set_result(None)

        def finish() -> None:
            with suppress(RuntimeError):  # its loop may have been closed
                loop.call_soon_threadsafe(end)

        own = _Call(work, request, lambda: leaders.submit(self._lead, own), finish)
        if not self._must_wait(own):
            own.lead()
        await finished
        outcome: AnswerT = own.result()
        return outcome

    def _must_wait(self, own: _Call) -> bool:
        with self._lock:
            if self._writing:
                self.waiting.append(own)
                return True
            self._writing = True
        return False

    def _lead(self, own: _Call) -> None:
        """Process the leader's own and all queued calls, and hand over the lead."""
        batch: list[_Call] = []
        try:
            _retry_deadlocks(lambda: self._commit(own, batch))
        except BaseException as error:  # noqa: BLE001 - it is raised in every thread
            self._take(own, batch)  # the transaction may have failed to begin
            for call in batch:
                call.outcome = error
        # The next batch starts before the callers of this one wake up, so the database is not idle meanwhile.
        self._pass_on()
        for call in batch:
            # The outcome is complete before `done`, and `done` before the caller wakes up.
            call.done = True
            call.finish()

    def _pass_on(self) -> None:
        with self._lock:
            self._writing = bool(self.waiting)
            if self.waiting:
                self.waiting.popleft().lead()

    def _commit(self, own: _Call, batch: list[_Call]) -> None:
        """Commit a batch in one transaction, and after a failure again with a savepoint per request.

        A savepoint costs as much as the work, so the first attempt has none.
        """
        try:
            with self._write() as session:
                # Only now, within the transaction: calls that arrived while it waited for its turn join this batch.
                self._take(own, batch)
                _process(session, batch)
        except _DATABASE_ERRORS:
            raise
        except Exception:
            if len(batch) <= 1:  # the only request, or the transaction could not begin
                raise
            self._commit_isolated(batch)

    def _commit_isolated(self, batch: Sequence[_Call]) -> None:
        with self._write() as session:
            for call in batch:
                call.outcome = self._attempt(session, call)

    def _attempt(self, session: Session, call: _Call) -> object:
        try:
            with self._isolate(session):
                (answer,) = call.work(session, [call.request])
        except _DATABASE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised in the request's thread
            return error
        return answer

    def _take(self, own: _Call, batch: list[_Call]) -> None:
        """Add the leader's own and all queued calls to an empty batch."""
        if batch:
            return
        with self._lock:
            batch += own, *self.waiting
            self.waiting.clear()


def _retry_deadlocks(commit: Callable[[], None]) -> None:
    """Retry a batch that PostgreSQL aborted because of a deadlock."""
    for _ in range(_DEADLOCK_RETRIES):
        try:
            return commit()
        except OperationalError as error:
            if getattr(error.orig, "sqlstate", None) != _DEADLOCK:
                raise
    return commit()


def _process(session: Session, calls: Sequence[_Call]) -> None:
    """Process the requests grouped by their work."""
    by_work: dict[Work[Any, Any], list[_Call]] = {}
    for call in calls:
        by_work.setdefault(call.work, []).append(call)
    for work, same in by_work.items():
        for call, outcome in zip(same, work(session, [call.request for call in same]), strict=True):
            call.outcome = outcome


def one_by_one(session: Session, works: Sequence[Callable[[Session], AnswerT]]) -> list[AnswerT]:
    """Run independent works one after another."""
    return [work(session) for work in works]
