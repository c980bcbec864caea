"""What every frame says of every mech. F frames: the start, then one after every decision. N mechs, home's first."""

from dataclasses import dataclass, fields
from enum import IntFlag

from arena.replay.columns import Differences, FrameColumns, Integers
from arena.replay.limits import require


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


@dataclass(frozen=True)
class Frames:
    """Everything that each frame says of every mech (F, N), and of the two sides (F,)."""

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

    def __len__(self) -> int:
        return len(self.home_zone)

    def require_shape(self, frames: int, mechs: int) -> None:
        """Refuse columns of other lengths.

        Raises:
            ValueError: There are some.
        """
        for field in fields(self):
            column: Integers = getattr(self, field.name)
            expected = (frames, mechs) if column.ndim == 2 else (frames,)
            require(column.shape == expected, f"column {field.name} has shape {column.shape}, not {expected}")

    def has(self, flag: Flag) -> Integers:
        """Whether each mech has the flag in each frame (F, N)."""
        return (self.flags & int(flag)) // int(flag)
