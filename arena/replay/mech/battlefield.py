"""Map of a mech match, and class properties for viewers."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from arena.arrays import IntArray
from arena.replay.columns import Plain, require, require_within

LARGEST_SIDE = 256
"""Largest edge of a map, in metres and in cells."""

MATERIALS = ("plain", "water", "lava", "debris", "foliage", "glass")


@dataclass(frozen=True)
class Hull:
    """Properties of a class for viewers: box in centimetres, hit points, heat capacity."""

    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    hp: Annotated[int, Field(gt=0)]
    heat_capacity: Annotated[int, Field(gt=0)]


@dataclass(frozen=True)
class Ground:
    """Cells of a map in row-major order (row along y, column along x): heights in metres, material index.

    Attributes:
        cells: G.
        solid: Height of ground and glass.
        sight: Height up to which a cell blocks sight.
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
        """Return a layer as (G, G), [row, column]."""
        column: IntArray = getattr(self, name)
        return column.reshape(self.cells, self.cells)


@dataclass(frozen=True)
class Battlefield:
    """Map and zone of a match.

    Attributes:
        side: Edge of the map in metres; it is centred on the origin.
        ground: Cells of the map. None for a flat plain.
        zone_radius: Radius of the zone around the origin, in centimetres.
        zone_goal: Zone time that wins, in hundredths of a second.
    """

    side: Annotated[int, Field(gt=0, le=LARGEST_SIDE)]
    ground: Ground | None
    zone_radius: Annotated[int, Field(ge=0)]
    zone_goal: Annotated[int, Field(gt=0)]
