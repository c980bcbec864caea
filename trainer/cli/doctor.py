"""`trainer doctor`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from trainer.doctor import as_json as diagnosis_as_json
from trainer.doctor import diagnose, show
from trainer.report import write

app = typer.Typer()


@app.command()
def doctor(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder of `trainer run`, running or finished.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the report too, as .html or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain a run: what went wrong, when, and what to try.

    Exits with 0 where there is nothing but hints, with 1 where something was wrong, with 2 where RUN is no run folder.

    Example: trainer doctor var/runs/main --out report.html
    """
    diagnosis = diagnose(run_folder)
    if out is not None:
        write(diagnosis, out)
    if as_json:
        typer.echo(json.dumps(diagnosis_as_json(diagnosis)))
    else:
        show(diagnosis, Console())
    raise typer.Exit(0 if diagnosis.healthy else 1)
