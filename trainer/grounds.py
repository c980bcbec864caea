"""Where an evaluator plays."""

from arena.environments import make
from arena.environments.processes.hosting import plays_single_matches
from arena.environments.protocol import Environment


class Grounds:
    """Opens environments for rounds of matches.

    Those that processes step are kept from one round to the next, since processes take long to start; a round of
    another number of matches has others in their place. All others are opened anew.

    Args:
        processes: How many step an environment that plays one match at a time; 0 for this one.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._stepped: dict[str, bool] = {}
        self._kept: dict[str, Environment] = {}

    def open(self, environment: str, matches: int) -> Environment:
        """An environment for so many matches at once, whatever was played in it before.

        Raises:
            ArenaError: It cannot be played.
        """
        if not self.steps(environment):
            return make(environment, num_envs=matches)
        kept = self._kept.get(environment)
        if kept is None or kept.num_envs != matches:
            del kept
            self._kept.pop(environment, None)  # its processes leave before others start
            self._kept[environment] = make(environment, num_envs=matches, processes=self._processes)
        return self._kept[environment]

    def steps(self, environment: str) -> bool:
        """Say whether processes step an environment."""
        if environment not in self._stepped:
            self._stepped[environment] = self._processes > 0 and plays_single_matches(make(environment, num_envs=1))
        return self._stepped[environment]
