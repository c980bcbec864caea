"""What a run says to a person: one line for every update, and a sign of life while something takes long."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from rich.console import Console
from rich.text import Text

from trainer.metrics import WIN_RATE, Metrics

SEPARATOR = " · "

SPEEDS = 20
"""Updates whose median speed the time that is left is reckoned by."""

OPPONENTS = 3
"""Opponents, met last, whose win rate a line has."""

PATIENCE_S = 10.0
"""How often it is said, where there is no terminal, that something still goes on."""

Part = tuple[str, str]
"""A name and a value."""


@dataclass(frozen=True)
class Goal:
    """Where a run is going.

    Attributes:
        steps: Environment steps at which it is there.
        ends: Whether it ends there; otherwise its schedules do, and it goes on.
    """

    steps: int
    ends: bool


class Terminal:
    """Tells a person how it goes; coloured, and no wider than the window, where there is a terminal.

    What cannot be printed, as where a log fills the disk, stops nothing: it comes with a later line. What a signal's
    handler says while another line is printed comes after that one: streams refuse to be written to in between.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: deque[Text] = deque()
        self._printing = threading.Lock()
        self._speeds: deque[float] = deque(maxlen=SPEEDS)

    def say(self, line: str, style: str = "") -> None:
        """Print a line."""
        self._print(Text(line, style))

    def progress(self, update: int, step: int, goal: Goal, metrics: Metrics) -> None:
        """Print an update's line."""
        if speed := metrics.get("charts/SPS"):
            self._speeds.append(speed)
        parts = progress_parts(update, step, goal, median(self._speeds or [0.0]), metrics)
        width = self._console.width if self._console.is_terminal else None
        self._print(_line(parts, width))

    @contextmanager
    def waiting(self, what: str, why: str) -> Iterator[None]:
        """Say that something has begun and why it may take long; while it lasts, say for how long."""
        over = threading.Event()
        show = self._spin if self._console.is_terminal else self._repeat
        self.say(f"{what}; {why}")
        thread = threading.Thread(target=show, args=(what, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _print(self, line: Text) -> None:
        self._lines.append(line)
        while self._lines and self._printing.acquire(blocking=False):  # else whoever prints will find it
            try:
                if self._lines:
                    with suppress(OSError):  # the console keeps what was refused
                        self._console.print(self._lines.popleft(), soft_wrap=True)
            finally:
                self._printing.release()

    def _spin(self, what: str, over: threading.Event) -> None:
        began = time.monotonic()
        with self._console.status("") as status:
            while not over.wait(0.5):
                status.update(Text(f"{what}: {time.monotonic() - began:.0f} s"))

    def _repeat(self, what: str, over: threading.Event) -> None:
        began = time.monotonic()
        while not over.wait(PATIENCE_S):
            self.say(f"{what}: {time.monotonic() - began:.0f} s so far")


def progress_parts(update: int, step: int, goal: Goal, speed: float, metrics: Metrics) -> list[Part]:
    """What is said of an update, what matters most first.

    Args:
        update: Its number.
        step: Environment steps so far.
        goal: Where the run is going.
        speed: Steps per second that the time left is reckoned by; 0 where it is not known.
        metrics: The update's metrics.
    """
    share = f" ({min(100, 100 * step // goal.steps)}%)" if goal.ends else ""
    parts = [("update", str(update)), ("steps", f"{step:,}{share}"), _time_left(step, goal, speed)]
    parts.append(("score", _number(metrics.get("charts/score"), ".2f")))
    parts.append(("steps/s", _number(metrics.get("charts/SPS"), ",.0f")))
    parts.append(("KL", _number(metrics.get("losses/approx_kl"), ".4f")))
    parts.append(("EV", _number(metrics.get("losses/explained_variance"), ".2f")))
    parts.append(("entropy", _number(metrics.get("losses/entropy"), ".2f")))
    parts += _shares_of_time(metrics)
    rates = [(name.removeprefix(WIN_RATE), rate) for name, rate in metrics.items() if name.startswith(WIN_RATE)]
    return parts + [(name, f"{rate:.2f}") for name, rate in reversed(rates[-OPPONENTS:]) if rate is not None]


def _time_left(step: int, goal: Goal, speed: float) -> Part:
    left = max(0, goal.steps - step)
    if not goal.ends and not left:
        return "horizon", "passed"
    time_left = str(timedelta(seconds=round(left / speed))) if speed else "-"
    return "ETA" if goal.ends else "horizon", time_left


def _shares_of_time(metrics: Metrics) -> list[Part]:
    """Percents of the time of the rollout, of the update, and of the league with the run folder."""
    seconds = [metrics.get(f"charts/{name}_s") or 0.0 for name in ("rollout", "update", "league")]
    whole = sum(seconds)
    return [("time", "/".join(f"{100 * each / whole:.0f}" for each in seconds) + "%")] if whole else []


def _line(parts: list[Part], width: int | None) -> Text:
    """As many parts as fit: a name dim, a value plain."""
    line = Text()
    for name, value in parts:
        part = Text.assemble(SEPARATOR if line else "", (name, "dim"), " ", value)
        if width is not None and line and len(line) + len(part) > width:
            break
        line.append_text(part)
    return line


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else format(value, pattern)
