"""Progress of a gate while `league gate open` waits for its verdict.

On a terminal one line is updated in place. Otherwise a line is printed every few seconds. Both go to stderr, so that
stdout stays machine-readable.
"""

import time

from rich.console import Console
from rich.status import Status
from rich.text import Text

from league import wire
from league.cli.output.grid import printable
from league.client import LeagueClient
from league.errors import LeagueError

POLL_S = 1.0

LINE_EVERY_S = 10.0
"""Time between two progress lines without a terminal."""

_SERVER_FAULT = 500
"""Errors with this status or higher are server errors, which are retried."""


def lead(one: wire.Gate) -> str:
    """Format the candidate's estimated lead with its 95 % interval."""
    return f"{one.elo:+.0f} [{one.elo_low:+.0f}, {one.elo_high:+.0f}]"


def described(one: wire.Gate) -> str:
    """Return a gate's state as one line."""
    parts = [
        f"gate {one.id}: {one.candidate.name} against {one.champion.name}: {one.state}",
        f"{one.games} games",
        f"LLR {one.llr:+.2f} of {one.lower:.2f} to {one.upper:.2f}",
    ]
    parts += [f"lead {lead(one)} points"] if one.games else []
    parts += [f"{_pairs(one.lost_pairs)} lost"] if one.lost_pairs else []
    parts += [*_forecast(one), _situation(one)] if one.state == "open" else []
    if one.state == "cancelled" and one.closed_reason:
        parts.append(one.closed_reason)
    return ", ".join(parts)


def progress(one: wire.Gate, waited_s: float, error: str | None = None) -> str:
    """Return an open gate's progress as one line.

    Args:
        one: Last known state of the gate.
        waited_s: Time since the wait began.
        error: Why the last request failed, or None.
    """
    parts = [f"gate {one.id}: {waited_s:.0f} s", f"{_pairs(one.games // 2)} played"]
    parts += [f"lead {lead(one)} points"] if one.games else []
    parts += [f"LLR {one.llr:+.2f} of {one.lower:.2f} to {one.upper:.2f}"]
    parts += _forecast(one)
    return ", ".join([*parts, _situation(one) if error is None else f"{error}; waiting"])


def _forecast(one: wire.Gate) -> list[str]:
    """Return the expected number of games of an open gate, or nothing."""
    return [] if one.expected_games is None else [f"verdict expected after about {one.expected_games} games"]


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def _situation(one: wire.Gate) -> str:
    """Return the reason why a gate is still open: missing evaluators, or pairs in progress."""
    if not one.evaluators:
        return "no evaluator is attached: start one with `trainer evaluate`"
    if one.waiting_pairs:
        return f"{_pairs(one.waiting_pairs)} in progress, attached evaluators: {one.evaluators}"
    if one.busy_evaluators:
        subject = "the evaluator" if one.evaluators == 1 else f"{one.busy_evaluators} of {one.evaluators} evaluators"
        return f"{subject} finishing another batch first"
    return f"waiting for an evaluator to request pairs, attached evaluators: {one.evaluators}"


class _Display:
    """Progress line of an open gate: updated in place on a terminal, otherwise printed periodically.

    Args:
        console: Console of stderr.
        status: Line shown on a terminal.
        start_s: Start of the wait on the monotonic clock, in seconds.
    """

    def __init__(self, console: Console, status: Status, start_s: float) -> None:
        self._console, self._status, self._start_s = console, status, start_s
        self._printed_s: float | None = None
        self._attached = False

    def show(self, gate: wire.Gate, error: str | None = None) -> None:
        """Show a gate's progress; without a terminal only periodically and when evaluators attach or detach."""
        if gate.state != "open":
            return
        now_s = time.monotonic()
        line = progress(gate, now_s - self._start_s, error)
        self._status.update(Text(printable(line)))
        due = self._printed_s is None or now_s - self._printed_s >= LINE_EVERY_S
        attached = gate.evaluators > 0
        if not self._console.is_terminal and (due or attached != self._attached):
            self._printed_s, self._attached = now_s, attached
            _print(self._console, line)


def await_verdict(client: LeagueClient, opened: wire.Gate, timeout_s: float | None) -> wire.Gate:
    """Show progress until a gate closes, the timeout expires or Ctrl-C is pressed; return its last known state."""
    start = time.monotonic()
    end = None if timeout_s is None else start + timeout_s
    console = Console(stderr=True, highlight=False)
    gate, wait_s, error = opened, POLL_S, None
    with console.status("") as status:
        display = _Display(console, status, start)
        try:
            display.show(gate)
            while gate.state == "open" and (end is None or time.monotonic() < end):
                time.sleep(wait_s if end is None else max(0.0, min(wait_s, end - time.monotonic())))
                gate, wait_s, error = _poll(client, gate)
                display.show(gate, error)
        # Ctrl-C only stops waiting: the gate continues on the server.
        except KeyboardInterrupt:
            pass
    if gate.state == "open":
        _print(
            console,
            f"gate {gate.id} continues on the server: the same command attaches to it again, "
            f"`league gate cancel {gate.id}` cancels it",
        )
    return gate


def _poll(client: LeagueClient, gate: wire.Gate) -> tuple[wire.Gate, float, str | None]:
    """Fetch a gate; return it, the delay before the next request and the error if the request failed.

    Raises:
        LeagueError: The server rejects the request, and a retry would not help.
    """
    try:
        return client.gate(gate.id), POLL_S, None
    except LeagueError as error:
        # A wait of hours must survive a restart of the server; a rejected request would fail again.
        if error.retry_after_s is None and error.status < _SERVER_FAULT:
            raise
        return gate, max(POLL_S, error.retry_after_s or 0.0), error.rule


def _print(console: Console, line: str) -> None:
    console.print(Text(printable(line)), soft_wrap=True)
