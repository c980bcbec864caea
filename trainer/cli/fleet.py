"""`trainer fleet`."""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import torch
import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from arena.environments import declare
from league.client import DEFAULT_URL
from league.secret_files import TOKEN, secret
from league.wire import Role
from trainer.cli.connection import open_terminal
from trainer.cli.options import League, Overrides, Token, runs
from trainer.errors import ConfigError
from trainer.fleet.cluster import opened
from trainer.fleet.members import Member, Share, Wish, enlist, variables
from trainer.fleet.room import Machine, NoRoomError, require_room, shown
from trainer.fleet.watch import Fleet

FAILED = 1

app = typer.Typer()


def _roles(text: str) -> tuple[Role, ...]:
    known: tuple[Role, ...] = get_args(Role)
    roles = tuple(role for word in text.split(",") for role in known if role == word.strip())
    if len(roles) != len(text.split(",")):
        raise ConfigError(f"--roles {text!r} has a role that is none of {', '.join(known)}: separate these by commas")
    return roles


@app.command()
def fleet(
    environment: Annotated[str, typer.Option("--environment", help="What is trained and played.")],
    league: League = DEFAULT_URL,
    token: Token = None,
    trainers: Annotated[int, typer.Option("--trainers", min=0, help="How many learners.")] = 1,
    evaluators: Annotated[int, typer.Option("--evaluators", min=0, help="How many evaluators, a CPU each.")] = 1,
    cpus: Annotated[float, typer.Option("--cpus-per-trainer", min=0.1, help="CPUs of each trainer.")] = 1.0,
    gpus: Annotated[
        float,
        typer.Option("--gpus-per-trainer", min=0.0, help="GPUs of each trainer; of several, it is a rank on each."),
    ] = 0.0,
    roles: Annotated[
        str, typer.Option("--roles", help="Roles of the learners, in turn: main,main_exploiter,league_exploiter.")
    ] = "main",
    prefix: Annotated[str, typer.Option("--prefix", help="Before all names, for a second fleet of a league.")] = "",
    runs_folder: Annotated[
        Path | None,
        typer.Option(
            "--runs", metavar="DIR", help="Folder of the run folders, on every machine [default: $LEAGUE_HOME/runs]."
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Ray cluster: ray://HOST:10001 or auto [default: one of this machine]."),
    ] = None,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print who would run with what, then stop; needs no Ray.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with --dry-run.")] = False,
) -> None:
    """Run trainers and evaluators of one league on the machines of a Ray cluster.

    Members that die are started again and go on from their run folders. Ctrl-C ends the fleet: trainers save and leave,
    and the same command goes on. It ends by itself when its trainers have. See docs/fleet.md.

    Example: trainer fleet --environment mech-duel --trainers 4 --evaluators 2 --gpus-per-trainer 1 --address auto
    """
    if as_json and not dry_run:
        raise ConfigError("--json prints what would run: give --dry-run too, or leave --json out")
    declare(environment)
    settings = tuple(overrides or ())
    folder = (runs_folder or runs()).absolute()
    members = enlist(
        Wish(environment, trainers, evaluators, Share(cpus, gpus), _roles(roles), prefix, folder, settings)
    )
    if dry_run:
        _show(members, address, as_json=as_json)
        return
    if address is None:
        require_room(members, [_this_machine()])
    given = {"LEAGUE_URL": league, TOKEN: token or secret(TOKEN, os.environ) or "", **variables(settings, os.environ)}
    terminal = open_terminal()
    with opened(address, members, league) as cluster:
        went_well = Fleet(members, cluster.open, variables=given, began=cluster.began, say=terminal.say).run()
    terminal.say(f"run folders are in {folder}: the same command goes on")
    if not went_well:
        raise typer.Exit(FAILED)


def _this_machine() -> Machine:
    return Machine("this machine", float(os.cpu_count() or 1), float(torch.cuda.device_count()))


def _show(members: Sequence[Member], address: str | None, *, as_json: bool) -> None:
    where = f"Ray at {address}" if address else "this machine"
    obstacle = None if address else _obstacle(members)
    rows = [
        {
            "name": member.name,
            "kind": member.kind,
            "where": where,
            "cpus": member.share.cpus,
            "gpus": member.share.gpus,
            "run": str(member.folder),
            "command": shlex.join(("python", "-m", *member.words)),
        }
        for member in members
    ]
    if as_json:
        typer.echo(json.dumps({"items": rows, "obstacle": obstacle}))
        return
    table = Table("member", "where", "takes", Column("command", overflow="fold"), box=box.SIMPLE_HEAD)
    for member, row in zip(members, rows, strict=True):
        table.add_row(member.name, where, shown(member.share), str(row["command"]))
    Console(markup=False, emoji=False).print(table)
    if obstacle is not None:
        typer.echo(f"it would not start: {obstacle}")


def _obstacle(members: Sequence[Member]) -> str | None:
    """Why the fleet would not start on this machine, or None."""
    try:
        require_room(members, [_this_machine()])
    except NoRoomError as error:
        return str(error)
    return None
