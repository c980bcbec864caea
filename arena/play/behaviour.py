"""Behaviour metrics of both sides in every match."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from arena.environments.base import Actions, Environment, Meter, Observation, StepResult
from arena.environments.metrics import MOST_MEASURES, meter_of
from arena.errors import GameError


@dataclass(frozen=True)
class Behaviour:
    """Behaviour metrics of both sides of a match; None if undefined."""

    measures: tuple[str, ...]
    home: tuple[float | None, ...]
    away: tuple[float | None, ...]


class BehaviourCallback:
    """Callback of `arena.play.runner.play` that measures the behaviour in every match.

    Args:
        matches: Number of matches.
    """

    def __init__(self, matches: int) -> None:
        self._matches = matches
        self._found: dict[int, Behaviour] = {}

    def opened(self, env: Environment, observation: Observation) -> None:
        """Start measuring every row's first match.

        Raises:
            ArenaError: The environment has too many metrics, or two of the same name.
        """
        self._meter = meter_of(env)
        self._meter.opened(observation)
        self._names = _names_of(env, self._meter)
        self._playing = list(range(env.num_envs))

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Measure a decision of every row."""
        values = self._meter.stepped(actions, step)
        rows = torch.nonzero(step.over).flatten().tolist()
        for row, (home, away) in zip(rows, values[rows].tolist(), strict=True):
            index = self._playing[row]
            if index < self._matches:
                self._found[index] = Behaviour(self._names, _known(home), _known(away))
            self._playing[row] = index + len(self._playing)

    @property
    def behaviours(self) -> list[Behaviour | None]:
        """Behaviour in every match, in the order of `play`'s results; None for a match that ended by forfeit."""
        return [self._found.get(index) for index in range(self._matches)]


def _names_of(env: Environment, meter: Meter) -> tuple[str, ...]:
    names = tuple(measure.name for measure in meter.measures)
    if len(names) > MOST_MEASURES or len(set(names)) < len(names):
        raise GameError(
            f"{env.spec.name} has {len(names)} measures of behaviour, {len(set(names))} of them different: give at "
            f"most {MOST_MEASURES} with names of their own"
        )
    return names


def _known(values: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values)
