"""Encoding of observations into one flat vector."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.adapters.match import FloatArray
from arena.environments.adapters.spaces.flatten import Part
from arena.environments.spec import ChoiceBlock
from arena.errors import GameError

WHOLE = "biu"
"""Kinds of numpy integer types."""


class ObservationEncoder:
    """Encodes one agent's observations.

    Args:
        parts: Parts of its observation.
        away: Whether it plays on the away side.
    """

    def __init__(self, parts: Sequence[Part], *, away: bool) -> None:
        self._plain = [(part, part.path, part.columns, part.axes) for part in parts if part.options is None]
        self._choices = [_Choice(part) for part in parts if part.options is not None]
        self._away = float(away)

    def write(self, observation: Any, into: FloatArray) -> None:  # noqa: ANN401  any sample of the space
        """Write an observation into the vector (D,), overwriting all of the agent's entries.

        Raises:
            ArenaError: Its shape differs from the space, or a choice is out of range.
        """
        for part, path, columns, axes in self._plain:
            try:
                shown = np.asarray(_follow(observation, path))
                if shown.shape != axes:
                    _require_like(shown.shape, axes)
                into[columns] = shown.reshape(-1)
            except (LookupError, TypeError, ValueError) as error:
                raise GameError(_describe_mismatch(observation, part)) from error
        for choice in self._choices:
            choice.write(observation, into)
        into[-1] = self._away


class _Choice:
    """Encodes choices, one-hot or as numbers."""

    def __init__(self, part: Part) -> None:
        self._part, self._path, self._columns, self._name = part, part.path, part.columns, part.block.name
        options = np.array(part.options, dtype=np.int64)
        self._first, self._counts = options[:, 0], options[:, 1]
        self._as_numbers = isinstance(part.block, ChoiceBlock)
        self._before = np.cumsum([0, *self._counts[:-1]])

    def write(self, observation: Any, into: FloatArray) -> None:  # noqa: ANN401  any sample of the space
        try:
            chosen = _whole(_follow(observation, self._path)).reshape(self._first.shape)
            numbers: NDArray[np.int64] = chosen - self._first
        except (LookupError, TypeError, ValueError) as error:
            raise GameError(_describe_mismatch(observation, self._part)) from error
        if ((numbers < 0) | (numbers >= self._counts)).any():
            raise GameError(
                f"block {self._name} shows {chosen.tolist()}: its space has numbers from "
                f"{self._first.tolist()} to {(self._first + self._counts - 1).tolist()}"
            )
        if self._as_numbers:
            into[self._columns] = numbers
        else:
            part = into[self._columns]
            part.fill(0.0)
            part[self._before + numbers] = 1.0


def _whole(shown: Any) -> NDArray[Any]:  # noqa: ANN401  any observation
    numbers = np.asarray(shown)
    if numbers.dtype.kind not in WHOLE:
        raise TypeError(numbers.dtype)
    return numbers


def _require_like(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Reject a shape that differs from the space in more than axes of length 1.

    Reshaping an array with the same number of entries could permute them.
    """
    if [each for each in shape if each != 1] != [each for each in axes if each != 1]:
        raise ValueError(shape)


def _describe_mismatch(observation: Any, part: Part) -> str:  # noqa: ANN401
    """Return why an observation cannot be encoded."""
    name, kind = part.block.name, "numbers" if part.options is None else "whole numbers"
    declared = f"its space has {kind} of shape {part.axes}"
    try:
        shown = _follow(observation, part.path)
    except (LookupError, TypeError):
        return f"block {name} is not in the {type(observation).__name__} that it observes: {declared}"
    return f"block {name} shows a {type(shown).__name__} of shape {np.shape(shown)}: {declared}"


def _follow(observation: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401
    for key in path:
        observation = observation[key]
    return observation
