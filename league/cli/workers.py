"""`league worker`: list, quarantine, reinstate and command workers."""

from collections.abc import Iterable
from typing import Annotated

import typer

from league import wire
from league.cli.connection import AsJson, Token, Url, connect, moment
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.client import DEFAULT_URL

app = typer.Typer(
    help="List, quarantine, reinstate and command workers.",
    no_args_is_help=True,
)

RATING_PATIENCE_S = 900.0
"""The server recomputes all ratings before it responds."""

Which = Annotated[str, typer.Argument(metavar="WORKER", help="A worker's exact name, or its id.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, stored in the audit log.")]
Since = Annotated[
    str, typer.Option("--since", help="Time of the first bad result, as ISO 8601. Without a zone it is local time.")
]


@app.command("list", epilog="Example: league worker list --json")
def list_workers(as_json: AsJson = False, url: Url = DEFAULT_URL, token: Token = None) -> None:
    """List workers and flag those with suspicious recent results (docs/guides/operate/workers.md)."""
    with connect(url, token) as client:
        rows = list(client.iter_workers())
    if as_json:
        tables.show_json({"items": rows, "next_cursor": None})
    else:
        tables.show(grid(rows))


@app.command(
    epilog='Example: league worker quarantine trainer-main-mech-duel --since 2030-01-31T12:00 --reason "broken build"'
)
def quarantine(
    worker: Which,
    since: Since,
    reason: Annotated[str, typer.Option("--reason", help="Reason, sent to the worker and stored in the audit log.")],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Quarantine a worker: it gets no leases, its results since then do not count, and ratings are recomputed."""
    start = moment(since)
    with connect(url, token, RATING_PATIENCE_S) as client:
        found = client.worker(worker)
        imposed = client.quarantine_worker(found.id, start, reason)
    if as_json:
        tables.show_json(imposed)
    else:
        tables.show(f"{found.name}: results since {imposed.since.astimezone():%Y-%m-%d %H:%M:%S} do not count")


@app.command(epilog='Example: league worker reinstate trainer-main-mech-duel --restore --reason "a false alarm"')
def reinstate(
    worker: Which,
    reason: Reason = "",
    restore: Annotated[
        bool, typer.Option("--restore", help="Count all its results, including those from its quarantines.")
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Lift a worker's quarantine. With --restore its excluded results count again and ratings are recomputed."""
    with connect(url, token, RATING_PATIENCE_S) as client:
        found = client.worker(worker)
        lifted = client.reinstate_worker(found.id, reason, restore=restore)
    if as_json:
        tables.show_json(lifted)
    else:
        tables.show(f"{found.name}: {'all its results count' if restore else 'its results count from now on'}")


@app.command(epilog='Example: league worker command trainer-main-mech-duel drain --reason "the machine is needed"')
def command(
    worker: Which,
    requested: Annotated[
        wire.Command, typer.Argument(metavar="COMMAND", help="drain or stop makes it exit, continue cancels that.")
    ],
    reason: Reason = "",
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Send a command to a worker with its next heartbeat. A worker that exits first finishes its matches."""
    with connect(url, token) as client:
        found = client.command_worker(client.worker(worker).id, requested, reason)
    if as_json:
        tables.show_json(found)
    else:
        tables.show(f"{found.name} gets this command at its next heartbeat: {found.command}")


def grid(rows: Iterable[wire.ListedWorker]) -> Grid:
    """Return a table of workers with remarks."""
    return Grid(
        [[], ["worker", "kind", "last seen"], ["results", "rejected"], ["remarks"]],
        [
            [
                *(row.name, row.kind, tables.moment(row.seen_at), str(row.results), str(row.refused)),
                "; ".join(_remarks(row)) or tables.NONE,
            ]
            for row in rows
        ],
        "no workers; start one with `trainer run`, `trainer evaluate` or `league up`",
    )


def _remarks(worker: wire.ListedWorker) -> list[str]:
    """Return a worker's quarantine and suspicious checks as text."""
    quarantine = worker.quarantine
    remarks = [] if quarantine is None else [f"quarantined since {tables.moment(quarantine.since)}"]
    for check in worker.checks:
        if check.suspect:
            about = " ".join(part for part in (check.environment, check.kind, check.measure) if part)
            seen = f"{check.observed:.3g}, expected {check.expected:.3g}"
            remarks.append(f"suspect {about}: {seen} ({check.results} results, p = {check.p_value:.1g})")
    return remarks
