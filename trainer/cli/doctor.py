"""`trainer doctor`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from trainer.monitoring.report.doctor import as_json as diagnosis_as_json
from trainer.monitoring.report.doctor import diagnose, show

app = typer.Typer()


@app.command()
def doctor(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder of `trainer run`, running or finished.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain a run: what went wrong, when, and what to try.

    Exits with 0 where there is nothing but hints, with 1 where something was wrong, with 2 where RUN is no run folder.

    Example: trainer doctor var/runs/mech-duel/main
    """
    diagnosis = diagnose(run_folder)
    if as_json:
        typer.echo(json.dumps(diagnosis_as_json(diagnosis)))
    else:
        show(diagnosis, Console())
    raise typer.Exit(0 if diagnosis.healthy else 1)
