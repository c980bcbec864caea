"""Observation spaces as blocks of one flat vector."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from arena.environments.spec import Channels, ChoiceBlock, ImageBlock, MemberMask, ObservationBlock
from arena.errors import GameError

OBSERVATION = "observation"
"""Name of the block of a single-part observation."""

ACTION_MASK = "action_mask"
"""Key of the action mask in an observation or info."""

AWAY = ObservationBlock("away", (1,), 0.0, 1.0)
"""The last block: 0 for agents of the home side, 1 for those of the away side."""

MEMBERS = "_mask"
"""Suffix of the key of a set's membership mask."""

MOST_ONE_HOT = 64
"""Largest number of options that are encoded one-hot; choices among more are encoded as a number."""

SHORTEST_SIDE = 8
"""Least height and width of a three-axis Box that is treated as an image by default."""

IMAGE_AXES = 3

NO_CHANNELS: Mapping[str, Channels] = MappingProxyType({})
"""No declared images: only Boxes that look like one."""


@dataclass(frozen=True)
class Part:
    """A numeric part of an observation space and its position in the flat vector.

    Attributes:
        block: Its block; the bounds include 0, the value for inactive agents.
        path: Keys that lead to it.
        options: First value and count of each choice. None for plain numbers.
        axes: Shape of the space.
        start: Its first index in the vector.
    """

    block: ObservationBlock
    path: tuple[Any, ...]
    options: tuple[tuple[int, int], ...] | None
    axes: tuple[int, ...]
    start: int = 0

    @property
    def columns(self) -> slice:
        """Its slice of the vector."""
        return slice(self.start, self.start + self.block.size)


def flatten_space(
    space: spaces.Space[Any], agent: str, channels: Mapping[str, Channels] = NO_CHANNELS
) -> tuple[Part, ...]:
    """Return the parts of an agent's observation, all with start 0.

    Args:
        space: Its observation space.
        agent: Its name, for errors.
        channels: Blocks declared as images, with their channel axis.

    Raises:
        ArenaError: The space has no fixed length, or a declared image is not one.
    """
    if isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces:
        space = spaces.Dict({key: inner for key, inner in space.items() if key != ACTION_MASK})
    return tuple(_parts(space, (), agent, channels))


def lay_out(kinds: Mapping[str, Sequence[Part]]) -> tuple[tuple[ObservationBlock, ...], dict[str, list[Part]]]:
    """Lay out the observations of all roles: shared if they are the same, else one after the other.

    Args:
        kinds: Parts of each role's observation.

    Returns:
        Blocks of the vector, and every role's parts with their positions.
    """
    # Roles with different observations get separate blocks, so that one input never has two meanings.
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
            blocks += [each.block if alike else _of_role(each.block, role) for each in parts]
    return (*blocks, AWAY), placed


def _of_role(block: ObservationBlock, role: str) -> ObservationBlock:
    if isinstance(block, MemberMask):
        block = replace(block, describes=tuple(f"{role}.{each}" for each in block.describes))
    return replace(block, name=f"{role}.{block.name}")


def _parts(space: spaces.Space[Any], path: tuple[Any, ...], agent: str, channels: Mapping[str, Channels]) -> list[Part]:
    name = ".".join(map(str, path)) or OBSERVATION
    match space:
        case spaces.Dict():
            parts = [part for key, inner in space.items() for part in _parts(inner, (*path, key), agent, channels)]
            return _with_sets(parts, path, tuple(space))
        case spaces.Tuple():
            return [part for key, inner in enumerate(space) for part in _parts(inner, (*path, key), agent, channels)]
        case spaces.Box():
            return [Part(_box(space, name, channels), path, None, space.shape)]
        case spaces.MultiBinary():
            return [Part(ObservationBlock(name, space.shape, 0.0, 1.0), path, None, space.shape)]
        case spaces.Discrete():
            return [_choice(name, path, [(int(space.start), int(space.n))], ())]
        case spaces.MultiDiscrete():
            options = zip(space.start.ravel().tolist(), space.nvec.ravel().tolist(), strict=True)
            return [_choice(name, path, list(options), space.shape)]
        case _:
            raise GameError(
                f"agent {agent} observes a {type(space).__name__} space{f' at {name}' if path else ''}, which has no "
                "fixed number of entries: give it as a Box, Discrete, MultiDiscrete or MultiBinary space, or as a Dict "
                "or Tuple of these; of things whose number changes, give the most there can be and a mask"
            )


