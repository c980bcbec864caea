"""The command `league demo`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from league.cli import bind, serve
from league.db.engine import is_missing
from league.errors import ConfigurationError
from league.settings import PREFIX, Settings

app = typer.Typer()


@app.command(epilog="Example: league demo --port 8001")
def demo(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="TCP port. 0 selects a free one.")] = 0,
    home: Annotated[
        Path | None,
        typer.Option(
            "--home", help="New folder that keeps the league.", show_default="a temporary folder, deleted at exit"
        ),
    ] = None,
) -> None:
    """Serve a league with a week of simulated history, to try the dashboard.

    Its matches are simulated, except the recorded one. Its workers stopped when the history ended. The command listens
    on loopback only, ignores all `LEAGUE_` variables, and does not touch your own league.
    """
    # The background process also reads these variables, which may name the database of another league.
    for name in [each for each in os.environ if each.upper().startswith(PREFIX)]:
        del os.environ[name]
    with bind.take("127.0.0.1", port) as listener, _folder(home) as folder:
        settings = Settings.load(home=folder, port=port)
        if not is_missing(settings.database_address):
            remedy = f"choose a new folder, or run `league serve --home {folder}`"
            raise ConfigurationError(f"--home {folder}", "it contains a league already", remedy)
        serve.prepare(settings)
        # Imported here because the web framework would slow the start of every other command.
        from league.cli.demo.history import WEEK, simulate

        played = simulate(settings, WEEK)
        typer.echo(
            f"simulated {played.matches} matches of {played.players} players; recording: /matches/{played.recorded}"
        )
        serve.run(settings, listener)


@contextmanager
def _folder(home: Path | None) -> Iterator[Path]:
    if home is not None:
        yield home
        return
    with TemporaryDirectory(prefix="league-demo-") as folder:
        yield Path(folder)
