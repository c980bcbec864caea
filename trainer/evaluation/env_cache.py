"""Cache of an evaluator's environments: those that run in worker processes are reused by later rounds."""

from arena.environments import make
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.base import Environment


class EnvironmentCache:
    """Opens environments for rounds of matches.

    Environments that run in worker processes are reused by rounds of the same size, because processes start slowly. All
    others are created for each round.

    Args:
        processes: Number of processes for an environment that plays one match at a time; 0 to step it in this process.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._in_processes: dict[str, bool] = {}
        self._environments: dict[str, Environment] = {}

    def open(self, environment: str, matches: int) -> Environment:
        """Return an environment that plays `matches` matches at once.

        Raises:
            ArenaError: The environment cannot be played.
        """
        if not self.uses_processes(environment):
            return make(environment, num_envs=matches)
        cached = self._environments.get(environment)
        if cached is None or cached.num_envs != matches:
            # The local reference as well: the processes end with the last one.
            del cached
            self._environments.pop(environment, None)  # end its processes before others start
            self._environments[environment] = make(environment, num_envs=matches, processes=self._processes)
        return self._environments[environment]

    def uses_processes(self, environment: str) -> bool:
        """Return whether an environment runs in worker processes."""
        if environment not in self._in_processes:
            self._in_processes[environment] = self._processes > 0 and plays_single_matches(
                make(environment, num_envs=1)
            )
        return self._in_processes[environment]
