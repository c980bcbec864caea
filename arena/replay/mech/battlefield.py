"""Where a match of mechs is played, and what a viewer needs to know of the classes."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from arena.arrays import IntArray
from arena.replay.columns import Plain, require, require_within

LARGEST_SIDE = 256
"""Metres, and cells, of a map's edge."""

MATERIALS = ("plain", "water", "lava", "debris", "foliage", "glass")


@dataclass(frozen=True)
class Hull:
    """What a viewer needs to know of a class: box in centimetres, hit points, heat capacity."""

    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    hp: Annotated[int, Field(gt=0)]
    heat_capacity: Annotated[int, Field(gt=0)]


@dataclass(frozen=True)
class Ground:
    """Cells of a map, row by row (row along y, column along x, both growing): heights in metres, index of a material.

    Attributes:
        cells: G.
        solid: Height of ground and glass.
        sight: Height up to which a cell hides what is behind it.
        material: Index into MATERIALS.
    """

    cells: Annotated[int, Field(gt=0, le=LARGEST_SIDE)]
    solid: Plain
    sight: Plain
    material: Plain

    def __post_init__(self) -> None:
        for layer in (self.solid, self.sight, self.material):
            require(len(layer) == self.cells**2, "each layer of the ground needs a number for every cell")
        require_within(self.material, len(MATERIALS), "material")
        require_within(self.solid, 256, "height")
        require_within(self.sight, 256, "height")

    def layer(self, name: Literal["solid", "sight", "material"]) -> IntArray:
        """A layer as (G, G), [row, column]."""
        column: IntArray = getattr(self, name)
        return column.reshape(self.cells, self.cells)


@dataclass(frozen=True)
class Battlefield:
    """Where the match is played.

    Attributes:
        side: Edge of the map in metres; it is centred on the origin.
        ground: None where all of it is flat and plain.
        zone_radius: Of the zone round the origin, in centimetres.
        zone_goal: Zone seconds that win, in hundredths.
    """

    side: Annotated[int, Field(gt=0, le=LARGEST_SIDE)]
    ground: Ground | None
    zone_radius: Annotated[int, Field(ge=0)]
    zone_goal: Annotated[int, Field(gt=0)]
