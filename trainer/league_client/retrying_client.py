"""League client with exponential back-off: while the league is unreachable, calls are skipped and never block."""

import logging
import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, TypeVar

from league.client import Address, LeagueClient
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
"""Lowest status of a server error. Such calls are retried after a back-off."""

REFUSED_FOR_NOW = (400, 401, 403, 404, 408, 429)
"""Refusals that do not depend on the payload. The same call may succeed later, for example with a newer server, another
token or a higher limit."""

FIRST_BACKOFF_S = 0.25
"""Longest pause after the first failure. It doubles with each further failure."""

UNREACHABLE_AFTER = 5
"""Consecutive calls of any kind without an answer until the league counts as unreachable. On a network that loses a
third of all calls, so many losses in a row have a probability of 1/200."""

FIRST_TIMEOUT_S = 1.5
"""Shortest timeout. It doubles after each call without an answer, up to the client's own timeout. After an answer it is
four times the duration of that call, if that is longer (as in TCP's retransmission timeout)."""

TRANSFERS = ("snapshots", "replays")
"""Requests with a large body. They use the client's own timeout, because sending the body again costs more."""

RequestKind = Literal[
    "registrations", "leases", "releases", "results", "snapshots", "downloads", "heartbeats", "alarms", "replays"
]

T = TypeVar("T")
logger = logging.getLogger(__name__)


@dataclass
class _Backoff:
    """Consecutive failures, and the time of the clock until which no call is made."""

    failures: int = 0
    until: float = float("-inf")
    logged: bool = False


