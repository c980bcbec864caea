"""Terrain features of broken ground and their generation. Numpy only: Torch- and Warp-free.

Grids are [row, column], row along y, column along x.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arena.environments.mech.config.constants import DEBRIS, FOLIAGE, FOLIAGE_HEIGHT, LAVA, WATER

Heights = NDArray[np.int64]
Mask = NDArray[np.bool_]
Coordinates = NDArray[np.float64]

STEP_DEPTH = 2.0
"""Horizontal distance on a slope per metre of height."""


@dataclass(frozen=True)
class Landscape:
    """One map.

    Attributes:
        opaque: Height (G, G) of the ground in whole metres.
        glass: Height (G, G) of glass, which blocks movement but not the sight.
        material: Material (G, G) of every cell.
    """

    opaque: Heights
    glass: Heights
    material: Heights

    @property
    def solid(self) -> Heights:
        """Height of the ground, and of glass."""
        return np.maximum(self.opaque, self.glass)

    @property
    def sight(self) -> Heights:
        """Height up to which a cell blocks the sight."""
        return self.opaque + np.where(self.material == FOLIAGE, int(FOLIAGE_HEIGHT), 0)


@dataclass(frozen=True)
class LocalFrame:
    """Coordinates in the frame of a feature.

    Attributes:
        along: Distance (G, G) of every cell from the middle along the feature's length.
        across: Distance (G, G) across it.
        half_length: Half the length of the feature.
        half_width: Half its width.
    """

    along: Coordinates
    across: Coordinates
    half_length: float
    half_width: float

    @property
    def rectangle(self) -> Mask:
        """Cells of the feature, if it has corners."""
        return (np.abs(self.along) <= self.half_length) & (np.abs(self.across) <= self.half_width)

    @property
    def ellipse(self) -> Mask:
        """Cells of an elliptic feature."""
        return np.asarray((self.along / self.half_length) ** 2 + (self.across / self.half_width) ** 2 <= 1.0)

    @property
    def beyond(self) -> Coordinates:
        """Distance of the cells from the rectangle."""
        return np.hypot(
            np.maximum(np.abs(self.along) - self.half_length, 0.0),
            np.maximum(np.abs(self.across) - self.half_width, 0.0),
        )


Draw = Callable[[Landscape, LocalFrame, int], Landscape]


def _raise_block(land: Landscape, frame: LocalFrame, rise: int) -> Landscape:
    """Raise a building or a wall, too steep for every mech."""
    return replace(land, opaque=np.maximum(land.opaque, rise * frame.rectangle))


def _raise_glass(land: Landscape, frame: LocalFrame, rise: int) -> Landscape:
    return replace(land, glass=np.maximum(land.glass, rise * frame.rectangle))


def _raise_hill(land: Landscape, frame: LocalFrame, rise: int) -> Landscape:
    """A hill that can be walked up from everywhere."""
    return _raise_slope(land, rise, frame.beyond)


def _raise_mesa(land: Landscape, frame: LocalFrame, rise: int) -> Landscape:
    """A block with a ramp at one end."""
    behind = np.maximum(-frame.along - frame.half_length, 0.0)
    outside = (frame.along > frame.half_length) | (np.abs(frame.across) > frame.half_width)
    return _raise_slope(land, rise, np.where(outside, np.inf, behind))


def _raise_slope(land: Landscape, rise: int, beyond: Coordinates) -> Landscape:
    heights = np.maximum(rise - np.ceil(beyond / STEP_DEPTH), 0.0).astype(np.int64)
    return replace(land, opaque=np.maximum(land.opaque, heights))


def _draw_material(material: int) -> Draw:
    def draw(land: Landscape, frame: LocalFrame, rise: int) -> Landscape:
        return replace(land, material=np.maximum(land.material, material * frame.ellipse))

    return draw


@dataclass(frozen=True)
class FeatureKind:
    """A kind of feature.

    Attributes:
        draw: Puts one on a map.
        half_lengths: Shortest and longest half length.
        half_widths: Likewise of its width.
        rises: Its height on the easiest map, and at most on the hardest.
    """

    draw: Draw
    half_lengths: tuple[float, float]
    half_widths: tuple[float, float]
    rises: tuple[int, int] = (0, 0)

    def rise(self, difficulty: float, chance: float) -> int:
        """Draw a height, from the lowest to the maximum of the difficulty."""
        lowest, highest = self.rises
        return lowest + int(chance * (1.0 + difficulty * (highest - lowest)))


KINDS = (
    FeatureKind(_raise_block, (2.0, 5.0), (2.0, 4.0), (2, 6)),
    FeatureKind(_raise_block, (4.0, 9.0), (0.75, 1.25), (2, 5)),
    FeatureKind(_raise_block, (3.0, 7.0), (0.75, 1.0), (2, 4)),
    FeatureKind(_raise_hill, (1.0, 4.0), (1.0, 3.0), (2, 4)),
    FeatureKind(_raise_mesa, (2.5, 5.0), (3.0, 4.5), (2, 4)),
    FeatureKind(_raise_glass, (3.0, 6.0), (0.75, 0.75), (3, 4)),
    FeatureKind(_draw_material(WATER), (3.5, 8.0), (3.0, 6.0)),
    FeatureKind(_draw_material(LAVA), (2.0, 4.0), (1.5, 3.0)),
    FeatureKind(_draw_material(DEBRIS), (3.0, 6.0), (2.0, 4.0)),
    FeatureKind(_draw_material(FOLIAGE), (2.5, 6.0), (2.0, 4.0)),
)
"""Buildings, walls high and low, hills, mesas, glass, ponds, lava, debris, foliage."""
