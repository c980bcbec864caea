"""A league on loopback, and the trainers of one condition and seed: processes of one thread each."""

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.server.testbed import Testbed
from studies.league_value import tethered
from studies.league_value.conditions import Condition
from league.cli.up.plan import Trainee
from league.client import LeagueClient
from league.errors import LeagueError

_END_S = 60.0
_LAST_CHARACTERS = 1000


class Training:
    """What runs between `start` and `stop`. Started again over the same folder, it goes on where it was saved.

    Args:
        environment: The game.
        condition: Who is trained.
        settings: Returns `section.key=value` settings of a learner's trainer.
        folder: Of everything that league and trainers keep.
    """

    def __init__(
        self, environment: str, condition: Condition, settings: Callable[[Trainee], Sequence[str]], folder: Path
    ) -> None:
        self.environment, self.condition, self.folder = environment, condition, folder
        self._settings = settings
        self._open = ExitStack()
        self._trainers: dict[str, subprocess.Popen[bytes]] = {}
        self._steps = {trainee.name: 0 for trainee in condition.trainees}

    def start(self) -> None:
        """Start the server, then the trainers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stage = Testbed("sqlite", "", self.folder)
        kept = {"store_url": f"file://{self.folder / 'store'}"}
        server = self._open.enter_context(stage.league(f"sqlite:///{self.folder / 'league.db'}", **kept))
        self.client = self._open.enter_context(LeagueClient(server.url))
        variables = {**os.environ, "LEAGUE_URL": server.url, "OMP_NUM_THREADS": "1"}
        for trainee in self.condition.trainees:
            words = [word for setting in self._settings(trainee) for word in ("--set", setting)]
            who = ("--learner", trainee.name, "--role", trainee.role, "--run", str(self.run_folder(trainee.name)))
            command = ("-m", "trainer", "run", "--environment", self.environment, *who, *words)
            self._trainers[trainee.name] = tethered.start(command, variables, self._log(trainee.name))

    @property
    def processes(self) -> dict[str, int]:
        """Process number of each learner's trainer, by the learner's name."""
        return {name: process.pid for name, process in self._trainers.items()}

    def run_folder(self, learner: str) -> Path:
        """Return the run folder of a learner."""
        return self.folder / "runs" / learner

    def finished(self) -> bool:
        """Say whether all trainers have come to their end.

        Raises:
            SystemExit: One of them failed.
        """
        codes = {name: process.poll() for name, process in self._trainers.items()}
        for name, code in codes.items():
            if code:
                told = self._log(name).read_text()[-_LAST_CHARACTERS:]
                raise SystemExit(f"the trainer of {name} in {self.folder} ended with code {code}: {told}")
        return None not in codes.values()

    def steps(self) -> dict[str, int]:
        """Return the environment steps of each learner so far, as it last reported; 0 before it has."""
        with suppress(LeagueError):  # the server is busy: what it last said
            self._steps |= {each.name: each.step or 0 for each in self.client.learners(self.environment).items}
        return self._steps

    def stop(self) -> None:
        """End the trainers, which save, then the server."""
        for process in self._trainers.values():
            process.terminate()
        for process in self._trainers.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._open.close()

    def _log(self, learner: str) -> Path:
        return self.folder / f"{learner}.log"
