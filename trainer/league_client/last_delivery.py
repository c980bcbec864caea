"""Final delivery of results and snapshots before a worker exits, within the shutdown grace."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from league.client.result_spool import Report, ResultSpool
from league.wire import Result, ResultBatchAnswer
from trainer.league_client.retrying_client import RequestKind, RetryingClient
from trainer.shutdown import GRACE_S, RunContext

CALL_S = 1.0
"""Timeout of a call after a signal: a lost call must leave time for others."""

LEAST_S = 1.5
"""Minimum time for retries, even if saving or a long match took the whole grace after a signal."""

PAUSES_S = 0.02, 0.25
"""Shortest and longest pause between two attempts, in seconds."""


@dataclass(frozen=True)
class LastDelivery:
    """Outcome of the final delivery.

    Attributes:
        delivered: Results that the league answered.
        waiting: Results that stay in the spool.
    """

    delivered: int
    waiting: int

    def __str__(self) -> str:
        if self.waiting:
            return (
                f"delivered {self.delivered:,} results before exit, {self.waiting:,} wait in the spool: run the same "
                "command again to deliver them"
            )
        return f"all results are delivered ({self.delivered:,} of them before exit)"


class LastCalls:
    """Retries the last calls before an exit until they succeed or the grace ends, regardless of earlier back-offs.

    The grace is `GRACE_S` after the signal. Without a signal it begins with the first call, and again with each call
    that made progress.

    Args:
        client: League client.
        run_context: Clock and stop flag.
    """

    def __init__(self, client: RetryingClient, run_context: RunContext) -> None:
        self._client, self._run_context = client, run_context
        self._began_s = self._progress_s = run_context.clock()
        self._reset_after_signal: bool | None = None  # whether a signal had come by then
        self._reset_backoff()

    def deliver(self, spool: ResultSpool, deliver: Callable[[Report], bool], report: Report) -> LastDelivery:
        """Deliver a spool.

        Args:
            spool: Spool whose results are synced.
            deliver: Delivers the spool with a report function; false if the disk failed.
            report: Sends a batch.
        """
        before = spool.count_waiting()
        attempts = count()

        def send(results: list[Result]) -> ResultBatchAnswer | None:
            # At least one attempt, even if saving took the whole grace.
            answer = None if next(attempts) and self._grace_over else report(results)
            if answer is not None:
                self._progress_s = self._run_context.clock()
            return answer

        self.repeat("results", lambda: deliver(send), spool.undelivered_bytes)
        waiting = spool.count_waiting()
        return LastDelivery(before - waiting, waiting)

    def repeat(self, kind: RequestKind, attempt: Callable[[], bool], left: Callable[[], int]) -> None:
        """Repeat a call while something is left to send, at least once.

        Args:
            kind: Kind of the call.
            attempt: Makes the call; false if a retry cannot help.
            left: Returns the amount that is left to send.
        """
        before = left()
        if not before:
            return
        while attempt() and (after := left()) and not self._grace_over:
            if after < before:
                before, self._progress_s = after, self._run_context.clock()
            self._run_context.sleep(min(PAUSES_S[1], max(PAUSES_S[0], self._client.wait_s(kind))))
            self._reset_backoff()

    def _reset_backoff(self) -> None:
        """Reset back-offs at the first call, and again after a signal, which may have cut a call short."""
        signalled = self._run_context.stopping()
        if self._reset_after_signal is None or signalled > self._reset_after_signal:
            self._client.reset_backoff(CALL_S if signalled else None)
            self._reset_after_signal = signalled

    @property
    def _grace_over(self) -> bool:
        now = self._run_context.clock()
        if self._run_context.past_grace() and now >= self._began_s + LEAST_S:
            return True
        return now >= self._progress_s + GRACE_S
