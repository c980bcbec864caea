"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from league.client.address import URL_VARIABLE
from league.client.options import SHOWN_URL, locate_league
from trainer.config.runtime import check_name

SETTINGS_VARIABLE = "TRAINER_SET"
"""Settings of every trainer, also of those that `league up` starts; for example, to shorten a trial."""

League = Annotated[
    str,
    typer.Option(
        "--url",
        envvar=URL_VARIABLE,
        callback=locate_league,
        help="URL of the league server.",
        show_default=SHOWN_URL,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="LEAGUE_TOKEN",
        show_envvar=True,
        help="Bearer token, or set LEAGUE_TOKEN_FILE to a file with it. Not needed without authentication.",
    ),
]
ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="TOML file with settings.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Change one setting. May be repeated."),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Settings for hardware: gpu."),
]

DiskCacheBytes = Annotated[
    int,
    typer.Option(
        "--disk-cache-bytes", min=0, help="Maximum size of opponents' checkpoints in the run folder, in bytes."
    ),
]
MemoryCacheBytes = Annotated[
    int,
    typer.Option(
        "--memory-cache-bytes", min=0, help="Maximum size of opponents' weights in memory, in bytes per environment."
    ),
]
Modules = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        metavar="MODULE:CLASS",
        help="Your own network module, which opponents may use. It is code. May be repeated.",
    ),
]
RunFolder = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="Run folder.", show_default="in the home folder, $LEAGUE_HOME or var"),
]
NumEnvs = Annotated[
    int | None,
    typer.Option(
        "--num-envs", min=2, help="Concurrent matches.", show_default="environment.num_envs of the environment's preset"
    ),
]
Duty = Annotated[float, typer.Option("--duty", min=0.01, max=1.0, help="Share of the time that the worker plays.")]
Budget = Annotated[int, typer.Option("--budget", min=1, help="Matches per pair, side and lease.")]
RecordEvery = Annotated[
    float,
    typer.Option(
        "--record-every",
        min=0.0,
        metavar="SECONDS",
        help="Seconds between two recorded matches of an environment. 0 records none.",
    ),
]


def name_checker(longest: int) -> Callable[[str], str]:
    """Return a callback that rejects names that the league would reject."""

    def check(name: str) -> str:
        try:
            return check_name(name, longest)
        except ValueError as error:
            raise typer.BadParameter(f"{name!r} is not a valid name: {error}") from error

    return check
