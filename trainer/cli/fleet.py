"""`trainer fleet`."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, get_args

import torch
import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from arena.environments import declare
from arena.exit_status import FAILURE
from league.client import DEFAULT_URL
from league.home import runs_folder
from league.private_files import TOKEN, read_secret
from league.wire import Role
from trainer.cli.clients import make_console
from trainer.cli.options import League, Overrides, Token
from trainer.errors import ConfigError
from trainer.fleet.driver import Fleet, MemberState
from trainer.fleet.members import CapacityError, FleetSpec, Member, Resources, check_capacity, plan_members, variables
from trainer.fleet.ray_cluster import connect
from trainer.fleet.supervisor import Launch

app = typer.Typer()


def _roles(text: str) -> tuple[Role, ...]:
    known: tuple[Role, ...] = get_args(Role)
    roles = tuple(role for word in text.split(",") for role in known if role == word.strip())
    if len(roles) != len(text.split(",")):
        raise ConfigError(
            f"--roles {text!r} has a role that is not one of {', '.join(known)}: separate roles by commas"
        )
    return roles


@app.command(epilog="Example: trainer fleet --environment mech-duel --trainers 4 --evaluators 2 --gpus-per-trainer 1")
def fleet(
    environment: Annotated[str, typer.Option("--environment", help="Environment to train on.")],
    league: League = DEFAULT_URL,
    token: Token = None,
    trainers: Annotated[int, typer.Option("--trainers", min=0, help="Number of learners.")] = 1,
    evaluators: Annotated[
        int, typer.Option("--evaluators", min=0, help="Number of evaluators, with one CPU each.")
    ] = 1,
    cpus: Annotated[float, typer.Option("--cpus-per-trainer", min=0.1, max=1e6, help="CPUs of each trainer.")] = 1.0,
    gpus: Annotated[
        float,
        typer.Option("--gpus-per-trainer", min=0.0, max=1e6, help="GPUs of each trainer, with one rank for each GPU."),
    ] = 0.0,
    roles: Annotated[
        str,
        typer.Option("--roles", help="Roles of the learners, in turn, such as main,main_exploiter,league_exploiter."),
    ] = "main",
    prefix: Annotated[
        str, typer.Option("--prefix", help="Prefix of all names, for a second fleet in the same league.")
    ] = "",
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="DIR", help="Run folders.", show_default="$LEAGUE_HOME/runs")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Ray cluster: ray://HOST:10001 or auto.", show_default="this machine"),
    ] = None,
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, then stop. Needs no Ray.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with --dry-run.")] = False,
) -> None:
    """Run trainers and evaluators on a Ray cluster.

    Ray restarts processes that die, and they resume from their run folders, which all machines must share. Ctrl-C
    ends the fleet: trainers save and exit, and the same command resumes. The fleet also ends when all trainers have
    finished. See docs/guides/train/scale-out.md.
    """
    if as_json and not dry_run:
        raise ConfigError("--json prints the result of a dry run: give --dry-run too, or leave --json out")
    declare(environment)
    settings = tuple(overrides or ())
    folder = (runs or runs_folder()).absolute()
    resources = Resources(cpus, gpus)
    members = plan_members(
        FleetSpec(environment, trainers, evaluators, resources, _roles(roles), prefix, folder, settings)
    )
    if dry_run:
        _show(members, address, as_json=as_json)
        return
    if address is None:
        check_capacity(members, [_this_machine()])
    secret = token or read_secret(TOKEN, os.environ) or ""
    given = {"LEAGUE_URL": league, TOKEN: secret, **variables(settings, os.environ)}
    console = make_console()
    with connect(address, members, league) as cluster:
        states = [MemberState(member, cluster.start(Launch(member, given))) for member in members]
        succeeded = Fleet(states, console.print).run()
    console.print(f"run folders are in {folder}: the same command continues")
    if not succeeded:
        raise typer.Exit(FAILURE)


def _this_machine() -> Resources:
    return Resources(float(os.cpu_count() or 1), float(torch.cuda.device_count()))


def _show(members: Sequence[Member], address: str | None, *, as_json: bool) -> None:
    where, obstacle = f"Ray at {address}" if address else "this machine", None
    try:
        if address is None:
            check_capacity(members, [_this_machine()])
    except CapacityError as error:
        obstacle = str(error)
    table = Table("member", "where", "takes", Column("command", overflow="fold"), box=box.SIMPLE_HEAD)
    items = []
    for member in members:
        command, resources = shlex.join(("python", "-m", *member.command)), member.resources
        table.add_row(member.name, where, str(resources), command)
        item = {"name": member.name, "kind": member.kind, "where": where, **asdict(resources)}
        items.append({**item, "run": str(member.folder), "command": command})
    if as_json:
        typer.echo(json.dumps({"items": items, "obstacle": obstacle}))
        return
    Console(markup=False, emoji=False).print(table)
    if obstacle is not None:
        typer.echo(f"this fleet cannot start: {obstacle}")
