"""How a running league shows: a live table on a terminal, plain lines anywhere else."""

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
_FEWEST_ROWS = 3
_MOST_ROWS = 200  # that are read; a league with more says "more than"
_MOST_RATES = 8  # two or three lines of a window of 80 columns
_BRIEF = ("rank", "player", "rating ± 2 RD", "games")
_BRIEF_LEARNERS = ("learner", "role", "step", "began anew")
_STYLES: dict[State, str] = {"running": "green", "restarting": "yellow", "stopping": "yellow", "failed": "bold red"}


@dataclass(frozen=True)
class Part:
    """One supervised process, as far as it shows."""

    name: str
    state: State
    restarts: int


@dataclass(frozen=True)
class View:
    """All that a screen shows at one moment.

    Attributes:
        began_at: When this run of `league up` began; what the learner reported before is old.
        tail: Last lines of the log that tells what is going on while the learner has no metrics yet.
        note: What is wrong at the moment; empty where nothing is.
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
    """Where a running league shows."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def rows(self) -> int:
        """Say how many rows of the league table have room."""

    def say(self, line: str) -> None:
        """Print a line that stays."""

    def show(self, view: View) -> None:
        """Show the present state."""


class LiveScreen:
    """A table that is painted anew in place; lines that stay scroll above it."""

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
        """Return how many rows of the league table are read, to know how many are hidden."""
        return _MOST_ROWS

    def say(self, line: str) -> None:
        """Print a line above the table."""
        self._live.console.print(line, markup=False, highlight=False)

    def show(self, view: View) -> None:
        """Paint the table anew, with as many rows as fit."""
        self._live.update(fit(view, self._live.console), refresh=True)


class PlainLog:
    """Plain lines, for a log file or a pipe.

    Args:
        console: Where to print.
        interval_s: Time between two lines of progress, in seconds.
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
        """Say how many rows of the league table are read: the leader alone."""
        return 1

    def say(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, view: View) -> None:
        """Print what the log says until there are metrics, then a line of progress at every interval."""
        if not has_metrics(view):
            self._follow(view.tail)
        elif view.uptime_s >= self._due_at_s:
            self._due_at_s = view.uptime_s + self._interval_s
            self.say(progress_line(view))

    def _follow(self, tail: Sequence[str]) -> None:
        seen = list(tail).index(self._last_line) + 1 if self._last_line in tail else 0
        for line in tail[seen:]:
            self.say(f"  {line}")
        if tail:
            self._last_line = tail[-1]


def has_metrics(view: View) -> bool:
    """Say whether the learner has reported anything since the beginning."""
    learner = view.overview.learner
    return learner is not None and learner.metrics_at is not None and learner.metrics_at >= view.began_at


def progress_line(view: View) -> str:
    """Describe the present state in one line."""
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
    """Lay out the live view with as many rows of the table as the terminal has room for."""
    rows = min(len(view.overview.standings), max(console.height, _FEWEST_ROWS))
    while True:
        painted = paint(view, rows)
        excess = len(console.render_lines(painted)) - console.height + 1
        if excess <= 0 or rows <= _FEWEST_ROWS:
            return painted
        rows = max(rows - excess, _FEWEST_ROWS)


def paint(view: View, rows: int = _MOST_ROWS) -> RenderableType:
    """Lay out the live view with the first rows of the table, and the number of those that are hidden."""
    pieces: list[RenderableType] = [_headline(view)]
    if view.note:  # at the top, where no window is too low for it
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
        pieces.append(Text(tables.period_line(view.overview.period)))
    return Group(*pieces)


def _hidden(view: View, rows: int) -> list[RenderableType]:
    """Return the line that counts the rows below those that are shown; none if all are."""
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
        again = f" (restarted {part.restarts}x)" if part.restarts else ""
        line.append(f"{part.name} {part.state}{again}  ", style=_STYLES.get(part.state, "dim"))
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
        title = f"win rate, lowest of {len(rates)}: " if len(rates) > _MOST_RATES else "win rate: "
        lines.append(Text(title + "  ".join(f"{name} {tables.share(rate)}" for name, rate in rates[:_MOST_RATES])))
    return lines
