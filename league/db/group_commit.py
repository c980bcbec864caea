"""Group commit: concurrent writes share one transaction and one fsync.

See docs/contributing/decisions/0015-frequent-writes-share-commits.md.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

Work = Callable[[Session, Sequence[RequestT]], Sequence[AnswerT]]
"""Processes several requests and returns their results in order; an error as a result concerns only its caller."""

_DATABASE_ERRORS = OperationalError, PoolTimeoutError
"""Errors that would also occur one by one, after a timeout each."""


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class _Call:
    """Requests of one thread for the same work, with their outcomes once it is `done`; until then the thread waits."""

    work: Work[Any, Any]
    requests: Sequence[Any]
    turn: threading.Lock = field(default_factory=_taken)
    done: bool = False
    outcomes: list[Any] = field(default_factory=list)


class GroupCommit:
    """Leader-follower group commit for the writes of many threads.

    A thread that finds no active leader becomes the leader. Requests that arrive meanwhile are queued. When the leader
    is done, the first queued thread leads the next batch, and the threads of the finished batch return at once.

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
        """Process one request; return its result after the commit, or raise its error."""
        (outcome,) = self.run_all(work, [request])
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def run_all(self, work: Work[RequestT, AnswerT], requests: Sequence[RequestT]) -> Sequence[AnswerT | BaseException]:
        """Process requests; return the result or the error of each after the commit.

        If the work of a request raises, only this request is rolled back, and the others may run twice. If the database
        fails, all requests of the batch fail.
        """
        own = _Call(work, requests)
        if self._must_wait(own):
            own.turn.acquire()
        if not own.done:
            self._lead(own)
        return own.outcomes

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
            self._commit(own, batch)
        except BaseException as error:  # noqa: BLE001 - it is raised in every thread
            if not batch:  # the transaction could not begin
                self._take(own, batch)
            for call in batch:
                call.outcomes = [error] * len(call.requests)
        self._pass_on()
        for call in batch:
            call.done = True
            call.turn.release()

    def _pass_on(self) -> None:
        with self._lock:
            self._writing = bool(self.waiting)
            if self.waiting:
                self.waiting.popleft().turn.release()

    def _commit(self, own: _Call, batch: list[_Call]) -> None:
        """Savepoints cost as much as the work, so they are used only after a failure."""
        try:
            with self._write() as session:
                self._take(own, batch)
                _do_all(session, batch)
        except _DATABASE_ERRORS:
            raise
        except Exception:
            if sum(len(call.requests) for call in batch) <= 1:  # the only request, or the transaction could not begin
                raise
            self._commit_isolated(batch)

    def _commit_isolated(self, batch: Sequence[_Call]) -> None:
        with self._write() as session:
            for call in batch:
                call.outcomes = [self._attempt(session, call.work, request) for request in call.requests]

    def _attempt(self, session: Session, work: Work[RequestT, AnswerT], request: RequestT) -> AnswerT | Exception:
        try:
            with self._isolate(session):
                (answer,) = work(session, [request])
        except _DATABASE_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised in the request's thread
            return error
        return answer

    def _take(self, own: _Call, batch: list[_Call]) -> None:
        with self._lock:
            batch += own, *self.waiting
            self.waiting.clear()


def _do_all(session: Session, calls: Sequence[_Call]) -> None:
    """Process the requests grouped by their work."""
    by_work: dict[Work[Any, Any], list[_Call]] = {}
    for call in calls:
        by_work.setdefault(call.work, []).append(call)
    for work, same in by_work.items():
        answers = iter(work(session, [request for call in same for request in call.requests]))
        for call in same:
            call.outcomes = list(islice(answers, len(call.requests)))


def one_by_one(session: Session, works: Sequence[Callable[[Session], AnswerT]]) -> list[AnswerT]:
    """Run independent works one after another."""
    return [work(session) for work in works]
