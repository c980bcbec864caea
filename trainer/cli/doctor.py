"""`trainer doctor`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from trainer.monitoring.report import doctor as reports

app = typer.Typer()


@app.command(epilog="Example: trainer doctor var/runs/mech-duel/main")
def doctor(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder of `trainer run`, running or finished.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report the problems of a run.

    For each problem it prints the time and a remedy.

    Exits with 0 without problems or with hints only, with 1 after a problem, and with 2 if RUN is not a run folder.
    """
    report = reports.diagnose(run_folder)
    if as_json:
        typer.echo(json.dumps(reports.as_json(report)))
    else:
        reports.print_report(report, Console())
    raise typer.Exit(0 if report.healthy else 1)
