"""Which spaces agents may observe, and how each of them lies in one flat vector."""

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
"""What the block of an observation of one part is called."""

ACTION_MASK = "action_mask"
"""Key of an observation or of an info that says which actions are legal."""

AWAY = ObservationBlock("away", (1,), 0.0, 1.0)
"""The last block: 0 for agents of the home side, 1 for those of the away side."""

MEMBERS = "_mask"
"""A key that ends so says who is there of the set that is called as its beginning."""

MOST_ONE_HOT = 64
"""A choice of more things than that is a number that names one of them; of fewer, a place for each."""

SHORTEST_SIDE = 8
"""A Box of three axes is an image from this height and width on, without being called one."""

IMAGE_AXES = 3

NO_CHANNELS: Mapping[str, Channels] = MappingProxyType({})
"""Images are those that look like one."""


@dataclass(frozen=True)
class Part:
    """A space of numbers inside an observation, and where it lies in the flat vector.

    Attributes:
        block: What it is there; bounds include 0, which is what stands there for whoever does not act.
        path: Keys that lead to it.
        options: Of each choice its first value and how many there are; None for numbers that are written as they are.
        axes: Shape of the space.
        start: Its first place in the vector.
    """

    block: ObservationBlock
    path: tuple[Any, ...]
    options: tuple[tuple[int, int], ...] | None
    axes: tuple[int, ...]
    start: int = 0

    @property
    def place(self) -> slice:
        """Where it lies."""
        return slice(self.start, self.start + self.block.size)


def flatten_space(
    space: spaces.Space[Any], agent: str, channels: Mapping[str, Channels] = NO_CHANNELS
) -> tuple[Part, ...]:
    """The parts of an agent's observation, all from place 0 on.

    Args:
        space: What it observes.
        agent: Its name, for errors.
        channels: Blocks that are images whatever they look like, and where they have their channels.

    Raises:
        ArenaError: There is no vector of a fixed length that holds them, or something called an image is none.
    """
    if isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces:
        space = spaces.Dict({key: inner for key, inner in space.items() if key != ACTION_MASK})
    return tuple(_parts(space, (), agent, channels))


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
    """An image where the Box is called or looks like one, numbers otherwise."""
    shape, low, high = space.shape or (1,), min(0.0, float(space.low.min())), max(0.0, float(space.high.max()))
    if name in channels:
        return ImageBlock(name, shape, low, high, channels[name])
    found = _channels_of(shape, whole=space.dtype == np.uint8)
    if found is None or not 0.0 < max(-low, high) < math.inf:
        return ObservationBlock(name, shape, low, high)
    image = ImageBlock(name, shape, low, high, found)
    return image if min(image.sides) >= SHORTEST_SIDE else ObservationBlock(name, shape, low, high)


def _channels_of(shape: tuple[int, ...], *, whole: bool) -> Channels | None:
    """Where an image of that shape would have its channels: beside two equal sides, else on the shorter outer axis."""
    if len(shape) != IMAGE_AXES:
        return Channels.LAST if len(shape) == IMAGE_AXES - 1 and whole else None
    first, middle, last = shape
    if (first == middle) != (middle == last):
        return Channels.LAST if first == middle else Channels.FIRST
    return Channels.FIRST if first < last else Channels.LAST


def _choice(name: str, path: tuple[Any, ...], options: list[tuple[int, int]], axes: tuple[int, ...]) -> Part:
    """Choices one-hot, or as numbers where one of them is of many things."""
    counts = [count for _, count in options]
    if max(counts) > MOST_ONE_HOT:
        block: ObservationBlock = ChoiceBlock(name, axes or (1,), 0.0, max(counts) - 1.0, tuple(counts))
    else:
        block = ObservationBlock(name, (sum(counts),), 0.0, 1.0)
    return Part(block, path, tuple(options), axes)


def _with_sets(parts: list[Part], path: tuple[Any, ...], keys: Sequence[Any]) -> list[Part]:
    """Parts of a Dict in which a mask that is named after an entry says who is there of it."""
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
    """A part as a row for each of so many members; None where it has not one for each of them."""
    block = part.block
    if part.axes[:1] != (members,) or isinstance(block, MemberMask):
        return None
    if part.options is None:
        return replace(part, block=ObservationBlock(block.name, block.shape, block.low, block.high))
    counts = np.array([count for _, count in part.options]).reshape(members, -1)
    if (counts != counts[0]).any():
        return None
    return replace(part, block=ObservationBlock(block.name, (members, int(counts[0].sum())), 0.0, 1.0))
