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

from league import cores, log_config
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
_KEEP_ALIVE_S = 15  # idle connections: clients drop theirs after 5 s, and must be first, or a call meets a closing one
_BACKLOG = 2048
_ACCEPTED_AT_ONCE = 16
_TURN_S = 0.001
_COLLECTED_AFTER = 10_000, 20, 10  # more objects, collections of the young, and of the middle-aged

Host = Annotated[
    str | None, typer.Option("--host", envvar="LEAGUE_HOST", help="Interface to listen on.", show_default="127.0.0.1")
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port", envvar="LEAGUE_PORT", min=0, max=65535, help="TCP port; 0: any free one.", show_default="8000"
    ),
]


@app.command(epilog="Example: league serve --port 8001 --home /srv/league")
def serve(host: Host = None, port: Port = None, home: Home = None, database_url: DatabaseUrl = None) -> None:
    """Run the league server.

    The server upgrades its database when it starts. While no token exists it listens on loopback only and accepts
    every program of this machine, with a warning. The first token closes it (`league token create`). Any other address
    needs a token before the server starts. `league settings` lists everything that you can set.
    """
    settings = Settings.load(host=host, port=port, home=home, database_url=database_url)
    with bind.take(settings.host, settings.port) as listener:
        prepare(settings)
        _run(settings, listener)


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
    """Migrate, look whether the store can be worked with, and say whether the league is open.

    Raises:
        ConfigurationError: There is no such core.
        OpenServerError: The address is not loopback and no token exists.
        DatabaseUnavailableError: The database's server does not answer.
        StoreUnavailableError: Checkpoints cannot be kept where the settings say.
        NewerDatabaseError: The database belongs to a newer version.
    """
    cores.require_usable(settings.core)
    require_token_beyond_loopback(settings)
    database.migrate(settings)
    with database.connected(settings) as connection, connection.read() as session:
        closed = tokens.any_exists(session)
    open_store(settings).prepare()
    door = (
        "closed: calls need a token" if closed else "open: no token exists, so every program of this machine may call"
    )
    typer.echo(f"home {settings.home.absolute()}; {door}")


def require_token_beyond_loopback(settings: Settings) -> None:
    """Refuse an address that the network reaches while no token exists; creates neither home folder nor database.

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


def _run(settings: Settings, listener: socket.socket) -> None:
    # Imported here: the web framework would cost every other command its start-up time.
    import uvicorn

    from league.app import create_app

    log_config.configure(settings.log_level, settings.log_format)
    app = create_app(settings, with_background_process=True)

    class Server(uvicorn.Server):
        """Opens the application itself: where that fails, uvicorn prints a traceback and ends as if all were well."""

        def handle_exit(self, number: int, frame: FrameType | None) -> None:
            app.state.league.ending.set()
            super().handle_exit(number, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            self._opened = app.router.lifespan_context(app)
            await self._opened.__aenter__()
            await super().startup(sockets)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets)
            if not self.force_exit:
                await self._opened.__aexit__(None, None, None)

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
        signal.signal(number, _leave_to_server)
    listener.listen(_BACKLOG)
    _spare_what_stays()
    sys.setswitchinterval(_TURN_S)  # threads that compute leave Python's lock sooner to those that answer
    url = bind.url_of(listener)
    typer.echo(f"{bind.sentence_of(listener)}; interface documentation at /docs; Ctrl-C stops")
    with database.answering(app.state.league.database), _published(settings.home, url):
        server.run(sockets=bind.at_once(listener, _ACCEPTED_AT_ONCE))
    typer.echo("stopped")


@contextmanager
def _published(home: Path, url: str) -> Iterator[None]:
    """Leave the address in the home folder while the server runs; commands without --url look there."""
    try:
        publish_address(home, url)
    except OSError as error:
        typer.echo(f"{error.filename}: {error.strerror}; commands need LEAGUE_URL={url} to find this server", err=True)
    try:
        yield
    finally:
        withdraw_address(home, url)


def _spare_what_stays() -> None:
    """Keep the garbage collector from what lives as long as the server: looking through that stops all for 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


def _leave_to_server(_number: int, _frame: object) -> None:
    """Do nothing: the server ends by itself at a signal, and then raises it again for this handler."""


def grid(rows: Iterable[Setting]) -> Grid:
    """Make a list of settings, with the default of those that differ from it."""
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
        "no setting exists",
    )
