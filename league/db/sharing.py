"""Writes that arrive together share one transaction, and with it one wait for the disk.

See docs/decisions/030-writes-share-a-commit.md.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

T = TypeVar("T")

_DATABASE_FAILS = OperationalError, PoolTimeoutError
"""Not the work's fault: it would fail one by one as well, after as long a wait for each."""


@dataclass(eq=False)
class _Waiting:
    """A piece of work, and what came of it once it is `done`."""

    work: Callable[[Session], Any]
    done: bool = False
    returned: Any = None
    error: BaseException | None = None


class SharedWrites:
    """Write transactions of many threads. What comes while one is under way joins the next.

    Args:
        write: Opens a write transaction; committed when the block ends, rolled back when it raises.

    Attributes:
        waiting: Work that no transaction has taken in yet, in the order that it arrived.
    """

    def __init__(self, write: Callable[[], AbstractContextManager[Session]]) -> None:
        self._write = write
        self._leading = threading.Lock()
        self.waiting: deque[_Waiting] = deque()

    def run(self, work: Callable[[Session], T]) -> T:
        """Do some work in a write transaction; return what it returned, once that is committed.

        Work that raises leaves nothing behind, does not touch the others of its transaction, and may be called twice.
        Where the database fails, that is everybody's error.
        """
        own = _Waiting(work)
        self.waiting.append(own)
        with self._leading:
            if not own.done:  # else somebody who was here before has done it too
                self._lead()
        if own.error is not None:
            raise own.error
        returned: T = own.returned
        return returned

    def _lead(self) -> None:
        """Settle everything that waits."""
        together: list[_Waiting] = []
        try:
            self._commit(together)
        except BaseException as error:  # noqa: BLE001 - it is handed to every thread
            if not together:  # the transaction did not even begin
                self._take(together)
            for each in together:
                each.error = error
        for each in together:
            each.done = True

    def _commit(self, together: list[_Waiting]) -> None:
        """Savepoints cost as much as the work: they come when something failed."""
        try:
            with self._write() as session:
                self._take(together)
                for each in together:
                    each.returned = each.work(session)
        except _DATABASE_FAILS:
            raise
        except Exception:
            if len(together) <= 1:  # the only one, or the transaction did not even begin
                raise
            self._commit_apart(together)

    def _commit_apart(self, together: Sequence[_Waiting]) -> None:
        with self._write() as session:
            for each in together:
                try:
                    with session.begin_nested():
                        each.returned = each.work(session)
                except _DATABASE_FAILS:
                    raise
                except Exception as error:  # noqa: BLE001 - it is handed to the thread whose work this is
                    each.error = error

    def _take(self, together: list[_Waiting]) -> None:
        while self.waiting:
            together.append(self.waiting.popleft())
