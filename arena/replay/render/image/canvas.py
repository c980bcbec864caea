"""Conversion of map coordinates to pixels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageDraw

from arena.replay.render.palette import Colour

Pixel = tuple[float, float]

LEAST_SCALE = 20.0
"""Pixels per metre below which mechs are enlarged."""


@dataclass(frozen=True)
class Canvas:
    """Square image of the map.

    Attributes:
        image: The image.
        side: Edge of the map in metres.
    """

    image: Image.Image
    side: float

    @property
    def scale(self) -> float:
        """Pixels per metre."""
        return self.image.width / self.side

    @property
    def mech_scale(self) -> float:
        """Pixels per metre for mechs, which are enlarged on large maps to stay distinguishable."""
        return max(self.scale, math.sqrt(self.scale * LEAST_SCALE))

    @property
    def line(self) -> float:
        """Width of a thin line, proportional to the image."""
        return self.image.width / 640.0

    @property
    def pen(self) -> ImageDraw.ImageDraw:
        """Pen for the image; colours with an alpha channel are translucent."""
        return ImageDraw.Draw(self.image, "RGBA")

    def spot(self, x: float, y: float) -> Pixel:
        """Return the pixel of a map position."""
        return (x + self.side / 2.0) * self.scale, (self.side / 2.0 - y) * self.scale


def round_box(centre: Pixel, radius: float) -> tuple[float, float, float, float]:
    """Return the bounding box of a circle."""
    return (centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)


def glass(colour: Colour, opacity: float) -> tuple[int, int, int, int]:
    """Return a colour with an opacity from 0 to 1."""
    return (*colour, round(255 * min(max(opacity, 0.0), 1.0)))


def between(start: Pixel, end: Pixel, share: float) -> Pixel:
    """Return the point at a share of the distance."""
    return (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)


def dashes(start: Pixel, end: Pixel, count: int) -> Iterator[tuple[Pixel, Pixel]]:
    """Yield the dashes of a line with `count` dashes and equal gaps."""
    parts = 2 * count - 1
    for part in range(0, parts, 2):
        yield between(start, end, part / parts), between(start, end, (part + 1) / parts)
