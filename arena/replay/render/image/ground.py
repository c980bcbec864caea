"""Image of the ground from above with y up, lit from the upper left with shadows at steps."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from arena.arrays import FloatArray
from arena.replay.mech.battlefield import MATERIALS as MATERIAL_NAMES
from arena.replay.mech.battlefield import Battlefield, Ground
from arena.replay.render.palette import HIGH_GROUND, HIGHEST, LOW_GROUND, MATERIALS

CELL_RANGE = (4, 16)
"""Range of pixels per cell before the image is scaled to its size."""

SHADOW_REACH = 0.4
"""Length in cells of the shadow of a step of one metre."""

LONGEST_SHADOW = 2.0
SHADE = 0.66
EDGE_LIGHT, EDGE_DARK = 1.16, 0.74
RULE_CELLS = 10
"""Distance between faint grid lines, in metres."""


def draw_ground(battlefield: Battlefield, size: int) -> Image.Image:
    """Return the map as a square image of `size` pixels."""
    ground = battlefield.ground or _flat(battlefield.side)
    pixels = min(max(math.ceil(size / ground.cells), CELL_RANGE[0]), CELL_RANGE[1])
    height, material = (_enlarge(np.flipud(ground.layer(name)), pixels) for name in ("solid", "material"))
    colour = _colour_heights(height)
    for index, name in enumerate(MATERIAL_NAMES):
        if name in TEXTURES and (where := material == index).any():
            colour[where] = _paint_material(name, len(height))[where]
    colour *= _light(height, pixels)[..., np.newaxis]
    for line in range(RULE_CELLS * pixels, len(height), RULE_CELLS * pixels):
        colour[line] *= 0.94
        colour[:, line] *= 0.94
    picture = Image.fromarray(np.clip(colour, 0.0, 255.0).astype(np.uint8))
    return picture.resize((size, size), Image.Resampling.LANCZOS)


def _flat(side: int) -> Ground:
    level = np.zeros(side * side, dtype=np.int64)
    return Ground(side, level, level, level)


def _enlarge(cells: NDArray[np.int64], pixels: int) -> FloatArray:
    return cells.repeat(pixels, axis=0).repeat(pixels, axis=1).astype(np.float64)


def _colour_heights(height: FloatArray) -> FloatArray:
    low, high = (np.array(colour, dtype=np.float64) for colour in (LOW_GROUND, HIGH_GROUND))
    share = np.clip(height / HIGHEST, 0.0, 1.0)[..., np.newaxis] ** 0.7
    colour: FloatArray = low + (high - low) * share + 4.0 * _soft_noise(len(height), 6)[..., np.newaxis]
    return colour


def _light(height: FloatArray, pixels: int) -> FloatArray:
    """Return the light factor: lower in shadows, higher on edges that face the light."""
    light = np.ones_like(height)
    for distance in range(1, round(LONGEST_SHADOW * pixels) + 1):
        light[_rise(height, distance) > distance / (SHADOW_REACH * pixels)] = SHADE
    light[_rise(height, 1) > 0.0] *= EDGE_DARK
    light[_rise(height, 1) < 0.0] = EDGE_LIGHT
    return light


def _rise(height: FloatArray, distance: int) -> FloatArray:
    """Return the rise at a distance towards the light, which is diagonally up and to the left."""
    rise: FloatArray = np.pad(height, (distance, 0), mode="edge")[: len(height), : len(height)] - height
    return rise


def _paint_material(name: str, size: int) -> FloatArray:
    base = np.array(MATERIALS[name], dtype=np.float64)
    return base + TEXTURES[name](size)


def _water(size: int) -> FloatArray:
    row, column = np.mgrid[0:size, 0:size]
    ripple = np.sin(0.45 * row + 2.2 * np.sin(0.06 * column) + 2.0 * _soft_noise(size, 12))
    return _tint(14.0 * np.clip(ripple, 0.2, 1.0), (0.5, 1.0, 1.1))


def _lava(size: int) -> FloatArray:
    crack = np.clip(1.0 - np.abs(_soft_noise(size, 14)) / 0.22, 0.0, 1.0)
    return _tint(crack, (105.0, 96.0, 30.0))


def _debris(size: int) -> FloatArray:
    return _tint(26.0 * np.sign(_soft_noise(size, 3)), (1.0, 0.9, 0.75))


def _foliage(size: int) -> FloatArray:
    crown = _soft_noise(size, 9) + 0.5 * _soft_noise(size, 4)
    return _tint(20.0 * crown, (0.7, 1.0, 0.6))


def _glass(size: int) -> FloatArray:
    row, column = np.mgrid[0:size, 0:size]
    return _tint(38.0 * ((row + column) % 12 < 3), (1.0, 1.0, 1.0))


def _tint(strength: FloatArray, colour: tuple[float, float, float]) -> FloatArray:
    tinted: FloatArray = strength[..., np.newaxis] * np.array(colour)
    return tinted


TEXTURES: dict[str, Callable[[int], FloatArray]] = {
    "water": _water,
    "lava": _lava,
    "debris": _debris,
    "foliage": _foliage,
    "glass": _glass,
}


def _soft_noise(size: int, grain: int) -> FloatArray:
    """Return reproducible smooth noise in about [-1, 1], with bumps of about `grain` pixels."""
    coarse = np.random.default_rng(grain).uniform(-1.0, 1.0, (size // grain + 2, size // grain + 2))
    picture = Image.fromarray(coarse.astype(np.float32)).resize((size, size), Image.Resampling.BICUBIC)
    return np.asarray(picture, dtype=np.float64)
