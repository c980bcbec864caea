"""Output of the commands: tables, JSON and progress bars."""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.logging import RichHandler
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

PIPED_WIDTH = 200


def stdout() -> Console:
    """Return the console of stdout: wide if it is no terminal, so that nothing is folded; brackets are not markup."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, markup=False, emoji=False)


def make_table(*columns: str) -> Table:
    """Return an empty table that fits in 80 columns: narrow gaps, and long names are folded and not truncated."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_json(value: Any) -> None:  # noqa: ANN401  anything that JSON can hold
    """Print a value for scripts."""
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def game_stdout_to_stderr() -> Iterator[None]:
    """Redirect the output of games to stderr, because scripts read stdout."""
    with redirect_stdout(sys.stderr):
        yield


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on stderr if it is a terminal."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda finished: bar.advance(task, finished)


def prepare_torch(threads: int) -> None:
    """Set torch's number of threads; in a terminal, log slow steps such as the compilation of kernels."""
    import torch

    torch.set_num_threads(threads)
    if sys.stderr.isatty():
        handler = RichHandler(console=Console(stderr=True), show_time=False, show_level=False, show_path=False)
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])
