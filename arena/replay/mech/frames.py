"""State of every mech per frame. F frames: the start and one after every decision. N mechs, home's first."""

from dataclasses import dataclass, fields
from enum import IntFlag

import numpy as np

from arena.arrays import IntArray
from arena.replay.columns import Differences, FrameColumns, require, require_within


class Flag(IntFlag):
    """Bits of the column `flags`."""

    ALIVE = 1
    SHUTDOWN = 2
    FALLEN = 4
    LEGGED = 8
    PAINTED = 16
    ECM = 32
    ECCM = 64
    SUPPRESSED = 128
    IN_ZONE = 256
    WRECK = 512


ENDS = {
    "heading": 360,
    "hp": 101,
    "leg": 101,
    "stability": 101,
    "flags": 2 * Flag.WRECK,
    "home_tick": 101,
    "away_tick": 101,
}
"""Exclusive upper limits of columns that start from 0."""


@dataclass(frozen=True)
class Frames:
    """State of every mech (F, N) and of the two sides (F,) in each frame."""

    x: FrameColumns
    y: FrameColumns
    z: FrameColumns
    heading: FrameColumns
    hp: FrameColumns
    heat: FrameColumns
    leg: FrameColumns
    stability: FrameColumns
    flags: FrameColumns
    home_zone: Differences
    away_zone: Differences
    home_tick: Differences
    away_tick: Differences

    def __post_init__(self) -> None:
        for name, end in ENDS.items():
            require_within(getattr(self, name).ravel(), end, name)
        for name in ("z", "heat", "home_zone", "away_zone"):
            require(bool(np.all(getattr(self, name) >= 0)), f"{name} is below 0 somewhere")

    def __len__(self) -> int:
        return len(self.home_zone)

    def require_shape(self, frames: int, mechs: int) -> None:
        """Check the shape of all columns.

        Raises:
            ValueError: A column has another shape.
        """
        for field in fields(self):
            column: IntArray = getattr(self, field.name)
            expected = (frames, mechs) if column.ndim == 2 else (frames,)
            require(column.shape == expected, f"column {field.name} has shape {column.shape}, not {expected}")

    def has(self, flag: Flag) -> IntArray:
        """Return (F, N) whether each mech has the flag in each frame."""
        return (self.flags & int(flag)) // int(flag)
