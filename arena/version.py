"""`--version` of every command."""

from importlib.metadata import version
from typing import Annotated

import typer


def _print(requested: bool) -> None:
    if requested:
        typer.echo(f"echelon-league {version('echelon-league')}")
        raise typer.Exit


def show_version(
    _asked: Annotated[
        bool, typer.Option("--version", callback=_print, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Add the option `--version` to a command line."""
