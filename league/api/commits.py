"""Small writes that arrive together share one transaction, and with it one wait for the disk.

See docs/decisions/021-heartbeats-share-a-commit.md.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.errors import LeagueError

BEATS_TOGETHER = 64  # in one transaction
REGISTRATIONS_TOGETHER = 16  # each takes as long as four heartbeats, which may wait for it

T = TypeVar("T")
Work = Callable[[Session], Any]


@dataclass(frozen=True, eq=False)
class _Waiting:
    work: Work
    outcome: "asyncio.Future[Any]"


class Commits:
    """One writer for many callers. What comes while it is at work joins the next transaction.

    Args:
        database: Where to.
        most: How many share a transaction at most: others wait for its end.
    """

    def __init__(self, database: Database, most: int) -> None:
        self._database, self._most = database, most
        self._waiting: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[Session], T]) -> T:
        """Do some work in a write transaction; return what it returned, once that is committed.

        Work that raises a `LeagueError` leaves nothing behind and does not touch the others of its transaction. Any
        other error undoes them all, and is everybody's.

        Raises:
            LeagueError: As the work did.
        """
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(work, outcome))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await outcome

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                together = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
                await self._write(together)
        finally:
            self._writing = None

    async def _write(self, together: Sequence[_Waiting]) -> None:
        """Settle every outcome, one way or the other."""
        try:
            told = await run_in_threadpool(self._commit, [each.work for each in together])
        except Exception as error:  # noqa: BLE001 - it is handed to every caller
            told = [error] * len(together)
        for each, outcome in zip(together, told, strict=True):
            if each.outcome.done():  # its caller was cut off
                continue
            if isinstance(outcome, Exception):
                each.outcome.set_exception(outcome)
            else:
                each.outcome.set_result(outcome)

    def _commit(self, works: Sequence[Work]) -> list[Any]:
        """Return what each returned or raised. Savepoints cost as much as the work: they come when something failed."""
        try:
            return self._database.write_together(lambda session: [work(session) for work in works])
        except LeagueError as error:
            if len(works) == 1:
                return [error]
        return self._database.write_together(lambda session: [_attempt(session, work) for work in works])


def _attempt(session: Session, work: Work) -> Any:  # noqa: ANN401 - whatever the work returns
    try:
        with session.begin_nested():
            return work(session)
    except LeagueError as error:
        return error
