"""Tables for terminals of any width; rows that do not fit become records."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

LEGIBLE_WIDTH = 12
"""Minimum width of a column with wrapped text."""

_GAP = 2


@dataclass(frozen=True)
class Grid:
    """Table whose cells are never truncated.

    Attributes:
        blocks: Headings in blocks that are justified right, left, right, left. Right-justified columns do not wrap.
        rows: One cell per heading each.
        nothing: Text to print instead of an empty table.
        title: Line above the table.
        brief: Headings of the columns to show if the table is too wide. If empty, each row becomes a record.
    """

    blocks: Sequence[Sequence[str]]
    rows: Sequence[Sequence[str]]
    nothing: str
    title: str | None = None
    brief: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the rows out for a console."""
        if self.rows:
            yield self._layout(options.max_width)
        else:
            yield Text(self.nothing if self.title is None else f"{self.title}: {self.nothing}")

    @cached_property
    def _columns(self) -> "list[_Column]":
        headings = [(heading, bool(number % 2)) for number, block in enumerate(self.blocks) for heading in block]
        cells = zip(*self.rows, strict=True)
        return [_Column(heading, left, tuple(each)) for (heading, left), each in zip(headings, cells, strict=True)]

    def _layout(self, width: int) -> RenderableType:
        widths = _widths(self._columns, width)
        if widths is not None:
            return self._table(widths)
        return self._briefly()._layout(width) if self.brief else self._records()

    def _table(self, widths: Sequence[int]) -> Table:
        table = Table(box=None, padding=(0, 1), header_style="bold")
        table.title, table.title_justify = self.title, "left"
        for column, width in zip(self._columns, widths, strict=True):
            table.add_column(
                Text(textwrap.fill(column.heading, width)),
                justify="left" if column.left else "right",
                width=width,
                overflow="fold",
            )
        for row in self.rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        return table

    def _briefly(self) -> "Grid":
        shown = [number for number, column in enumerate(self._columns) if column.heading in self.brief]
        blocks = [[heading for heading in block if heading in self.brief] for block in self.blocks]
        return replace(self, blocks=blocks, rows=[[row[number] for number in shown] for row in self.rows], brief=())

    def _records(self) -> Group:
        headings = [column.heading for column in self._columns]
        parts: list[RenderableType] = [] if self.title is None else [Text(self.title, style="italic")]
        for row in self.rows:
            parts += [record(dict(zip(headings, row, strict=True))), Text("")]
        return Group(*parts[:-1])


@dataclass(frozen=True)
class _Column:
    """Heading and cells of a column; left-justified columns contain text and may wrap."""

    heading: str
    left: bool
    cells: tuple[str, ...]

    @cached_property
    def wanted_width(self) -> int:
        """Width without wrapping."""
        return max(map(cell_len, (self.heading, *map(printable, self.cells))))

    @cached_property
    def min_width(self) -> int:
        """Smallest width without broken words, wrapped numbers or illegibly short lines."""
        if not self.left:
            return max(map(cell_len, (*self.heading.split(), *self.cells)))
        words = (word for text in (self.heading, *map(printable, self.cells)) for word in text.split())
        return max(min(LEGIBLE_WIDTH, self.wanted_width), *map(cell_len, words))


def _widths(columns: Sequence[_Column], width: int) -> list[int] | None:
    """Distribute the width among the columns, smallest demand first; None if it does not suffice."""
    widths = [column.min_width for column in columns]
    spare = width - sum(widths) - _GAP * len(columns)
    if spare < 0:
        return None
    missing_widths = sorted((column.wanted_width - column.min_width, number) for number, column in enumerate(columns))
    for served, (missing, number) in enumerate(missing_widths):
        grant = min(missing, spare // (len(columns) - served))
        widths[number] += grant
        spare -= grant
    return widths


def record(fields: Mapping[str, str]) -> Table:
    """Return a table with one line per field."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(Text(name), Text(printable(value)))
    return table


def printable(text: str) -> str:
    """Escape control characters, such as newlines and terminal escape sequences."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
