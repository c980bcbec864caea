"""From the map's metres to a picture's pixels."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from arena.replay.render.palette import TEAMS, TROUGH, Colour
from arena.replay.render.text import Part

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


MAP = 640.0
"""Edge of the map in units."""

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@functools.cache
def load_font(pixels: int) -> Font:
    """The font that comes with Pillow."""
    return ImageFont.load_default(pixels)


class Pen:
    """Draws on one picture.

    Args:
        picture: What to draw on.
        unit: Pixels of a unit.
    """

    def __init__(self, picture: Image.Image, unit: float) -> None:
        self._unit = unit
        self._draw = ImageDraw.Draw(picture, "RGBA")

    def box(self, left: float, top: float, width: float, height: float, colour: tuple[int, ...]) -> None:
        """A filled box."""
        right, bottom = (left + width) * self._unit - 1.0, (top + height) * self._unit - 1.0
        if right >= left * self._unit and bottom >= top * self._unit:
            self._draw.rectangle((left * self._unit, top * self._unit, right, bottom), fill=colour)

    def bar(self, left: float, top: float, width: float, height: float, share: float, colour: Colour) -> None:
        """A bar that is filled to a share: from its left end, or from its right end if the width is negative."""
        start, length = min(left, left + width), abs(width)
        filled = length * min(max(share, 0.0), 1.0)
        self.box(start, top, length, height, TROUGH)
        self.box(start if width > 0.0 else start + length - filled, top, filled, height, colour)

    def write(self, x: float, y: float, text: str, size: float, colour: Colour, anchor: str = "lm") -> None:
        """Text at a place; the anchor is Pillow's: "lm" is left and middle."""
        spot = (x * self._unit, y * self._unit)
        self._draw.text(spot, text, fill=colour, font=self._font(size), anchor=anchor)

    def write_parts(self, x: float, y: float, parts: Sequence[Part], size: float, colour: Colour) -> None:
        """Text in the colours of the sides."""
        for part in parts:
            self.write(x, y, part.text, size, colour if part.side is None else TEAMS[part.side])
            x += self.measure(part.text, size)

    def measure(self, text: str, size: float) -> float:
        """Width of a text."""
        return self._font(size).getlength(text) / self._unit

    def shorten(self, text: str, size: float, width: float) -> str:
        """The end of a text, as much of it as fits: that of a path says more than its start."""
        if self.measure(text, size) <= width:
            return text
        shorter = (f"...{text[cut:]}" for cut in range(len(text)))
        return next((each for each in shorter if self.measure(each, size) <= width), "")

    def _font(self, size: float) -> Font:
        return load_font(max(1, round(size * self._unit)))
