"""`arena verify`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena.cli.options import AsJson, Seed
from arena.cli.output import game_stdout_to_stderr, make_table, prepare_torch, print_json, progress, stdout

if TYPE_CHECKING:
    from arena.conformance.report import Finding, Report

FAILED = 1
MARKS = {
    "passed": ("pass", "green"),
    "failed": ("FAIL", "bold red"),
    "warning": ("warn", "yellow"),
    "info": ("info", "cyan"),
    "n/a": ("n/a", "dim"),
    "not reached": ("-", "dim"),
}
"""Label and colour of each verdict."""

app = typer.Typer()


@app.command(epilog="Example: arena verify mypackage.mygame:make --matches 200")
def verify(
    environment: Annotated[
        str, typer.Argument(metavar="ENVIRONMENT", help="Environment, as in --environment of other commands.")
    ],
    matches: Annotated[int, typer.Option("--matches", min=1, help="Number of matches between random players.")] = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check a game against the environment contract: spec, ranges, masks, ends, outcomes, repeatability, sides.

    Prints a row for each check, and for each failure the observation, its place, the rule and a remedy. Exits with 1 if
    a check fails. A warning is not a failure.
    """
    from arena.conformance import verify as verify_environment

    prepare_torch(threads=1)
    with game_stdout_to_stderr():
        report = verify_environment(environment, matches=matches, seed=seed, progress=progress)
    if as_json:
        print_json(_describe(report))
    else:
        _print(stdout(), report)
    if not report.passed:
        raise typer.Exit(FAILED)


def _describe(report: "Report") -> dict[str, Any]:
    return {
        "environment": report.environment,
        "signature": report.signature,
        "matches": report.matches,
        "seed": report.seed,
        "passed": report.passed,
        "decisions_per_s": report.decisions_per_s,
        "checks": [
            {
                "check": row.check,
                "verdict": row.verdict,
                "detail": row.detail,
                "where": row.where if row.broken else None,
                "rule": row.rule or None,
                "remedy": row.remedy or None,
            }
            for row in report.rows
        ],
    }


def _print(console: Console, report: "Report") -> None:
    table = make_table("check", "", "result")
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for row in report.rows:
        mark, colour = MARKS[row.verdict]
        table.add_row(row.check, Text(mark, style=colour), Text("see below" if row.broken else row.detail))
    console.print(table)
    for row in report.rows:
        if row.broken:
            console.print(_explain(row))
    counts = {mark: sum(MARKS[row.verdict][0] == mark for row in report.rows) for mark, _ in MARKS.values()}
    summary = ", ".join(
        f"{counts[mark]} {what}" for mark, what in (("pass", "passed"), ("FAIL", "failed"), ("warn", "warnings"))
    )
    console.print(Text(f"{report.environment}: {summary}."))


def _explain(row: "Finding") -> Table:
    """Format a failure or warning: the observation, its place, the rule and the remedy."""
    mark, colour = MARKS[row.verdict]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=colour), Text(row.check, style="bold"))
    for name, line in {"seen": row.detail, "where": row.where, "rule": row.rule, "remedy": row.remedy}.items():
        if line:
            grid.add_row(Text(f"  {name}", style="dim"), Text(line))
    grid.add_row("", "")
    return grid
