"""From the map's metres to a picture's pixels."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageDraw

from arena.replay.render.palette import Colour

Pixel = tuple[float, float]

LEAST_SCALE = 20.0
"""Mechs are drawn larger than they are where a metre has fewer pixels than this."""


@dataclass(frozen=True)
class Canvas:
    """A square picture of the map.

    Attributes:
        image: The picture.
        side: Edge of the map in metres.
    """

    image: Image.Image
    side: float

    @property
    def scale(self) -> float:
        """Pixels of a metre."""
        return self.image.width / self.side

    @property
    def mech_scale(self) -> float:
        """Pixels of a metre of a mech: on a large map they would be too small to tell apart."""
        return max(self.scale, math.sqrt(self.scale * LEAST_SCALE))

    @property
    def line(self) -> float:
        """Width of a thin line, so that pictures of every size look alike."""
        return self.image.width / 640.0

    @property
    def pen(self) -> ImageDraw.ImageDraw:
        """Draws on the picture; colours with a fourth number let what is below shine through."""
        return ImageDraw.Draw(self.image, "RGBA")

    def spot(self, x: float, y: float) -> Pixel:
        """Where a place on the map is in the picture."""
        return (x + self.side / 2.0) * self.scale, (self.side / 2.0 - y) * self.scale


def round_box(centre: Pixel, radius: float) -> tuple[float, float, float, float]:
    """The box of a circle."""
    return (centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius)


def glass(colour: Colour, opacity: float) -> tuple[int, int, int, int]:
    """A colour that covers only so much of what is below, of 1."""
    return (*colour, round(255 * min(max(opacity, 0.0), 1.0)))


def between(start: Pixel, end: Pixel, share: float) -> Pixel:
    """The point after a share of the way."""
    return (start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share)


def dashes(start: Pixel, end: Pixel, count: int) -> Iterator[tuple[Pixel, Pixel]]:
    """Every second part of a line that is cut into 2 x count - 1."""
    parts = 2 * count - 1
    for part in range(0, parts, 2):
        yield between(start, end, part / parts), between(start, end, (part + 1) / parts)