def _box(space: spaces.Box, name: str, channels: Mapping[str, Channels]) -> ObservationBlock:
    """Return an image block if the Box is declared as or looks like one, else a plain block."""
    # The bounds include 0, because inactive agents observe zeros.
    shape, low, high = space.shape or (1,), min(0.0, float(space.low.min())), max(0.0, float(space.high.max()))
    if name in channels:
        return ImageBlock(name, shape, low, high, channels[name])
    found = _channels_of(shape, whole=space.dtype == np.uint8)
    if found is None or not 0.0 < max(-low, high) < math.inf:
        return ObservationBlock(name, shape, low, high)
    image = ImageBlock(name, shape, low, high, found)
    return image if min(image.sides) >= SHORTEST_SIDE else ObservationBlock(name, shape, low, high)


def _channels_of(shape: tuple[int, ...], *, whole: bool) -> Channels | None:
    """Return the channel axis of an image of this shape: beside two equal sides, else the shorter outer axis."""
    if len(shape) != IMAGE_AXES:
        return Channels.LAST if len(shape) == IMAGE_AXES - 1 and whole else None
    first, middle, last = shape
    if (first == middle) != (middle == last):
        return Channels.LAST if first == middle else Channels.FIRST
    return Channels.FIRST if first < last else Channels.LAST


def _choice(name: str, path: tuple[Any, ...], options: list[tuple[int, int]], axes: tuple[int, ...]) -> Part:
    """Return choices as a one-hot block, or as numbers if one has too many options."""
    counts = [count for _, count in options]
    if max(counts) > MOST_ONE_HOT:
        block: ObservationBlock = ChoiceBlock(name, axes or (1,), 0.0, max(counts) - 1.0, tuple(counts))
    else:
        block = ObservationBlock(name, (sum(counts),), 0.0, 1.0)
    return Part(block, path, tuple(options), axes)


def _with_sets(parts: list[Part], path: tuple[Any, ...], keys: Sequence[Any]) -> list[Part]:
    """Return the parts of a Dict in which masks named after an entry become membership masks."""
    for key in keys:
        mask = next((part for part in parts if part.path == (*path, f"{key}{MEMBERS}")), None)
        own = [part for part in parts if part.path[: len(path) + 1] == (*path, key)]
        if mask is None or mask.options is not None or len(mask.axes) != 1:
            continue
        if (mask.block.low, mask.block.high) != (0.0, 1.0):
            continue
        rows = [_in_rows(part, mask.axes[0]) for part in own]
        described = tuple(row.block.name for row in rows if row is not None)
        if not own or len(described) < len(own):
            continue
        block = mask.block
        who = MemberMask(block.name, block.shape, block.low, block.high, describes=described, chosen_by=())
        changed = {row.path: row for row in rows if row is not None} | {mask.path: replace(mask, block=who)}
        parts = [changed.get(part.path, part) for part in parts]
    return parts


def _in_rows(part: Part, members: int) -> Part | None:
    """Return a part as one row per member; None if it does not have a row for each."""
    block = part.block
    if part.axes[:1] != (members,) or isinstance(block, MemberMask):
        return None
    if part.options is None:
        return replace(part, block=ObservationBlock(block.name, block.shape, block.low, block.high))
    counts = np.array([count for _, count in part.options]).reshape(members, -1)
    if (counts != counts[0]).any():
        return None
    return replace(part, block=ObservationBlock(block.name, (members, int(counts[0].sum())), 0.0, 1.0))
