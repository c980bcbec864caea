"""The map as a small square of pixels for a terminal, without Pillow."""

import numpy as np
from numpy.typing import NDArray

from arena.arrays import BoolArray, FloatArray
from arena.replay.mech.battlefield import MATERIALS as MATERIAL_NAMES
from arena.replay.mech.battlefield import Battlefield
from arena.replay.render.palette import (
    BLAST,
    HIGH_GROUND,
    HIGHEST,
    HOLDERS,
    LOW_GROUND,
    MATERIALS,
    SMOKE,
    WEAPONS,
    Colour,
)
from arena.replay.render.scene import SMOKE_RADIUS, Scene


class PixelMap:
    """The map in `size` x `size` pixels, from above with y up.

    Attributes:
        size: Pixels per edge.
    """

    def __init__(self, battlefield: Battlefield, size: int) -> None:
        self.size = size
        self._side, self._zone_radius = float(battlefield.side), battlefield.zone_radius / 100.0
        middles = (np.arange(size) + 0.5) / size * self._side - self._side / 2.0
        self._x, self._y = np.meshgrid(middles, -middles)
        self._ground = self._paint_ground(battlefield)

    def paint(self, scene: Scene) -> NDArray[np.uint8]:
        """Return the colours (size, size, 3) of a scene without its mechs."""
        pixels = self._ground.copy()
        self._paint_zone(pixels, scene)
        for cloud in scene.clouds:
            hidden = np.hypot(self._x - cloud.x, self._y - cloud.y) < SMOKE_RADIUS
            _blend(pixels, hidden, SMOKE, 0.6 * cloud.density)
        for beam in scene.beams:
            start, end = scene.mechs[beam.shooter], scene.mechs[beam.target]
            self._paint_line(pixels, (start.x, start.y), (end.x, end.y), WEAPONS.get(beam.weapon, BLAST))
        for shell in scene.shells:
            row, column = self.locate(shell.x, shell.y)
            pixels[row, column] = WEAPONS.get(shell.weapon, BLAST)
        return pixels.astype(np.uint8)

    def locate(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column of a map position."""
        row, column = (int((0.5 + where / self._side) * self.size) for where in (-y, x))
        return min(max(row, 0), self.size - 1), min(max(column, 0), self.size - 1)

    def _paint_ground(self, battlefield: Battlefield) -> FloatArray:
        pixels: FloatArray = np.empty((self.size, self.size, 3))
        pixels[:] = LOW_GROUND
        if battlefield.ground is None:
            return pixels
        cells = battlefield.ground.cells
        rows, columns = (
            ((where + self._side / 2.0) / self._side * cells).astype(np.int64) for where in (self._y, self._x)
        )
        height, material = (battlefield.ground.layer(name)[rows, columns] for name in ("solid", "material"))
        share = np.clip(height / HIGHEST, 0.0, 1.0)[..., np.newaxis] ** 0.7
        pixels += (np.array(HIGH_GROUND) - np.array(LOW_GROUND)) * share
        for index, name in enumerate(MATERIAL_NAMES):
            if name in MATERIALS:
                pixels[material == index] = MATERIALS[name]
        return pixels

    def _paint_zone(self, pixels: FloatArray, scene: Scene) -> None:
        distance = np.hypot(self._x, self._y)
        edge = np.abs(distance - self._zone_radius) < 0.6 * self._side / self.size
        first, second = HOLDERS[scene.holder]
        alternate = np.sin(8.0 * np.arctan2(self._y, self._x)) > 0.0
        _blend(pixels, distance < self._zone_radius, first, 0.14 if first == second else 0.06)
        _blend(pixels, edge & alternate, first, 0.9)
        _blend(pixels, edge & ~alternate, second, 0.9)

    def _paint_line(
        self, pixels: FloatArray, start: tuple[float, float], end: tuple[float, float], colour: Colour
    ) -> None:
        count = max(2, round(2 * self.size * np.hypot(end[0] - start[0], end[1] - start[1]) / self._side))
        for x, y in zip(np.linspace(start[0], end[0], count), np.linspace(start[1], end[1], count), strict=True):
            pixels[self.locate(float(x), float(y))] = colour


def _blend(pixels: FloatArray, where: BoolArray, colour: Colour, share: float) -> None:
    pixels[where] += (np.array(colour) - pixels[where]) * share
