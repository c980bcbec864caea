"""`league match replay`: fetch the recording of a match."""

from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from arena.atomic_files import write_atomically
from league.cli.connection import Token, Url, connect
from league.client import DEFAULT_URL
from league.errors import ConfigurationError

app = typer.Typer()


@app.command(epilog="Example: league match replay 4711 --out match.replay.json.gz")
def replay(
    match_id: Annotated[int, typer.Argument(metavar="MATCH", min=1, help="A match's id.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", dir_okay=False, help="File to write.")],
    url: Url = DEFAULT_URL,
    token: Token = None,
) -> None:
    """Download the recording of a match.

    Watch it with `arena replay`, or in the dashboard at /matches/MATCH.
    """
    with connect(url, token) as client:
        data = client.replay(match_id)
    try:
        write_atomically(out, data)
    except OSError as error:
        raise ConfigurationError(f"file {out}", f"it cannot be written ({error.strerror})", "choose another") from error
    typer.echo(f"{out}: {decimal(len(data))}; watch it with: arena replay {out}")
