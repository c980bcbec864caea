"""What agents observe, written into one flat vector."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.pettingzoo.spaces import Part
from arena.environments.processes.match import FloatArray
from arena.environments.spec import ChoiceBlock, ObservationBlock
from arena.errors import ArenaError


class Eyes:
    """Writes one agent's observations.

    Args:
        parts: Of its observation.
        away: Whether it plays for the away side.
    """

    def __init__(self, parts: Sequence[Part], *, away: bool) -> None:
        self._plain = [(part.path, part.place, part.block) for part in parts if part.options is None]
        self._choices = [_Choice(part) for part in parts if part.options is not None]
        self._away = float(away)

    def write(self, observation: Any, into: FloatArray) -> None:  # noqa: ANN401  whatever the space holds
        """Write an observation over all of (D,) that this agent ever sees.

        Raises:
            ArenaError: It is of another shape than its space, or a choice is none of those that its space has.
        """
        for path, place, block in self._plain:
            try:
                into[place] = np.asarray(_follow(observation, path)).reshape(-1)
            except (LookupError, TypeError, ValueError) as error:
                raise ArenaError(_misfit(observation, path, block)) from error
        for choice in self._choices:
            choice.write(_follow(observation, choice.path), into)
        into[-1] = self._away


class _Choice:
    """Writes choices, one-hot or as numbers."""

    def __init__(self, part: Part) -> None:
        self.path, self._place, self._name = part.path, part.place, part.block.name
        options = np.array(part.options, dtype=np.int64)
        self._first, self._counts = options[:, 0], options[:, 1]
        self._as_numbers = isinstance(part.block, ChoiceBlock)
        self._before = np.cumsum([0, *self._counts[:-1]])

    def write(self, chosen: Any, into: FloatArray) -> None:  # noqa: ANN401  whatever the space holds
        numbers: NDArray[np.int64] = np.asarray(chosen).reshape(-1) - self._first
        if ((numbers < 0) | (numbers >= self._counts)).any():
            raise ArenaError(
                f"block {self._name} shows {np.ravel(chosen).tolist()}: its space has numbers from "
                f"{self._first.tolist()} to {(self._first + self._counts - 1).tolist()}"
            )
        if self._as_numbers:
            into[self._place] = numbers
        else:
            part = into[self._place]
            part.fill(0.0)
            part[self._before + numbers] = 1.0


def _misfit(observation: Any, path: tuple[Any, ...], block: ObservationBlock) -> str:  # noqa: ANN401
    """Why what is observed cannot be written."""
    declared = f"its space says numbers of shape {block.shape}"
    try:
        shown = _follow(observation, path)
    except (LookupError, TypeError):
        return f"block {block.name} is not in the {type(observation).__name__} that it observes: {declared}"
    return f"block {block.name} shows a {type(shown).__name__} of shape {np.shape(shown)}: {declared}"


def _follow(observation: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401
    for key in path:
        observation = observation[key]
    return observation
