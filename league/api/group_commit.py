"""Group commit for coroutines: calls that arrive together are one call of the database's group commit, on one thread.

See docs/contributing/decisions/0015-frequent-writes-share-commits.md.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from league.db.engine import Database
from league.db.group_commit import Work
from league.errors import LeagueError

TOGETHER = 64  # in one transaction

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


class AsyncGroupCommit(Generic[RequestT, AnswerT]):
    """One writer for many callers. What comes while it is at work joins the next transaction.

    Args:
        database: Where to.
        work: What the writer does; it raises if it must refuse any of the requests.
        most: How many share a transaction at most: others wait for its end.
        is_brief: Whether requests take one statement, which PostgreSQL makes a transaction by itself.
    """

    def __init__(
        self,
        database: Database,
        work: Work[RequestT, AnswerT | LeagueError],
        most: int = TOGETHER,
        is_brief: Callable[[Sequence[RequestT]], bool] = lambda _: False,
    ) -> None:
        self._database, self._work, self._most, self._is_brief = database, work, most, is_brief
        self._waiting: list[tuple[RequestT, asyncio.Future[AnswerT]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def run(self, request: RequestT) -> AnswerT:
        """Do a request in a write transaction; return its answer, or raise its error, once that is committed."""
        outcome: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, outcome))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await outcome

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._write(together)
        finally:
            self._writing = None

    async def _write(self, together: Sequence[tuple[RequestT, "asyncio.Future[AnswerT]"]]) -> None:
        requests = [request for request, _ in together]
        outcomes: Sequence[AnswerT | BaseException]
        try:
            briefly = self._is_brief(requests)
            outcomes = await asyncio.to_thread(self._database.group_commit_all, self._work, requests, briefly=briefly)
        except Exception as error:  # noqa: BLE001 - it is handed to every caller
            outcomes = [error] * len(requests)
        for (_, waiting), outcome in zip(together, outcomes, strict=True):
            if waiting.done():  # its caller was cut off
                continue
            if isinstance(outcome, BaseException):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)
