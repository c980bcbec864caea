"""Group commit: writes that arrive together share one transaction, or one statement, and one fsync.

See docs/decisions/030-writes-share-a-commit.md.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

Work = Callable[[Session, Sequence[RequestT]], Sequence[AnswerT]]
"""Does what several callers ask for, and answers them in order."""

_DATABASE_FAILS = OperationalError, PoolTimeoutError
"""Not the work's fault: it would fail one by one as well, after as long a wait for each."""


def _taken() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False)
class _Waiting(Generic[RequestT]):
    """What a caller asks for, and what came of it once it is `done`; until then, or until it is to lead, it waits."""

    request: RequestT
    turn: threading.Lock = field(default_factory=_taken)
    done: bool = False
    returned: Any = None
    error: BaseException | None = None


class SharedWrites(Generic[RequestT]):
    """Writes of many threads. What comes while one is under way joins the next.

    Whoever finds nobody at work does it. What comes meanwhile waits; then the first of those leads in its turn, and
    those who were served leave at once, also where others queue up.

    Args:
        write: Opens a session whose writes are committed when the block ends or, without a transaction, by themselves.
        work: What to do.
        apart: Within such a session, undoes what one request left behind where its work raises.

    Attributes:
        waiting: Requests that nobody has taken in yet, in the order that they arrived.
    """

    def __init__(
        self,
        write: Callable[[], AbstractContextManager[Session]],
        work: Work[RequestT, Any],
        apart: Callable[[Session], AbstractContextManager[object]] = Session.begin_nested,
    ) -> None:
        self._write, self._work, self._apart = write, work, apart
        self._lock = threading.Lock()
        self._writing = False
        self.waiting: deque[_Waiting[RequestT]] = deque()

    def run(self, request: RequestT) -> Any:  # noqa: ANN401 - whatever the work answers
        """Do what is asked for; return the answer, once that is committed.

        Where the work raises, that leaves nothing behind and does not touch the others; they may be done twice. Where
        the database fails, that is everybody's error.
        """
        own = _Waiting(request)
        if self._must_wait(own):
            own.turn.acquire()
        if not own.done:
            self._lead(own)
        if own.error is not None:
            raise own.error
        return own.returned

    def _must_wait(self, own: _Waiting[RequestT]) -> bool:
        with self._lock:
            if self._writing:
                self.waiting.append(own)
                return True
            self._writing = True
        return False

    def _lead(self, own: _Waiting[RequestT]) -> None:
        """Settle one's own request and everything that waits, and pass the lead on."""
        together: list[_Waiting[RequestT]] = []
        try:
            self._commit(own, together)
        except BaseException as error:  # noqa: BLE001 - it is handed to every thread
            if not together:  # the transaction did not even begin
                self._take(own, together)
            for each in together:
                each.error = error
        self._pass_on()
        for each in together:
            each.done = True
            each.turn.release()

    def _pass_on(self) -> None:
        with self._lock:
            self._writing = bool(self.waiting)
            if self.waiting:
                self.waiting.popleft().turn.release()

    def _commit(self, own: _Waiting[RequestT], together: list[_Waiting[RequestT]]) -> None:
        """Savepoints cost as much as the work: they come when something failed."""
        try:
            with self._write() as session:
                self._take(own, together)
                answers = self._work(session, [each.request for each in together])
                for each, answer in zip(together, answers, strict=True):
                    each.returned = answer
        except _DATABASE_FAILS:
            raise
        except Exception:
            if len(together) <= 1:  # the only one, or the transaction did not even begin
                raise
            self._commit_apart(together)

    def _commit_apart(self, together: Sequence[_Waiting[RequestT]]) -> None:
        with self._write() as session:
            for each in together:
                try:
                    with self._apart(session):
                        (each.returned,) = self._work(session, [each.request])
                except _DATABASE_FAILS:
                    raise
                except Exception as error:  # noqa: BLE001 - it is handed to the thread whose work this is
                    each.error = error

    def _take(self, own: _Waiting[RequestT], together: list[_Waiting[RequestT]]) -> None:
        with self._lock:
            together += own, *self.waiting
            self.waiting.clear()


def one_by_one(session: Session, works: Sequence[Callable[[Session], AnswerT]]) -> list[AnswerT]:
    """Do works that have nothing in common."""
    return [work(session) for work in works]
