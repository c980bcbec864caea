"""The processes of a league on one machine."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from league.home import evaluator_folder, run_folder
from league.process.supervised_process import Job
from league.wire import Role

MAIN_EXPLOITER, LEAGUE_EXPLOITER = "main-exploiter", "league-exploiter"
"""Names of the lineages that a league has beside its main."""

PROCESSES_SETTING = "environment.processes"
"""The trainer's setting that says how many processes step its matches."""

MODULE_SETTING, MODULES_VARIABLE = "network.module", "ARENA_MODULES"
"""The trainer's setting that names a network module of the user's, and the variable that names more to all commands."""


@dataclass(frozen=True)
class Trainee:
    """A lineage to train, by name and role."""

    name: str
    role: Role


@dataclass(frozen=True)
class Plan:
    """What `league up` runs.

    Attributes:
        home: Folder of everything that the league keeps.
        host: Interface that the server listens on.
        port: Its TCP port; already known to be free.
        url: Where this machine reaches the server.
        database_url: The league's database.
        environment: The game to train on.
        trainees: Lineages to train, the main first.
        overrides: `section.key=value` settings of the trainer.
        modules: Network modules of the user's that opponents may ask for, `module:class`.
        processes: How many step the matches of each trainer and of the evaluator; 0 for none of their own.
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
        """Names of the lineages."""
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
    """Return whom to train: one main, or with it an exploiter of mains and one of the league."""
    main = Trainee(learner, "main")
    exploiters = Trainee(MAIN_EXPLOITER, "main_exploiter"), Trainee(LEAGUE_EXPLOITER, "league_exploiter")
    return (main, *exploiters) if league else (main,)


def server_job(plan: Plan) -> Job:
    """Return the league server's job; addresses with passwords travel in the environment, unseen by `ps`."""
    own = {
        "LEAGUE_HOME": str(plan.home),
        "LEAGUE_HOST": plan.host,
        "LEAGUE_PORT": str(plan.port),
        "LEAGUE_DATABASE_URL": plan.database_url,
    }
    return _job(plan, "server", ("league", "serve"), own, permanent=True)


def worker_jobs(plan: Plan, token: str | None) -> tuple[Job, ...]:
    """Return the jobs of the trainers and the evaluator; they end for good where the league tells them to stop."""
    own = {"LEAGUE_URL": plan.url, "LEAGUE_TOKEN": token or "", **_named_modules(plan)}
    game = ("--environment", plan.environment)
    stepped = (f"{PROCESSES_SETTING}={plan.processes}",) if plan.processes else ()
    settings = [word for override in (*stepped, *plan.overrides) for word in ("--set", override)]
    trainers = []
    for number, trainee in enumerate(plan.trainees):
        who = ("--learner", trainee.name, "--role", trainee.role)
        command = (
            "trainer",
            "run",
            *game,
            *_run(run_folder(plan.runs, plan.environment, trainee.name)),
            *who,
            *settings,
        )
        name = f"trainer-{trainee.name}" if number else "trainer"
        trainers.append(_job(plan, name, command, own, permanent=False))
    own_processes = ("--processes", str(plan.processes)) if plan.processes else ()
    evaluate = ("trainer", "evaluate", *game, *_run(evaluator_folder(plan.home, "evaluator")), *own_processes)
    return (*trainers, _job(plan, "evaluator", evaluate, own, permanent=False))


def _named_modules(plan: Plan) -> dict[str, str]:
    """Name network modules, that of the trainers' settings too, to all workers: else none would run their code."""
    settings = dict(override.split("=", 1) for override in plan.overrides if "=" in override)
    own = list(filter(None, (*plan.modules, settings.get(MODULE_SETTING, "").strip(" \"'"))))
    return {MODULES_VARIABLE: ",".join(filter(None, (os.environ.get(MODULES_VARIABLE, ""), *own)))} if own else {}


def _run(folder: Path) -> tuple[str, str]:
    return "--run", str(folder)


def _job(plan: Plan, name: str, module: tuple[str, ...], own: dict[str, str], *, permanent: bool) -> Job:
    # One thread each: three processes that all take every core slow each other down many times over.
    common = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = (sys.executable, "-P", "-m", *module)
    return Job(name, command, {**common, **os.environ, **own}, plan.logs / f"{name}.log", permanent)
