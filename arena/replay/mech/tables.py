"""Sparse per-frame data, one row per item. Units are listed in docs/reference/formats.md."""

from dataclasses import dataclass, fields

import numpy as np

from arena.replay.columns import Differences, Plain, require

SLOTS = 3
"""Most shells of one mech in the air."""


@dataclass(frozen=True)
class Table:
    """Columns of equal length with rows ordered by frame."""

    frame: Differences

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, field.name)) for field in fields(self)}
        require(len(lengths) == 1, f"columns of {type(self).__name__} differ in length")
        require(bool(np.all(np.diff(self.frame) >= 0)), f"rows of {type(self).__name__} are out of order")

    def rows(self, frame: int) -> slice:
        """Return the rows of a frame."""
        first, last = np.searchsorted(self.frame, (frame, frame + 1))
        return slice(int(first), int(last))


@dataclass(frozen=True)
class Shells(Table):
    """Shells in the air: owner, slot, weapon and position."""

    owner: Plain
    slot: Plain
    weapon: Plain
    x: Plain
    y: Plain
    z: Plain


@dataclass(frozen=True)
class Beams(Table):
    """Hits of hitscan weapons in the decision before the frame."""

    shooter: Plain
    weapon: Plain
    target: Plain


@dataclass(frozen=True)
class Hits(Table):
    """Damage in the decision before the frame, by any weapon; shooter -1 is the ground."""

    shooter: Plain
    target: Plain
    damage: Plain


@dataclass(frozen=True)
class Smoke(Table):
    """Smoke clouds, from `frame` to `last` inclusive."""

    last: Plain
    side: Plain
    x: Plain
    y: Plain
    z: Plain
