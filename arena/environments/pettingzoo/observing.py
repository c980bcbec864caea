"""What agents observe, as one flat vector: which spaces there are, how they are laid out, and how they are written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from arena.environments.processes.match import FloatArray
from arena.environments.spec import ObservationBlock
from arena.errors import ArenaError

OBSERVATION = "observation"
"""What the block of an observation of one part is called."""

ACTION_MASK = "action_mask"
"""Key of an observation or of an info that says which actions are legal."""

AWAY = "away"
"""The last block: 0 for agents of the home side, 1 for those of the away side."""


@dataclass(frozen=True)
class Part:
    """A space of numbers inside an observation, and where it lies in the flat vector.

    Attributes:
        block: What it is there; bounds include 0, which is what stands there for whoever does not act.
        path: Keys that lead to it.
        options: Of each choice that is written one-hot, its first value and how many there are; None for numbers that
            are written as they are.
        start: Its first place in the vector.
    """

    block: ObservationBlock
    path: tuple[Any, ...]
    options: tuple[tuple[int, int], ...] | None
    start: int = 0

    @property
    def place(self) -> slice:
        """Where it lies."""
        return slice(self.start, self.start + self.block.size)


class Eyes:
    """Writes one agent's observations.

    Args:
        parts: Of its observation.
        away: Whether it plays for the away side.
    """

    def __init__(self, parts: Sequence[Part], *, away: bool) -> None:
        self._plain = [(part.path, part.place) for part in parts if part.options is None]
        self._choices = [(part.path, part.place, part.options) for part in parts if part.options is not None]
        self._away = float(away)

    def write(self, observation: Any, into: FloatArray) -> None:  # noqa: ANN401  whatever the space holds
        """Write an observation over all of (D,) that this agent ever sees."""
        for path, place in self._plain:
            into[place] = np.asarray(_follow(observation, path)).reshape(-1)
        for path, place, options in self._choices:
            into[place] = _one_hot(_follow(observation, path), options)
        into[-1] = self._away


def parts_of(space: spaces.Space[Any], agent: str) -> tuple[Part, ...]:
    """The parts of an agent's observation, all from place 0 on.

    Raises:
        ArenaError: There is no vector of a fixed length that holds them.
    """
    if isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces:
        space = spaces.Dict({key: inner for key, inner in space.items() if key != ACTION_MASK})
    return tuple(_parts(space, (), agent))


def lay_out(kinds: Mapping[str, Sequence[Part]]) -> tuple[tuple[ObservationBlock, ...], dict[str, list[Part]]]:
    """Lay out observations of all roles: one after the other where they are unlike, in the same places otherwise.

    Args:
        kinds: Parts of each role's observation.

    Returns:
        Blocks of the vector, and every role's parts with their places.
    """
    alike = len({tuple(parts) for parts in kinds.values()}) == 1
    blocks: list[ObservationBlock] = []
    placed: dict[str, list[Part]] = {}
    for role, parts in kinds.items():
        start = 0 if alike else sum(block.size for block in blocks)
        placed[role] = []
        for part in parts:
            placed[role].append(replace(part, start=start))
            start += part.block.size
        if not alike or not blocks:
            blocks += [each.block if alike else _named(each.block, role) for each in parts]
    return (*blocks, ObservationBlock(AWAY, (1,), 0.0, 1.0)), placed


def _named(block: ObservationBlock, role: str) -> ObservationBlock:
    return replace(block, name=f"{role}.{block.name}")


def _parts(space: spaces.Space[Any], path: tuple[Any, ...], agent: str) -> list[Part]:
    name = ".".join(map(str, path)) or OBSERVATION
    match space:
        case spaces.Dict():
            return [part for key, inner in space.items() for part in _parts(inner, (*path, key), agent)]
        case spaces.Tuple():
            return [part for key, inner in enumerate(space) for part in _parts(inner, (*path, key), agent)]
        case spaces.Box():
            low, high = min(0.0, float(space.low.min())), max(0.0, float(space.high.max()))
            return [Part(ObservationBlock(name, space.shape or (1,), low, high), path, None)]
        case spaces.MultiBinary():
            return [Part(ObservationBlock(name, space.shape, 0.0, 1.0), path, None)]
        case spaces.Discrete():
            return [_choice(name, path, [(int(space.start), int(space.n))])]
        case spaces.MultiDiscrete():
            return [
                _choice(name, path, list(zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)))
            ]
        case _:
            raise ArenaError(
                f"agent {agent} observes a {type(space).__name__} space{f' at {name}' if path else ''}, which has no "
                "fixed number of entries: give it as a Box, Discrete, MultiDiscrete or MultiBinary space, or as a Dict "
                "or Tuple of these"
            )


def _choice(name: str, path: tuple[Any, ...], options: list[tuple[int, int]]) -> Part:
    size = sum(count for _, count in options)
    return Part(ObservationBlock(name, (size,), 0.0, 1.0), path, tuple(options))


def _follow(observation: Any, path: tuple[Any, ...]) -> Any:  # noqa: ANN401
    for key in path:
        observation = observation[key]
    return observation


def _one_hot(values: Any, options: tuple[tuple[int, int], ...]) -> FloatArray:  # noqa: ANN401
    starts, counts = zip(*options, strict=True)
    before = np.cumsum([0, *counts[:-1]])
    written: FloatArray = np.zeros(sum(counts), dtype=np.float32)
    written[before + np.asarray(values).reshape(-1) - np.asarray(starts)] = 1.0
    return written
