"""Vectors, and what lies on the way between two points."""

import math
import operator
from typing import Any

import numpy as np
from mech_oracle.edges import WIDTH
from mech_oracle.state import State
from mech_oracle.world import Plane, Space
from numpy.typing import NDArray

from arena.environments.mech.config.constants import SIGHT_STEP


def way(start: Space, end: Space) -> Space:
    return end[0] - start[0], end[1] - start[1], end[2] - start[2]


def along(start: Space, direction: Space, length: float) -> Space:
    return start[0] + length * direction[0], start[1] + length * direction[1], start[2] + length * direction[2]


def dot(one: Plane | Space, other: Plane | Space) -> float:
    return sum(map(operator.mul, one, other))


def length(vector: Plane | Space) -> float:
    return math.hypot(*vector)


def distance(start: Space, end: Space) -> float:
    return length(way(start, end))


def unit(vector: tuple[float, ...]) -> tuple[float, ...]:
    """The vector with length 1; 0 stays 0."""
    size = length(vector)
    return tuple(part / size for part in vector) if size > 0.0 else tuple(0.0 for _ in vector)


def turned(vector: Plane, angle: float) -> Plane:
    """The vector turned left."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return vector[0] * cosine - vector[1] * sine, vector[0] * sine + vector[1] * cosine


def to_frame(vector: Plane | Space, heading: Plane) -> Plane:
    """Components ahead and to the left of a heading."""
    return vector[0] * heading[0] + vector[1] * heading[1], vector[1] * heading[0] - vector[0] * heading[1]


def from_frame(ahead: float, left: float, heading: Plane) -> Plane:
    return ahead * heading[0] - left * heading[1], ahead * heading[1] + left * heading[0]


def closest_fraction(start: Space, step: Space, point: Space) -> float:
    """How far along the way from `start` over `step` it comes nearest to a point, in [0, 1]."""
    square = dot(step, step)
    return min(max(dot(way(start, point), step) / square, 0.0), 1.0) if square > 0.0 else 0.0


def ground_between(state: State, start: Space, end: Space, grids: NDArray[Any]) -> bool:
    """Whether the line from start to end dips below the heights of the match's map in `grids`."""
    if state.world.flat:
        return False
    flight = way(start, end)
    steps = length(flight[:2]) / SIGHT_STEP
    if abs(steps - round(steps)) < WIDTH:
        state.edges.met.append("points of a line of sight")
    points = max(math.ceil(steps), 1)
    share = 0.5 + (2.0 * np.arange(points) + 1.0 - points) / (2.0 * points)
    x, y, z = (begin + share * part for begin, part in zip(start, flight, strict=True))
    height, least, most = state.world.heights(grids[state.map], x, y)
    hidden = bool((z < height).any())
    surely = bool((z < least - WIDTH).any())
    if not surely and bool((z < most + WIDTH).any()):
        state.edges.met.append("line of sight")
    return hidden
