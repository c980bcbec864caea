"""Result of a recorded match. A separate module to avoid an import cycle between recorders."""

from arena.environments.base import Environment, StepResult
from arena.errors import CallOrderError
from arena.replay.columns import to_name
from arena.replay.header import FORMAT, VERSION, Header, Result


class MatchResultTracker:
    """Waits for the end of the match in a row and stores its result."""

    def __init__(self, env: Environment, row: int) -> None:
        self._spec, self._row, self._seed = env.spec, row, int(env.seeds[row])
        self._result: Result | None = None

    @property
    def over(self) -> bool:
        """Whether the match has ended."""
        return self._result is not None

    def stepped(self, step: StepResult) -> None:
        """Store the outcome if the match ended in this step."""
        if not self.over and bool(step.over[self._row]):
            score, reason, decisions = (
                each[self._row].item() for each in (step.outcome.score, step.outcome.reason, step.outcome.decisions)
            )
            self._result = Result(float(score), self._spec.reasons[int(reason)], int(decisions))

    def header(self, players: tuple[str, str]) -> Header:
        """Return the header of the recording.

        Raises:
            ArenaError: The match has not ended.
        """
        if self._result is None:
            raise CallOrderError(
                f"the match of row {self._row} is not over: step until it ends, then finish the recording"
            )
        return Header(
            format=FORMAT,
            version=VERSION,
            environment=self._spec.name,
            signature=self._spec.signature,
            seed=self._seed,
            players=(to_name(players[0]), to_name(players[1])),
            agents_per_side=self._spec.agents_per_side,
            roles=self._spec.roles,
            max_decisions=self._spec.max_decisions,
            outcome=self._result,
        )
