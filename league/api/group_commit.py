"""Group commit: small writes that arrive together share one transaction, and one wait for the disk.

See docs/decisions/021-heartbeats-share-a-commit.md.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sqlalchemy.orm import Session

from league.db.engine import Database
from league.db.group_commit import Work, one_by_one
from league.errors import LeagueError

TOGETHER = 64  # in one transaction

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[RequestT, AnswerT]):
    request: RequestT
    outcome: "asyncio.Future[AnswerT]"


class GroupCommit(Generic[RequestT, AnswerT]):
    """One writer for many callers. What comes while it is at work joins the next transaction.

    Args:
        database: Where to.
        work: What the writer does; it raises if it must refuse any of the requests.
        at_once: Does in one statement what it can, and answers None to the rest, which is left to `work`.
        most: How many share a transaction at most: others wait for its end.
    """

    def __init__(
        self,
        database: Database,
        work: Work[RequestT, AnswerT],
        at_once: Work[RequestT, AnswerT | None] | None = None,
        most: int = TOGETHER,
    ) -> None:
        self._database, self._work, self._at_once, self._most = database, work, at_once, most
        self._waiting: deque[_Waiting[RequestT, AnswerT]] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def run(self, request: RequestT) -> AnswerT:
        """Do what is asked for in a write transaction; return the answer, once that is committed.

        A request for which the work raises a `LeagueError` leaves nothing behind and does not touch the others of its
        transaction. Any other error undoes them all, and is everybody's.

        Raises:
            LeagueError: As the work did.
        """
        outcome: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(request, outcome))
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

    async def _write(self, together: Sequence[_Waiting[RequestT, AnswerT]]) -> None:
        """Settle every outcome, one way or the other."""
        told: Sequence[AnswerT | Exception]
        try:
            told = await asyncio.to_thread(self._commit, [each.request for each in together])
        except Exception as error:  # noqa: BLE001 - it is handed to every caller
            told = [error] * len(together)
        for each, outcome in zip(together, told, strict=True):
            if each.outcome.done():  # its caller was cut off
                continue
            if isinstance(outcome, Exception):
                each.outcome.set_exception(outcome)
            else:
                each.outcome.set_result(outcome)

    def _commit(self, requests: Sequence[RequestT]) -> Sequence[AnswerT | Exception]:
        """Return what each is answered: in one statement those that it does, and then the others in a transaction."""
        answers = self._state(requests)
        left = [request for request, answer in zip(requests, answers, strict=True) if answer is None]
        if not left:
            return [answer for answer in answers if answer is not None]
        rest = iter(self._transact(left))
        return [next(rest) if answer is None else answer for answer in answers]

    def _state(self, requests: Sequence[RequestT]) -> Sequence[AnswerT | None]:
        at_once = self._at_once
        if at_once is None:
            return [None] * len(requests)
        return self._database.group_commit(one_by_one, lambda session: at_once(session, requests), briefly=True)

    def _transact(self, requests: Sequence[RequestT]) -> Sequence[AnswerT | Exception]:
        """Return what each is answered. Where one is refused, all are done again apart, each in a savepoint."""
        try:
            return self._database.group_commit(one_by_one, lambda session: self._work(session, requests))
        except LeagueError as error:
            if len(requests) == 1:
                return [error]
        return self._database.group_commit(
            one_by_one, lambda session: [self._attempt(session, each) for each in requests]
        )

    def _attempt(self, session: Session, request: RequestT) -> AnswerT | Exception:
        try:
            with session.begin_nested():
                (answer,) = self._work(session, [request])
        except LeagueError as error:
            return error
        return answer
