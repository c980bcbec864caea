"""Reader of the event stream, without input and output: parses lines and decides when to connect again."""

from collections.abc import Callable, Mapping

from league import wire
from league.client.responses import Received, raise_for_problem, retriable_rejection
from league.errors import LeagueError, LeagueUnreachable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""Pause after the first failure, and after many; it doubles with each failure in a row."""

GIVE_UP_S = 300.0
"""Longest time without a connection."""


class EventReader:
    """State of a reader that connects again after a lost connection and misses no event.

    Args:
        after: Cursor of the last event that the reader has; None to start now.
        clock: Monotonic seconds.
    """

    def __init__(self, after: str | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cursor = after
        self._failures = 0
        self._connected_at = clock()

    @property
    def headers(self) -> dict[str, str]:
        """Headers that resume the stream."""
        return {} if self._cursor is None else {"Last-Event-ID": self._cursor}

    def connect(self, headers: Mapping[str, str]) -> None:
        """Read the start of the stream from the headers of the response."""
        if self._cursor is None:
            self._cursor = headers.get("Last-Event-ID")

    def feed(self, line: str) -> wire.StreamedEvent | None:
        """Parse a line of the stream; return the event that it completes."""
        self._failures, self._connected_at = 0, self._clock()
        field, _, value = line.partition(": ")
        if field == "id":
            self._cursor = value
        if field != "data":
            return None
        event = wire.Event.model_validate_json(value)
        return wire.StreamedEvent(**dict(event), cursor=self._cursor or "")

    def pause_after(self, error: LeagueError | None) -> float:
        """Return the seconds to wait after a lost or refused connection.

        Raises:
            LeagueError: The server rejects the reader, or was not reachable for `GIVE_UP_S`.
        """
        waited_s = self._clock() - self._connected_at
        if error is not None and waited_s >= GIVE_UP_S:
            raise error
        self._failures += 1
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 16))
        return max(pause_s, 0.0 if error is None else float(error.retry_after_s or 0))

    def refusal(self, received: Received) -> LeagueError:
        """Return the error of a server that is too busy; raise that of one that rejects the reader."""
        error = retriable_rejection(received)
        if error is not None:
            return error
        raise_for_problem(received)
        return LeagueUnreachable(received.url, "its response is no event stream", "check the address")
