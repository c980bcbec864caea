"""Sparse per-frame data, one row per item. Units are listed in docs/reference/formats.md."""

from dataclasses import dataclass, fields

import numpy as np

from arena.replay.columns import Differences, Plain
from arena.replay.limits import require

SLOTS = 3
"""Shells that one mech can have in the air."""


@dataclass(frozen=True)
class Table:
    """Rows of equally long columns, in the order of their frames."""

    frame: Differences

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, field.name)) for field in fields(self)}
        require(len(lengths) == 1, f"columns of {type(self).__name__} differ in length")
        require(bool(np.all(np.diff(self.frame) >= 0)), f"rows of {type(self).__name__} are out of order")

    def rows(self, frame: int) -> slice:
        """Which rows belong to a frame."""
        first, last = np.searchsorted(self.frame, (frame, frame + 1))
        return slice(int(first), int(last))


@dataclass(frozen=True)
class Shells(Table):
    """Shells in the air: whose, in which of its slots, from which weapon, where."""

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
    """Damage in the decision before the frame, by any weapon; a shooter of -1 is the ground."""

    shooter: Plain
    target: Plain
    damage: Plain


@dataclass(frozen=True)
class Smoke(Table):
    """Clouds: from `frame` on, up to and with frame `last`."""

    last: Plain
    side: Plain
    x: Plain
    y: Plain
    z: Plain
