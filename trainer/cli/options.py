"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from league.client.address import URL_VARIABLE
from league.client.options import SHOWN_URL, locate_league
from trainer.config.runtime import check_name

League = Annotated[
    str,
    typer.Option(
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
RunFolder = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Run folder [default: in the home folder, $LEAGUE_HOME or var]."),
]
NumEnvs = Annotated[
    int | None,
    typer.Option("--num-envs", min=2, help="Concurrent matches [default: as many as the game's trainers play]."),
]
Duty = Annotated[float, typer.Option("--duty", min=0.01, max=1.0, help="Share of the time to play.")]
Budget = Annotated[int, typer.Option("--budget", min=1, help="Matches per pair, side and lease.")]
RecordEvery = Annotated[
    float,
    typer.Option("--record-every", min=0.0, help="Seconds between two recorded matches of a game; 0 records none."),
]


def name_checker(longest: int) -> Callable[[str], str]:
    """Return a callback that rejects names that the league would reject."""

    def check(name: str) -> str:
        try:
            return check_name(name, longest)
        except ValueError as error:
            raise typer.BadParameter(f"{name!r} is not a valid name: {error}") from error

    return check
