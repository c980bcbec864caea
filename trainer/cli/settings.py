"""`trainer settings`: list the settings of a run."""

import json
import os
from collections.abc import Sequence
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from trainer.cli.options import SETTINGS_VARIABLE, ConfigFile, Overrides, Preset
from trainer.config import loading
from trainer.config.loading import Setting
from trainer.config.messages import to_toml_value

app = typer.Typer()

_PIPE_WIDTH = 1000
"""Columns of a table that is not printed to a terminal, so that each setting is one line."""


@app.command("settings", epilog="Example: trainer settings ppo --environment mech-duel")
def show_settings(
    section: Annotated[
        str | None, typer.Argument(metavar="[SECTION]", help="Only this section, such as ppo.", show_default="all")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="Environment whose preset applies.", show_default="mech-duel")
    ] = None,
    config_file: ConfigFile = None,
    overrides: Overrides = None,
    preset: Preset = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the settings of a run with their values and defaults.

    `trainer run` with the same options would start with these values. Without SECTION, each setting takes one line.
    With SECTION, the list includes the whole descriptions and ranges.
    """
    given = [*os.environ.get(SETTINGS_VARIABLE, "").split(), *(overrides or [])]
    rows = loading.list_settings(loading.resolve(environment, config_file, given, overlay=preset), section)
    if as_json:
        typer.echo(json.dumps({"items": [row._asdict() for row in rows], "next_cursor": None}))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    console.print(_table(rows, brief=section is None))


def _table(rows: Sequence[Setting], *, brief: bool) -> Table:
    about = Column("about", no_wrap=True, overflow="ellipsis") if brief else Column("about", overflow="fold")
    table = Table("setting", "value", "default", about, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        default = "" if row.value == row.default else _text(row.default)
        bounds = "" if brief or not row.bounds else f" ({row.bounds})"
        table.add_row(row.name, _text(row.value), default, f"{row.about}{bounds}")
    return table


def _text(value: object) -> str:
    return "-" if value is None else to_toml_value(value)
