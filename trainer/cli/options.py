"""Arguments and options that several commands take, and where runs are kept."""

import os
from pathlib import Path
from typing import Annotated

import typer

League = Annotated[str, typer.Option("--league", envvar="LEAGUE_URL", help="Where the league server listens.")]
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


def runs() -> Path:
    """Where run folders are, unless a command is told otherwise."""
    return Path(os.environ.get("LEAGUE_HOME", "var")) / "runs"
