"""Calls to a league that may be away: they are skipped until the next attempt is due, and never stop the caller."""

import logging
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, TypeVar

from league.client import LeagueClient
from league.errors import (
    BusyError,
    LeagueError,
    LeagueUnreachable,
    UnauthenticatedError,
    UnknownLearnerError,
    UnknownWorkerError,
)
from trainer.errors import CallCutShortError

SERVER_FAULT = 500
"""From this status on an error is the server's own: it is waited out."""

REFUSED_FOR_NOW = (400, 401, 403, 404, 408, 429)
"""Refusals that do not lie in what was sent: the same may be taken later, when a version, a token, an address or a
limit has changed."""

CONCERNS_ALL_CALLS = (LeagueUnreachable, UnauthenticatedError)

FIRST_BACKOFF_S = 0.5

Kind = Literal[
    "registrations", "leases", "releases", "results", "snapshots", "downloads", "heartbeats", "alarms", "replays"
]

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass
class _Pause:
    """How long something is left alone, in seconds of the clock, and after how many failures in a row."""

    failures: int = 0
    until: float = float("-inf")


class Link:
    """A league that answers, refuses, or is away.

    After a failed call the next attempt waits twice as long as before, up to `backoff_max_s`, shortened by a random
    share of up to a half so that workers do not come back all at once. A league that cannot be reached, or does not
    know the token, is left alone altogether; one that refuses a call, or fails at it, is spared that kind of call and
    gets all others. A call that a busy league refuses holds up none of another kind either: the client keeps that kind
    back until its time. After a call that was cut short none is made any more.

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
        self._absence = _Pause()
        self._refusals: defaultdict[Kind, _Pause] = defaultdict(_Pause)

    @property
    def away(self) -> bool:
        """Whether the last attempt found no league that takes calls of any kind."""
        return self._absence.failures > 0

    def attempt(self, kind: Kind, call: Callable[[LeagueClient], T]) -> T | None:
        """Make a call if one is due; None while the league is away, or does not take calls of this kind.

        Raises:
            LeagueError: The league answered and refused.
        """
        if self._clock() < max(self._absence.until, self._refusals[kind].until):
            return None
        try:
            with self._calling():
                answer = call(self._client)
        except CallCutShortError:
            self._absence.until = float("inf")
            return None
        except BusyError as error:
            logger.info("%s", error)
            self._note_presence()
            return None
        except LeagueError as error:
            if error.status < SERVER_FAULT:
                raise
            self._back_off(kind, error)
            return None
        self._note_presence()
        self._note_success(kind)
        return answer

    def ask(
        self, kind: Kind, call: Callable[[LeagueClient], T], register: Callable[[LeagueClient], object]
    ) -> T | None:
        """Make a call if one is due; a league that refuses is said in the log and asked again later.

        Args:
            kind: Of the call: one that is refused holds up those of its kind alone.
            call: The call.
            register: Makes a league that does not know this worker any more know it again.
        """
        try:
            return self.submit(kind, call, register)
        except LeagueError as error:
            self._back_off(kind, error)
            return None

    def submit(
        self, kind: Kind, call: Callable[[LeagueClient], T], register: Callable[[LeagueClient], object]
    ) -> T | None:
        """Make a call like `ask`, unless the league will not have what is sent: then sending it again is of no use.

        Raises:
            LeagueError: It refuses what was sent, whenever that comes.
        """
        try:
            return self.attempt(kind, call)
        except (UnknownWorkerError, UnknownLearnerError) as error:
            self._register_again(kind, error, register)
        except LeagueError as error:
            if error.status not in REFUSED_FOR_NOW:
                raise
            self._back_off(kind, error)
        return None

    def retry_now(self) -> None:
        """Let the next attempt of every kind go out at once."""
        for pause in (self._absence, *self._refusals.values()):
            pause.until = float("-inf")

    def _register_again(self, kind: Kind, error: LeagueError, register: Callable[[LeagueClient], object]) -> None:
        """Register; where the league does not take that either, the call that needs it waits as well."""
        logger.warning("%s; registering again", error)
        try:
            if self.attempt("registrations", register) is not None:
                return
        except LeagueError as refusal:
            self._back_off("registrations", refusal)
        self._lengthen(self._refusals[kind])

    def _back_off(self, kind: Kind, error: LeagueError) -> None:
        """Say the first of several failures, and wait: with all calls, or with those of this kind."""
        if isinstance(error, CONCERNS_ALL_CALLS):
            pause, until = self._absence, "it answers"
        else:
            self._note_presence()
            pause, until = self._refusals[kind], f"it takes {kind}"
        if not pause.failures:
            logger.warning("%s; trying again until %s", error, until)
        self._lengthen(pause)

    def _lengthen(self, pause: _Pause) -> None:
        longest = min(self._backoff_max_s, FIRST_BACKOFF_S * 2.0 ** min(pause.failures, 30))
        pause.failures += 1
        pause.until = self._clock() + longest * (1.0 - 0.5 * self._rng.random())

    def _note_presence(self) -> None:
        if self.away:
            logger.warning("the league is back after %d failed attempts", self._absence.failures)
            self._absence = _Pause()

    def _note_success(self, kind: Kind) -> None:
        pause = self._refusals.pop(kind, _Pause())
        if pause.failures:
            logger.warning("the league takes %s again after %d failed attempts", kind, pause.failures)
