"""Run the league server."""

import gc
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from arena.malloc import keep_freed_memory
from league import log_config
from league.cli import bind
from league.cli.connection import AsJson
from league.cli.maintenance import database
from league.cli.maintenance.database import DatabaseUrl, Home
from league.cli.output import tables
from league.cli.output.grid import Grid
from league.db import schema
from league.db.engine import is_missing
from league.home import publish_address, withdraw_address
from league.services.auth import tokens
from league.settings import Setting, Settings
from league.storage.factory import open_store

app = typer.Typer()

_SHUTDOWN_GRACE_S = 5
_KEEP_ALIVE_S = 15  # longer than the client's 5 s, so that the client closes idle connections first
_BACKLOG = 2048  # as uvicorn has it for sockets of its own
_ACCEPTED_PER_ITERATION = 16  # see `bind.at_once`
_SWITCH_INTERVAL_S = 0.001  # instead of 5 ms
_GC_THRESHOLDS = 10_000, 20, 10  # rarer than the default of 700, 10, 10

Host = Annotated[
    str | None, typer.Option("--host", envvar="LEAGUE_HOST", help="Interface to listen on.", show_default="127.0.0.1")
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", envvar="LEAGUE_PORT", min=0, max=65535, help="TCP port. 0 selects a free one.", show_default="8000"
    ),
]


@app.command(epilog="Example: league serve --port 8001 --home /srv/league")
def serve(host: Host = None, port: Port = None, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Run the league server.

    The server upgrades its database when it starts. Without tokens, authentication is disabled: the server listens on
    loopback only and accepts any local process. Creating a token turns authentication on (`league token create`). You
    need a token before the server starts on any other address. `league settings` lists all settings.
    """
    settings = Settings.load(host=host, port=port, home=home, database_url=database_url)
    with bind.take(settings.host, settings.port) as listener:
        prepare(settings)
        run(settings, listener)


@app.command("settings", epilog="Example: LEAGUE_PORT=8001 league settings")
def show_settings(as_json: AsJson = False, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """List the server's settings with their values and defaults.

    `league serve` would start with these values. Each setting is an environment variable. Passwords are not shown.
    """
    listing = Settings.load(home=home, database_url=database_url).listing()
    if as_json:
        tables.show_json({"items": listing, "next_cursor": None})
    else:
        tables.show(grid(listing))


def prepare(settings: Settings) -> None:
    """Migrate the database, check the checkpoint store and print whether authentication is on.

    Raises:
        OpenServerError: The address is not loopback and no token exists.
        DatabaseUnavailableError: The database's server does not answer.
        StoreUnavailableError: The checkpoint store cannot be used.
        NewerDatabaseError: The database belongs to a newer version.
    """
    require_token_beyond_loopback(settings)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.read() as session:
        secured = tokens.any_exists(session)
    open_store(settings).prepare()
    disabled = "authentication disabled (no tokens): any local process has full access"
    typer.echo(f"home {settings.home.absolute()}; {'authentication required' if secured else disabled}")


def require_token_beyond_loopback(settings: Settings) -> None:
    """Reject a non-loopback address if no token exists; creates neither home folder nor database.

    Raises:
        OpenServerError: The address is not loopback and no token exists.
    """
    if settings.on_loopback:
        return
    if is_missing(settings.database_address):
        raise tokens.open_server(settings.host)
    with database.connected(settings) as connection:
        if schema.is_missing(connection):
            raise tokens.open_server(settings.host)
        with connection.read() as session:
            tokens.require_closed_or_loopback(session, settings)


def run(settings: Settings, listener: socket.socket) -> None:
    """Serve a prepared league until SIGINT or SIGTERM."""
    # Imported here because the web framework would slow the start of every other command.
    import uvicorn

    from league.app import create_app

    log_config.configure(settings.log_level, settings.log_format)
    keep_freed_memory()
    app = create_app(settings, with_background_process=True)

    class Server(uvicorn.Server):
        """Runs the application's lifespan itself, because uvicorn exits with status 0 if the start-up fails."""

        def handle_exit(self, number: int, frame: FrameType | None) -> None:
            app.state.league.ending.set()
            super().handle_exit(number, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            self._lifespan = app.router.lifespan_context(app)
            await self._lifespan.__aenter__()
            await super().startup(sockets)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            # A second Ctrl-C forces the exit; waiting for tasks would defeat it.
            if not self.force_exit:
                await self._lifespan.__aexit__(None, None, None)

    server = Server(
        uvicorn.Config(
            app,
            access_log=False,
            lifespan="off",
            log_config=None,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_SHUTDOWN_GRACE_S,
        )
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignore)
    # Only now, because clients queue in the backlog from here on and would time out while the application is built.
    listener.listen(_BACKLOG)
    _freeze_heap()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)  # computing threads release the GIL sooner to threads that answer
    url = bind.url_of(listener)
    with database.answering(app.state.league.database), _published(settings.home, url):
        typer.echo(f"{bind.sentence_of(listener)}; API documentation at /docs; Ctrl-C stops")
        server.run(sockets=bind.at_once(listener, _ACCEPTED_PER_ITERATION))
    typer.echo("stopped")


@contextmanager
def _published(home: Path, url: str) -> Iterator[None]:
    """Publish the address in the home folder while the server runs, for commands without --url."""
    try:
        publish_address(home, url)
    except OSError as error:
        typer.echo(f"{error.filename}: {error.strerror}; set LEAGUE_URL={url} for other commands", err=True)
    try:
        yield
    finally:
        withdraw_address(home, url)


def _freeze_heap() -> None:
    """Exclude long-lived objects from garbage collection, which would pause the server for 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: uvicorn shuts down by itself and then raises the signal again for this handler."""


def grid(rows: Iterable[Setting]) -> Grid:
    """Return a table of settings, with the default where the value differs from it."""
    return Grid(
        [[], ["setting", "value", "default", "about"]],
        [
            [
                row.variable,
                row.value or tables.NONE,
                "" if row.value == row.default else row.default or tables.NONE,
                row.about,
            ]
            for row in rows
        ],
        "no settings",
    )
