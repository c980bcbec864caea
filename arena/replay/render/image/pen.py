"""Pen for text and bars, in units of which the map is 640 wide, so that images of all sizes look the same."""

import functools
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from arena.replay.render.palette import TEAMS, TROUGH, Colour
from arena.replay.render.text import Part

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
