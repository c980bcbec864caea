"""The processes of a league on one machine."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from league.home import evaluator_folder, run_folder
from league.process.supervised_process import Job
from league.wire import Role

MAIN_EXPLOITER, LEAGUE_EXPLOITER = "main-exploiter", "league-exploiter"
"""Names of the exploiters of --league-play."""

PROCESSES_SETTING = "environment.processes"
"""Trainer setting for the number of environment processes."""

MODULE_SETTING, MODULES_VARIABLE = "network.module", "ARENA_MODULES"
"""Trainer setting for a user's network module, and the variable that lists modules for all commands."""


@dataclass(frozen=True)
class Trainee:
    """Learner to train."""

    name: str
    role: Role


@dataclass(frozen=True)
class Plan:
    """Processes of `league up` and their settings.

    Attributes:
        home: Folder of the league's data.
        host: Interface that the server listens on.
        port: TCP port, already checked to be free.
        url: URL at which this machine reaches the server.
        database_url: The league's database.
        environment: Environment to train on.
        trainees: Learners to train, the main first.
        overrides: `section.key=value` settings of the trainer.
        modules: User network modules that opponents may use, `module:class`.
        processes: Environment processes per trainer and evaluator; 0 for none.
    """

    home: Path
    host: str
    port: int
    url: str
    database_url: str
    environment: str
    trainees: tuple[Trainee, ...]
    overrides: tuple[str, ...]
    modules: tuple[str, ...]
    processes: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the learners."""
        return tuple(trainee.name for trainee in self.trainees)

    @property
    def runs(self) -> Path:
        """Folder of the learners' run folders."""
        return self.home / "runs"

    @property
    def logs(self) -> Path:
        """Folder of the processes' output."""
        return self.home / "logs"


def trainees(learner: str, *, league: bool) -> tuple[Trainee, ...]:
    """Return the learners to train: a main, and with `league` a main exploiter and a league exploiter."""
    main = Trainee(learner, "main")
    exploiters = Trainee(MAIN_EXPLOITER, "main_exploiter"), Trainee(LEAGUE_EXPLOITER, "league_exploiter")
    return (main, *exploiters) if league else (main,)


def server_job(plan: Plan) -> Job:
    """Return the server's job; URLs with passwords go into the environment, where `ps` does not show them."""
    own = {
        "LEAGUE_HOME": str(plan.home),
        "LEAGUE_HOST": plan.host,
        "LEAGUE_PORT": str(plan.port),
        "LEAGUE_DATABASE_URL": plan.database_url,
    }
    return _job(plan, "server", ("league", "serve"), own, permanent=True)


def worker_jobs(plan: Plan, token: str | None) -> tuple[Job, ...]:
    """Return the jobs of the trainers and the evaluator, which are not restarted after a `stop` command."""
    # The token travels in the environment too, because `ps` shows the arguments of all processes.
    own = {"LEAGUE_URL": plan.url, "LEAGUE_TOKEN": token or "", **_named_modules(plan)}
    game = ("--environment", plan.environment)
    stepped = (f"{PROCESSES_SETTING}={plan.processes}",) if plan.processes else ()
    settings = [word for override in (*stepped, *plan.overrides) for word in ("--set", override)]
    trainers = []
    for number, trainee in enumerate(plan.trainees):
        identity = ("--learner", trainee.name, "--role", trainee.role)
        command = (
            "trainer",
            "run",
            *game,
            *_run(run_folder(plan.runs, plan.environment, trainee.name)),
            *identity,
            *settings,
        )
        name = f"trainer-{trainee.name}" if number else "trainer"
        trainers.append(_job(plan, name, command, own, permanent=False))
    own_processes = ("--processes", str(plan.processes)) if plan.processes else ()
    evaluate = ("trainer", "evaluate", *game, *_run(evaluator_folder(plan.home, "evaluator")), *own_processes)
    return (*trainers, _job(plan, "evaluator", evaluate, own, permanent=False))


def _named_modules(plan: Plan) -> dict[str, str]:
    """Return the variable that allows all workers to load the user's network modules, including the trainers' own."""
    settings = dict(override.split("=", 1) for override in plan.overrides if "=" in override)
    own = list(filter(None, (*plan.modules, settings.get(MODULE_SETTING, "").strip(" \"'"))))
    return {MODULES_VARIABLE: ",".join(filter(None, (os.environ.get(MODULES_VARIABLE, ""), *own)))} if own else {}


def _run(folder: Path) -> tuple[str, str]:
    return "--run", str(folder)


def _job(plan: Plan, name: str, module: tuple[str, ...], own: dict[str, str], *, permanent: bool) -> Job:
    # One thread each: processes that all use every core slow each other down several times.
    common = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    # -P: modules in the working directory must not replace installed ones.
    command = (sys.executable, "-P", "-m", *module)
    return Job(name, command, {**common, **os.environ, **own}, plan.logs / f"{name}.log", permanent)