class RetryingClient:
    """League client that skips calls while a back-off lasts.

    Each kind of request has its own back-off. After a failure, the next attempt waits a random time of up to
    `FIRST_BACKOFF_S`, which doubles with each further failure up to `backoff_max_s` (exponential back-off with full
    jitter). A success ends the back-off of its kind only. The timeout of a call is a multiple of the usual response
    time, so that a lost packet does not delay other calls for long. If a busy league sends a retry time, the next
    request of that kind waits for it.

    The league counts as unreachable after `UNREACHABLE_AFTER` unanswered calls in a row, or if it rejects the token.
    All kinds then share one back-off: a single call probes the league each time it ends. After a call that a signal
    cut short, no call is made until `reset_backoff`.

    Args:
        client: The connection.
        clock: Monotonic seconds.
        rng: Random numbers for the jitter.
        backoff_max_s: Longest back-off.
        call_context: Context manager around every call. It may raise `CallCutShortError`.
    """

    def __init__(
        self,
        client: LeagueClient,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        backoff_max_s: float,
        call_context: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._client, self._clock, self._rng = client, clock, rng
        self._backoff_max_s, self._call_context = backoff_max_s, call_context
        self._outage = _Backoff()
        self._backoffs: defaultdict[RequestKind, _Backoff] = defaultdict(_Backoff)
        self._unanswered_calls = 0
        self._timeout_max_s = client.timeout_s
        self._timeouts_s: dict[RequestKind, float] = {}

    @property
    def address(self) -> Address:
        """Address of the league, with the setting that it comes from."""
        return self._client.address

    @property
    def unreachable(self) -> bool:
        """Whether the league accepts no calls of any kind at present."""
        return self._outage.failures > 0

    def wait_s(self, kind: RequestKind) -> float:
        """Return the seconds until the next call of this kind may be made; 0 if one is due."""
        return max(0.0, max(self._outage.until, self._backoffs[kind].until) - self._clock())

    def reset_backoff(self, timeout_s: float | None) -> None:
        """End all back-offs and keep later ones short, for the last calls before an exit.

        Args:
            timeout_s: New limit in seconds for connecting, and between two chunks of an answer; None keeps the limit.
        """
        if timeout_s is not None:
            self._timeout_max_s = min(self._timeout_max_s, timeout_s)
        self._backoff_max_s = min(self._backoff_max_s, FIRST_BACKOFF_S)
        self._outage = _Backoff()
        self._backoffs.clear()

    def try_call(self, kind: RequestKind, call: Callable[[LeagueClient], T]) -> T | None:
        """Make a call if one is due; return None if it was skipped or failed.

        Raises:
            LeagueError: The league rejected the call.
        """
        if self.wait_s(kind) > 0.0:
            return None
        self._client.set_timeout(self._timeout_s(kind))
        began = self._clock()
        try:
            with self._call_context():
                answer = call(self._client)
        except CallCutShortError:
            # A signal ended the call. Nothing else is sent before `reset_backoff`, which begins the shutdown.
            self._outage.until = float("inf")
            return None
        except BusyError as error:
            logger.info("%s", error)
            self._mark_reachable()
            self._backoffs[kind].until = self._clock() + (error.retry_after_s or 0)
            return None
        except LeagueError as error:
            if error.status < SERVER_FAULT:
                # Any other rejection is an answer: the league is there.
                if not isinstance(error, UnauthenticatedError):
                    self._mark_reachable()
                raise
            self._back_off(kind, error)
            return None
        self._mark_reachable()
        self._mark_success(kind)
        # Four times the last duration, so that a slow but healthy league is not timed out.
        self._timeouts_s[kind] = max(FIRST_TIMEOUT_S, 4.0 * (self._clock() - began))
        return answer

    def call_or_skip(
        self, kind: RequestKind, call: Callable[[LeagueClient], T], register: Callable[[LeagueClient], object]
    ) -> T | None:
        """Make a call if one is due; log a rejection and retry later.

        Args:
            kind: Kind of the call. A rejection delays calls of this kind only.
            call: The call.
            register: Registers the worker again, if the league does not know it any more.
        """
        try:
            return self.submit(kind, call, register)
        except LeagueError as error:
            self._back_off(kind, error)
            return None

    def submit(
        self, kind: RequestKind, call: Callable[[LeagueClient], T], register: Callable[[LeagueClient], object]
    ) -> T | None:
        """Make a call like `call_or_skip`, but raise if the league rejects the payload, since a retry cannot succeed.

        Raises:
            LeagueError: The league rejects the payload itself.
        """
        try:
            return self.try_call(kind, call)
        except (UnknownWorkerError, UnknownLearnerError) as error:
            self._register_again(kind, error, register)
        except LeagueError as error:
            if error.status not in REFUSED_FOR_NOW:
                raise
            self._back_off(kind, error)
        return None

    def _register_again(
        self, kind: RequestKind, error: LeagueError, register: Callable[[LeagueClient], object]
    ) -> None:
        """Register again; if that fails too, back off the call that needs it as well."""
        logger.warning("%s; registering again", error)
        try:
            if self.try_call("registrations", register) is not None:
                return
        except LeagueError as refusal:
            self._back_off("registrations", refusal)
        self._extend(self._backoffs[kind])

    def _back_off(self, kind: RequestKind, error: LeagueError) -> None:
        """Start or extend a back-off: of this kind of call, or of all kinds if the league is unreachable."""
        if isinstance(error, LeagueUnreachable):
            self._unanswered_calls += 1
            # The league may be slower than the timeout allows, and would then never be reached.
            self._timeouts_s[kind] = 2.0 * self._timeout_s(kind)
            unreachable = self._unanswered_calls >= UNREACHABLE_AFTER
        else:
            unreachable = isinstance(error, UnauthenticatedError)
            if not unreachable:
                self._mark_reachable()
        if unreachable:
            self._log_first(self._outage, error, "it answers")
            self._extend(self._outage)
            return
        backoff = self._backoffs[kind]
        # A bad network loses single calls all the time, so network and server errors are logged only if they last.
        if error.status < SERVER_FAULT or backoff.failures + 1 >= UNREACHABLE_AFTER:
            self._log_first(backoff, error, f"it accepts {kind}")
        self._extend(backoff)

    def _log_first(self, backoff: _Backoff, error: LeagueError, until: str) -> None:
        """Log the first of several consecutive failures."""
        if not backoff.logged:
            logger.warning("%s; trying again until %s", error, until)
        backoff.logged = True

    def _extend(self, backoff: _Backoff) -> None:
        # 2**30 bounds the power, which would overflow after a thousand failures.
        longest = min(self._backoff_max_s, FIRST_BACKOFF_S * 2.0 ** min(backoff.failures, 30))
        backoff.failures += 1
        backoff.until = self._clock() + longest * self._rng.random()

    def _timeout_s(self, kind: RequestKind) -> float:
        own_s = self._timeout_max_s if kind in TRANSFERS else self._timeouts_s.get(kind, FIRST_TIMEOUT_S)
        return min(self._timeout_max_s, own_s)

    def _mark_reachable(self) -> None:
        self._unanswered_calls, outage = 0, self._outage
        self._outage = _Backoff()
        if outage.logged:
            logger.warning("the league is back after %d failed attempts", outage.failures)

    def _mark_success(self, kind: RequestKind) -> None:
        backoff = self._backoffs.pop(kind, _Backoff())
        if backoff.logged:
            logger.warning("the league accepts %s again after %d failed attempts", kind, backoff.failures)
