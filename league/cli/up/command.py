"""The command `league up`."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from arena.environments.registry import declare
from arena.errors import ArenaError, MissingPackageError
from arena.extras import require_extra
from league.cli import bind, serve
from league.cli.maintenance.database import DatabaseUrl, Home
from league.cli.serve import Host, Port
from league.cli.up.failures import UnusableInstallationError
from league.cli.up.plan import Plan, Trainee, trainees
from league.cli.up.screen import LiveScreen, PlainLog
from league.cli.up.supervisor import Supervisor
from league.cli.up.token import create_environment, own_credential
from league.errors import ConfigurationError, LeagueError
from league.private_files import TOKEN, read_secret
from league.settings import Settings

app = typer.Typer()

_PLAIN_INTERVAL_S = 10.0
_KILLED = 130


class HomeTakenError(LeagueError):
    """Another `league up` uses the same home folder."""

    type: ClassVar[str] = "home-taken"
    title: ClassVar[str] = "home taken"


@app.command(epilog="Example: league up --environment mech-duel --set ppo.normalized_ent_coef=0.02")
def up(
    environment: Annotated[str, typer.Option("--environment", help="Environment to train on.")] = "mech-duel",
    learner: Annotated[str, typer.Option("--learner", help="Name of the learner to train.")] = "main",
    league_play: Annotated[
        bool, typer.Option("--league-play", help="Also train a main exploiter and a league exploiter.")
    ] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Trainer setting. May be repeated."),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--module",
            metavar="MODULE:CLASS",
            help="Network module (your own code) that opponents may use. May be repeated.",
        ),
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            "--processes",
            min=0,
            max=256,
            help="Environment processes per trainer and evaluator, for games that run one match per process.",
        ),
    ] = 0,
    host: Host = None,
    port: Port = None,
    home: Home = None,
    database_url: DatabaseUrl = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token", envvar="LEAGUE_TOKEN", help="Token for trainer and evaluator if the league has tokens."
        ),
    ] = None,
) -> None:
    """Run a whole league on this machine: server, trainer, evaluator and live standings.

    With --league-play it trains three learners: a main and two exploiters that search for weaknesses of the main and
    of the league. See docs/concepts/matchmaking.md for when that pays.

    Ctrl-C stops all processes cleanly, and the same command resumes the league and its learners. All data is in the
    home folder: database, checkpoints, the learner's run (runs/ENVIRONMENT/LEARNER), logs of all processes (logs), and
    the server's address (league.url). A process that crashes is restarted. A permanent error, such as an invalid
    setting, ends the command with the same error. So do five crashes in a row within two minutes each.

    Without authentication no token is needed. If the league has tokens and neither LEAGUE_TOKEN nor LEAGUE_TOKEN_FILE
    is set, the command creates a worker token for trainer and evaluator. It stores the token in the home folder
    (up.token, readable only by you) and reuses it later.
    """
    _require_playable(environment)
    trainees = _trainees(learner, league=league_play)
    settings = Settings.load(host=host, port=port, home=home, database_url=database_url)
    serve.require_token_beyond_loopback(settings)
    with _home_taken(settings.home):
        plan = _prepare(
            settings,
            partial(
                Plan,
                environment=environment,
                trainees=trainees,
                overrides=tuple(overrides or ()),
                modules=tuple(modules or ()),
                processes=processes,
            ),
        )
        credential = partial(_credential, settings, token, plan)
        console = Console()
        screen = LiveScreen(console) if console.is_terminal else PlainLog(console, _PLAIN_INTERVAL_S)
        with screen:
            graceful = Supervisor(plan, screen, credential).run()
    typer.echo(
        f"{'stopped' if graceful else 'killed'}; the league's data is in {settings.home}; the same command resumes it"
    )
    if not graceful:
        raise typer.Exit(_KILLED)


def _require_playable(environment: str) -> None:
    try:
        require_extra("train", "training")
        declare(environment)
    except MissingPackageError as error:
        raise UnusableInstallationError(environment, str(error), "then run the same command again") from error
    except ArenaError as error:
        raise typer.BadParameter(str(error)) from error


@contextmanager
def _home_taken(home: Path) -> Iterator[None]:
    """Lock the home folder against another `league up`; the operating system releases the lock with the process."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / "up.lock").open("a+")
    except OSError as error:
        rule = f"{error.strerror}: {error.filename}"
        raise ConfigurationError(f"home {home}", rule, "choose another with --home or LEAGUE_HOME") from error
    with lock:
        try:
            # The operating system releases the lock with the process, even after SIGKILL.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            rule = f"another `league up` (process {lock.read().strip()}) uses it"
            raise HomeTakenError(home, rule, "stop it, or choose another home with --home") from None
        # Only after the lock is acquired: until then the file names the process that holds it.
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


def _trainees(learner: str, *, league: bool) -> tuple[Trainee, ...]:
    chosen = trainees(learner, league=league)
    names = [trainee.name for trainee in chosen]
    if len(set(names)) < len(names):
        raise typer.BadParameter(
            f"--learner {learner} is the name of an exploiter of --league-play: choose another name"
        )
    return chosen


def _prepare(settings: Settings, plan_of: Callable[..., Plan]) -> Plan:
    """Check that the address is free, migrate the database, rotate the logs and return the complete plan."""
    # The socket is closed before the server starts, so the server binds it again; this check only makes a taken port
    # fail before anything is migrated or started.
    with bind.take(settings.host, settings.port) as listener:
        url = bind.url_of(listener)
        port = listener.getsockname()[1]
        serve.prepare(settings)
    plan = plan_of(home=settings.home, host=settings.host, port=port, url=url, database_url=settings.database_address)
    plan.logs.mkdir(exist_ok=True)
    # One previous run is stored, so that logs neither grow without limit nor lose the last crash.
    for log in plan.logs.glob("*.log"):
        log.replace(log.with_name(f"{log.name}.1"))
    return plan


def _credential(settings: Settings, given: str | None, plan: Plan) -> str | None:
    given = given or read_secret(TOKEN, os.environ)
    if given:
        create_environment(settings, plan.environment)
    return given or own_credential(settings, settings.home / "up.token", plan.environment, *plan.names)
