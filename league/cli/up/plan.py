"""The processes of a league on one machine."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from league.cli.up.child import Job


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
        learner: Name of the lineage to train.
        overrides: `section.key=value` settings of the trainer.
    """

    home: Path
    host: str
    port: int
    url: str
    database_url: str
    environment: str
    learner: str
    overrides: tuple[str, ...]

    @property
    def logs(self) -> Path:
        """Folder of the processes' output."""
        return self.home / "logs"


def server_job(plan: Plan) -> Job:
    """Return the league server's job; addresses with passwords travel in the environment, unseen by `ps`."""
    own = {
        "LEAGUE_HOME": str(plan.home),
        "LEAGUE_HOST": plan.host,
        "LEAGUE_PORT": str(plan.port),
        "LEAGUE_DATABASE_URL": plan.database_url,
    }
    return _job(plan, "server", ("league", "serve"), own, permanent=True)


def worker_jobs(plan: Plan, token: str | None) -> tuple[Job, Job]:
    """Return the trainer's and the evaluator's jobs; they end for good where the league tells them to stop."""
    own = {"LEAGUE_URL": plan.url, "LEAGUE_TOKEN": token or ""}
    game = ("--environment", plan.environment)
    run, rate = (("--run", str(plan.home / "runs" / folder)) for folder in (plan.learner, "evaluator"))
    settings = [word for override in plan.overrides for word in ("--set", override)]
    train = ("trainer", "run", *game, *run, "--learner", plan.learner, *settings)
    trainer = _job(plan, "trainer", train, own, permanent=False)
    evaluator = _job(plan, "evaluator", ("trainer", "evaluate", *game, *rate), own, permanent=False)
    return trainer, evaluator


def _job(plan: Plan, name: str, module: tuple[str, ...], own: dict[str, str], *, permanent: bool) -> Job:
    # One thread each: three processes that all take every core slow each other down many times over.
    common = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = (sys.executable, "-m", *module)
    return Job(name, command, {**common, **os.environ, **own}, plan.logs / f"{name}.log", permanent)
