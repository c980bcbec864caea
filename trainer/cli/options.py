"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from league.client.address import URL_VARIABLE
from league.client.options import SHOWN_URL, locate_league

League = Annotated[
    str,
    typer.Option(
        "--league",
        "--url",
        envvar=URL_VARIABLE,
        callback=locate_league,
        help="Where the league server listens.",
        show_default=SHOWN_URL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="LEAGUE_TOKEN",
        show_envvar=True,
        help="Bearer token, or LEAGUE_TOKEN_FILE with it; an open league needs none.",
    ),
]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file with sections as listed below.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting; may be repeated, wins over --config."),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Settings for hardware, over the environment's preset: gpu."),
]

DiskCacheBytes = Annotated[
    int, typer.Option("--disk-cache-bytes", min=0, help="Most bytes of opponents' checkpoints in the run folder.")
]
MemoryCacheBytes = Annotated[
    int, typer.Option("--memory-cache-bytes", min=0, help="Most bytes of opponents' weights in memory, for each game.")
]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="MODULE:CLASS",
        help="A network module of yours, which is code, that opponents may ask for; may be repeated.",
    ),
]
