"""Progress of a run on the terminal: one line per update, and elapsed seconds during long steps."""

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

from trainer.monitoring.metrics import WIN_RATE, Metrics

SEPARATOR = " · "

COLUMNS = (
    ("score", "charts/score", ".2f"),
    ("steps/s", "charts/SPS", ",.0f"),
    ("KL", "losses/approx_kl", ".4f"),
    ("EV", "losses/explained_variance", ".2f"),
    ("entropy", "losses/normalized_entropy", ".2f"),
)
"""Name, tag and format of the metrics in a line."""

SPEEDS = 20
"""Updates whose median speed gives the estimated time left."""

OPPONENTS = 3
"""Number of most recent opponents whose win rate is in a line."""

REPEAT_S = 10.0
"""Seconds between two lines about a long step if the output is no terminal."""

Part = tuple[str, str]
"""A name and a value."""


@dataclass(frozen=True)
class Goal:
    """The step that progress is measured against.

    Attributes:
        steps: Environment steps.
        ends: Whether the run ends there; otherwise only its schedules do.
    """

    steps: int
    ends: bool


class RunConsole:
    """Prints lines about a run; on a terminal they are coloured and cut to its width.

    A line that cannot be printed, for example because a log fills the disk, is printed with a later one. A signal
    handler may print while another line is being printed: its line is queued, since streams are not reentrant.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: deque[Text] = deque()
        self._printing = threading.Lock()
        self._speeds: deque[float] = deque(maxlen=SPEEDS)

    def print(self, line: str, style: str = "") -> None:
        """Print a line."""
        self._enqueue(Text(line, style))

    def progress(self, update: int, step: int, goal: Goal, metrics: Metrics) -> None:
        """Print an update's line."""
        if speed := metrics.get("charts/SPS"):
            self._speeds.append(speed)
        parts = progress_parts(update, step, goal, median(self._speeds or [0.0]), metrics)
        width = self._console.width if self._console.is_terminal else None
        self._enqueue(_line(parts, width))

    @contextmanager
    def waiting(self, activity: str, reason: str) -> Iterator[None]:
        """Print the start of a long step and the reason for it, then the elapsed seconds until the block ends."""
        over = threading.Event()
        show = self._spin if self._console.is_terminal else self._repeat
        self.print(f"{activity}; {reason}")
        thread = threading.Thread(target=show, args=(activity, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _enqueue(self, line: Text) -> None:
        self._lines.append(line)
        while self._lines and self._printing.acquire(blocking=False):  # otherwise the thread that prints takes it
            try:
                if self._lines:
                    with suppress(OSError):  # rich keeps the text in its buffer
                        self._console.print(self._lines.popleft(), soft_wrap=True)
            finally:
                self._printing.release()

    def _spin(self, activity: str, over: threading.Event) -> None:
        began = time.monotonic()
        with self._console.status("") as status:
            while not over.wait(0.5):
                status.update(Text(f"{activity}: {time.monotonic() - began:.0f} s"))

    def _repeat(self, activity: str, over: threading.Event) -> None:
        began = time.monotonic()
        while not over.wait(REPEAT_S):
            self.print(f"{activity}: {time.monotonic() - began:.0f} s so far")


def progress_parts(update: int, step: int, goal: Goal, speed: float, metrics: Metrics) -> list[Part]:
    """Names and values of a progress line, the most important first.

    Args:
        update: Number of the update.
        step: Environment steps so far.
        goal: Step that progress is measured against.
        speed: Steps per second for the estimate of the time left; 0 if unknown.
        metrics: Metrics of the update.
    """
    share = f" ({min(100, 100 * step // goal.steps)}%)" if goal.ends else ""
    parts = [("update", str(update)), ("steps", f"{step:,}{share}"), _time_left(step, goal, speed)]
    values = ((name, metrics.get(tag), pattern) for name, tag, pattern in COLUMNS)
    parts += [(name, "-" if value is None else format(value, pattern)) for name, value, pattern in values]
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
    """Percentages of time spent in the rollout, in the update, and in everything else."""
    seconds = [metrics.get(f"charts/{name}_s") or 0.0 for name in ("rollout", "update", "league")]
    whole = sum(seconds)
    return [("time", "/".join(f"{100 * each / whole:.0f}" for each in seconds) + "%")] if whole else []


def _line(parts: list[Part], width: int | None) -> Text:
    """Join as many parts as fit into the width; names are dim."""
    line = Text()
    for name, value in parts:
        part = Text.assemble(SEPARATOR if line else "", (name, "dim"), " ", value)
        if width is not None and line and len(line) + len(part) > width:
            break
        line.append_text(part)
    return line
