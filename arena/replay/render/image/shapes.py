"""Shapes of the classes from above: ahead is +x, left is +y, and half a hull's width is 1."""

import math
from dataclasses import dataclass

Point = tuple[float, float]
Outline = tuple[Point, ...]


@dataclass(frozen=True)
class Shape:
    """Shape of a class.

    Attributes:
        hull: Outline.
        plates: Brighter parts on top of it.
        barrels: Lines from base to muzzle.
        cockpit: Centre of the round cockpit.
    """

    hull: Outline
    plates: tuple[Outline, ...]
    barrels: tuple[tuple[Point, Point], ...]
    cockpit: Point


def _mirrored(right: Outline) -> Outline:
    """Return a whole outline from its left half, listed from front to back."""
    return right + tuple((x, -y) for x, y in reversed(right))


def _box(front: float, back: float, left: float, right: float) -> Outline:
    return ((front, left), (back, left), (back, right), (front, right))


SCOUT = Shape(
    hull=_mirrored(((1.45, 0.12), (-0.35, 0.62), (-1.05, 1.0), (-0.6, 0.2))),
    plates=(),
    barrels=(),
    cockpit=(0.1, 0.0),
)
LIGHT = Shape(
    hull=_mirrored(((1.2, 0.3), (0.5, 0.55), (0.1, 1.0), (-0.9, 0.9), (-0.65, 0.35), (-1.0, 0.25))),
    plates=(),
    barrels=(((0.2, 0.8), (1.05, 0.8)), ((0.2, -0.8), (1.05, -0.8))),
    cockpit=(0.35, 0.0),
)
MEDIUM = Shape(
    hull=_mirrored(((0.85, 0.45), (0.45, 0.62), (0.4, 1.0), (-0.6, 1.0), (-0.7, 0.62), (-0.95, 0.5))),
    plates=(_box(0.2, -0.7, 0.4, -0.4),),
    barrels=(((0.3, 0.8), (1.25, 0.8)), ((0.3, -0.8), (1.0, -0.8))),
    cockpit=(0.45, 0.0),
)
HEAVY = Shape(
    hull=_mirrored(((0.7, 0.35), (0.7, 0.62), (0.85, 0.72), (0.85, 1.05), (-0.75, 1.05), (-0.95, 0.7))),
    plates=(_box(0.55, -0.55, 1.0, 0.72), _box(0.55, -0.55, -0.72, -1.0), _box(0.1, -0.75, 0.42, -0.42)),
    barrels=(((0.8, 0.86), (1.25, 0.86)), ((0.8, -0.86), (1.45, -0.86))),
    cockpit=(0.4, 0.0),
)

SHAPES = {"scout": SCOUT, "light": LIGHT, "medium": MEDIUM, "heavy": HEAVY}
"""Shapes by class; the default is the medium."""


def place(outline: Outline, centre: Point, scale: float, angle: float) -> list[Point]:
    """Return an outline in image coordinates, where y points down."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return [
        (centre[0] + scale * (x * cosine - y * sine), centre[1] - scale * (x * sine + y * cosine)) for x, y in outline
    ]
