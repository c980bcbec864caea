"""Conversion of map coordinates to pixels."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from arena.replay.render.palette import TEAMS, TROUGH, Colour
from arena.replay.render.text import Part

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


MAP = 640.0
"""Edge of the map in units."""

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@functools.cache
def load_font(pixels: int) -> Font:
    """Return Pillow's default font."""
    return ImageFont.load_default(pixels)


class Pen:
    """Draws on one image.

    Args:
        picture: The image.
        unit: Pixels per unit.
    """

    def __init__(self, picture: Image.Image, unit: float) -> None:
        self._unit = unit
        self._draw = ImageDraw.Draw(picture, "RGBA")

    def box(self, left: float, top: float, width: float, height: float, colour: tuple[int, ...]) -> None:
        """Draw a filled box."""
        right, bottom = (left + width) * self._unit - 1.0, (top + height) * self._unit - 1.0
        if right >= left * self._unit and bottom >= top * self._unit:
            self._draw.rectangle((left * self._unit, top * self._unit, right, bottom), fill=colour)

    def bar(self, left: float, top: float, width: float, height: float, share: float, colour: Colour) -> None:
        """Draw a bar filled to a share, from its left end, or from its right end if the width is negative."""
        start, length = min(left, left + width), abs(width)
        filled = length * min(max(share, 0.0), 1.0)
        self.box(start, top, length, height, TROUGH)
        self.box(start if width > 0.0 else start + length - filled, top, filled, height, colour)

    def write(self, x: float, y: float, text: str, size: float, colour: Colour, anchor: str = "lm") -> None:
        """Write text at a position; the anchor is Pillow's, for example "lm" for left and middle."""
        spot = (x * self._unit, y * self._unit)
        self._draw.text(spot, text, fill=colour, font=self._font(size), anchor=anchor)

    def write_parts(self, x: float, y: float, parts: Sequence[Part], size: float, colour: Colour) -> None:
        """Write text in the colours of the sides."""
        for part in parts:
            self.write(x, y, part.text, size, colour if part.side is None else TEAMS[part.side])
            x += self.measure(part.text, size)

    def measure(self, text: str, size: float) -> float:
        """Return the width of a text."""
        return self._font(size).getlength(text) / self._unit

    def shorten(self, text: str, size: float, width: float) -> str:
        """Return the longest end of a text that fits, because the end of a path is more informative."""
        if self.measure(text, size) <= width:
            return text
        shorter = (f"...{text[cut:]}" for cut in range(len(text)))
        return next((each for each in shorter if self.measure(each, size) <= width), "")

    def _font(self, size: float) -> Font:
        return load_font(max(1, round(size * self._unit)))
