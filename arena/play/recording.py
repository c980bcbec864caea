"""Recording of a match during play."""

from typing import Protocol

from torch import Tensor

from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.environments.match_result import MatchResultTracker
from arena.environments.mech.replay.recorder import MechMatches, MechRecorder
from arena.errors import CallOrderError
from arena.replay.recording import Recording, Step, StepsRecording

DIGITS = 4
"""Decimals of recorded actions and rewards."""


class MatchRecorder(Protocol):
    """Records the match in one row from start to end."""

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Record one decision."""
        ...

    def finish(self, players: tuple[str, str]) -> Recording:
        """Return the recording of the finished match."""
        ...


class RecordFirstMatch:
    """Callback for `arena.play.series.play_series` that records the first match."""

    def __init__(self) -> None:
        self._recorder: MatchRecorder | None = None

    def opened(self, env: Environment, observation: Observation) -> None:
        """Start recording the first match of row 0."""
        self._recorder = record_match(env, observation, 0)

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Record one decision."""
        if self._recorder is not None:
            self._recorder.stepped(actions, step)

    def finish(self, players: tuple[str, str]) -> Recording:
        """Return the recording, with the names of the home and away players.

        Raises:
            ArenaError: No match was played.
        """
        if self._recorder is None:
            raise CallOrderError("nothing was recorded: play a match first")
        return self._recorder.finish(players)


def record_match(env: Environment, observation: Observation, row: int) -> MatchRecorder:
    """Start recording the match in a row, after the reset and before the first step."""
    return MechRecorder(env, row) if isinstance(env, MechMatches) else StepsRecorder(env, observation, row)


class StepsRecorder:
    """Records a match of any game as a list of decisions."""

    def __init__(self, env: Environment, observation: Observation, row: int) -> None:
        self._ending, self._row = MatchResultTracker(env, row), row
        self._active = observation.active[row].clone()
        self._steps: list[Step] = []

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Record one decision."""
        if self._ending.over:
            return
        chosen = {name: tuple(_write(action) for action in taken[self._row]) for name, taken in actions.items()}
        rewards = tuple(round(reward, DIGITS) for reward in step.reward[self._row].tolist())
        self._steps.append(Step(tuple(self._active.tolist()), chosen, rewards))
        self._active = step.observation.active[self._row].clone()
        self._ending.stepped(step)

    def finish(self, players: tuple[str, str]) -> StepsRecording:
        """Return the recording of the finished match."""
        return StepsRecording("steps", self._ending.header(players), tuple(self._steps))


def _write(action: Tensor) -> float | tuple[float, ...]:
    """Return one agent's action as numbers; switches are 0 and 1."""
    numbers = action.double().reshape(-1).tolist()
    rounded = tuple(round(number, DIGITS) for number in numbers)
    return rounded if action.ndim else rounded[0]
