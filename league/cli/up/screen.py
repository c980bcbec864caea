"""Screen of `league up`: a live table on a terminal, plain lines elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from league.cli.output import tables
from league.cli.up.overview import Overview, progress, win_rates
from league.process.supervised_process import State

TAIL_LINES = 8
_MIN_ROWS = 3
_MAX_ROWS = 200  # rows to fetch
_MAX_RATES = 8  # two or three lines at 80 columns
_BRIEF = ("rank", "player", "rating ± 2 RD", "games")
_BRIEF_LEARNERS = ("learner", "role", "step", "resets")
_STYLES: dict[State, str] = {"running": "green", "restarting": "yellow", "stopping": "yellow", "failed": "bold red"}


@dataclass(frozen=True)
class Part:
    """State of one supervised process."""

    name: str
    state: State
    restarts: int


@dataclass(frozen=True)
class View:
    """State that the screen shows.

    Attributes:
        began_at: Start of this `league up`; older metrics of the learner are ignored.
        tail: Last log lines, shown until the learner reports metrics.
        note: Current problem, or an empty string.
    """

    url: str
    home: Path
    environment: str
    began_at: datetime
    uptime_s: float
    parts: Sequence[Part]
    overview: Overview
    tail: Sequence[str]
    note: str


class Screen(Protocol):
    """Output of `league up`."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def rows(self) -> int:
        """Return the number of standings rows to fetch."""

    def print_line(self, line: str) -> None:
        """Print a permanent line."""

    def show(self, view: View) -> None:
        """Show the current state."""


class LiveScreen:
    """Table that is redrawn in place; permanent lines scroll above it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def rows(self) -> int:
        """Return the number of standings rows to fetch, including hidden ones."""
        return _MAX_ROWS

    def print_line(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(line, markup=False, highlight=False)

    def show(self, view: View) -> None:
        """Redraw the table with as many rows as fit."""
        self._live.update(fit(view, self._live.console), refresh=True)


class PlainLog:
    """Plain lines, for a log file or a pipe.

    Args:
        console: Where to print.
        interval_s: Time between two progress lines, in seconds.
    """

    def __init__(self, console: Console, interval_s: float) -> None:
        self._console = console
        self._interval_s = interval_s
        self._due_at_s = 0.0
        self._last_line = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def rows(self) -> int:
        """Return the number of standings rows to fetch: only the leader."""
        return 1

    def print_line(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, view: View) -> None:
        """Print new log lines until there are metrics, then a progress line at every interval."""
        if not has_metrics(view):
            self._follow(view.tail)
        elif view.uptime_s >= self._due_at_s:
            self._due_at_s = view.uptime_s + self._interval_s
            self.print_line(progress_line(view))

    def _follow(self, tail: Sequence[str]) -> None:
        seen = list(tail).index(self._last_line) + 1 if self._last_line in tail else 0
        for line in tail[seen:]:
            self.print_line(f"  {line}")
        if tail:
            self._last_line = tail[-1]


def has_metrics(view: View) -> bool:
    """Return True if the learner has reported metrics since the start."""
    learner = view.overview.learner
    return learner is not None and learner.metrics_at is not None and learner.metrics_at >= view.began_at


def progress_line(view: View) -> str:
    """Return the current state as one line."""
    parts = [str(timedelta(seconds=int(view.uptime_s)))]
    parts += [f"{name} {value}" for name, value in progress(view.overview)]
    parts += [f"{learner.name} {learner.step or 0:,}" for learner in view.overview.learners[1:]]
    if view.overview.standings:
        leader = view.overview.standings[0]
        parts.append(f"leader {tables.display_name(leader)} {tables.rating(leader)} ({leader.games} games)")
    if view.overview.period is not None:
        parts.append(f"rating period {view.overview.period.number}")
    return " · ".join([*parts, view.note] if view.note else parts)


def fit(view: View, console: Console) -> RenderableType:
    """Lay out the live view with as many table rows as fit the terminal."""
    rows = min(len(view.overview.standings), max(console.height, _MIN_ROWS))
    while True:
        painted = paint(view, rows)
        # Lines may wrap, so the height is only known after rendering.
        excess = len(console.render_lines(painted)) - console.height + 1
        if excess <= 0 or rows <= _MIN_ROWS:
            return painted
        rows = max(rows - excess, _MIN_ROWS)


def paint(view: View, rows: int = _MAX_ROWS) -> RenderableType:
    """Lay out the live view with the first rows of the table and the number of hidden rows."""
    pieces: list[RenderableType] = [_headline(view)]
    if view.note:  # at the top, so that it is visible in any window
        pieces.append(Text(view.note, style="yellow"))
    pieces.append(Text(""))
    if view.overview.standings:
        pieces += [replace(tables.standings(view.overview.standings[:rows]), brief=_BRIEF), *_hidden(view, rows)]
        pieces.append(Text(""))
    if has_metrics(view):
        pieces += _learner_lines(view.overview)
    else:
        pieces += [Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in view.tail]
    if view.overview.period is not None:
        pieces.append(Text(tables.period_line(view.overview.period), no_wrap=True, overflow="ellipsis"))
    return Group(*pieces)


def _hidden(view: View, rows: int) -> list[RenderableType]:
    """Return a line with the number of hidden rows, or nothing if all rows are shown."""
    count = len(view.overview.standings) - rows
    if count <= 0 and not view.overview.more:
        return []
    number = f"more than {max(count, 0):,}" if view.overview.more else f"{count:,}"
    noun = "row" if number == "1" else "rows"
    return [Text(f"{number} more {noun}: enlarge the window or run `league standings`", style="dim")]


def _headline(view: View) -> Text:
    line = Text.assemble((view.environment, "bold"), f"  {view.url}  home {view.home}  ")
    line.append(f"{timedelta(seconds=int(view.uptime_s))}  ")
    for part in view.parts:
        restarts = f" (restarted {part.restarts}x)" if part.restarts else ""
        line.append(f"{part.name} {part.state}{restarts}  ", style=_STYLES.get(part.state, "dim"))
    return line


def _learner_lines(overview: Overview) -> list[RenderableType]:
    learner = overview.learner
    if learner is None:
        return []
    measures = "  ".join(f"{name} {value}" for name, value in progress(overview))
    lines: list[RenderableType] = [Text.assemble(("learner ", "bold"), (learner.name, "bold"), f"  {measures}")]
    if len(overview.learners) > 1:
        lines.append(replace(tables.learners(overview.learners), brief=_BRIEF_LEARNERS, title=None))
    if (newest := overview.newest.get(learner.id)) is not None:
        lines.append(Text(f"newest snapshot: {tables.display_name(newest)}"))
    rates = sorted(win_rates(learner), key=itemgetter(1))
    if rates:
        title = f"win rate, lowest of {len(rates)}: " if len(rates) > _MAX_RATES else "win rate: "
        lines.append(Text(title + "  ".join(f"{name} {tables.share(rate)}" for name, rate in rates[:_MAX_RATES])))
    return lines
