"""Calls to a league that may be away: they are skipped until the next attempt is due, and never stop the caller."""

import logging
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from league.client import LeagueClient
from league.errors import BusyError, LeagueError, UnknownLearnerError, UnknownWorkerError
from trainer.errors import CallCutShortError

SERVER_FAULT = 500
"""From this status on an error is the server's own: it is waited out."""

REFUSED_FOR_NOW = (401, 403, 404, 408, 429)
"""Refusals that do not lie in what was sent: the same may be taken later, when a token, an address or a limit has
changed."""

FIRST_BACKOFF_S = 0.5

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Link:
    """A league that answers, or is away.

    After a failed call the next attempt waits twice as long as before, up to `backoff_max_s`, shortened by a random
    share of up to a half so that workers do not come back all at once. A call that a busy league refuses holds up none
    of another kind: the client keeps that kind back until its time. After a call that was cut short none is made any
    more.

    Args:
        client: The connection.
        clock: Monotonic seconds.
        rng: Chance of the jitter.
        backoff_max_s: Longest wait.
        calling: Entered for every call; may cut it short.
    """

    def __init__(
        self,
        client: LeagueClient,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        backoff_max_s: float,
        calling: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._client, self._clock, self._rng = client, clock, rng
        self._backoff_max_s, self._calling = backoff_max_s, calling
        self._failures = 0
        self._retry_at = float("-inf")

    @property
    def away(self) -> bool:
        """Whether the last attempt found no league that takes calls."""
        return self._failures > 0

    def attempt(self, call: Callable[[LeagueClient], T]) -> T | None:
        """Make a call if one is due; None while the league is away, or busy with calls of this kind.

        Raises:
            LeagueError: The league answered and refused.
        """
        if self._clock() < self._retry_at:
            return None
        try:
            with self._calling():
                answer = call(self._client)
        except CallCutShortError:
            self._retry_at = float("inf")
            return None
        except BusyError as error:
            logger.info("%s", error)
            return None
        except LeagueError as error:
            if error.status < SERVER_FAULT:
                raise
            self._back_off(error)
            return None
        self._note_success()
        return answer

    def ask(self, call: Callable[[LeagueClient], T], register: Callable[[LeagueClient], object]) -> T | None:
        """Make a call if one is due; a league that refuses is said in the log and waited out like one that is away.

        Args:
            call: The call.
            register: Makes a league that does not know this worker any more know it again.
        """
        try:
            return self.submit(call, register)
        except LeagueError as error:
            self._back_off(error)
            return None

    def submit(self, call: Callable[[LeagueClient], T], register: Callable[[LeagueClient], object]) -> T | None:
        """Make a call like `ask`, unless the league will not have what is sent: then sending it again is of no use.

        Raises:
            LeagueError: It refuses what was sent, whenever that comes.
        """
        try:
            return self.attempt(call)
        except (UnknownWorkerError, UnknownLearnerError) as error:
            logger.warning("%s; registering again", error)
            self._try(register)
        except LeagueError as error:
            if error.status not in REFUSED_FOR_NOW:
                raise
            self._back_off(error)
        return None

    def retry_now(self) -> None:
        """Let the next attempt go out at once."""
        self._retry_at = float("-inf")

    def _try(self, call: Callable[[LeagueClient], object]) -> None:
        try:
            self.attempt(call)
        except LeagueError as error:
            self._back_off(error)

    def _back_off(self, error: LeagueError) -> None:
        if not self.away:
            logger.warning("%s; trying again until it answers", error)
        longest = min(self._backoff_max_s, FIRST_BACKOFF_S * 2.0 ** min(self._failures, 30))
        self._failures += 1
        self._retry_at = self._clock() + longest * (1.0 - 0.5 * self._rng.random())

    def _note_success(self) -> None:
        if self.away:
            logger.warning("the league is back after %d failed attempts", self._failures)
        self._failures = 0
        self._retry_at = float("-inf")
