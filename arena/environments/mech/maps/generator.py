"""Drawing one map of broken ground, each feature together with its image after half a turn.

Numpy only: Torch- and Warp-free. Grids are [row, column], row along y, column along x, the middle of the map at 0.
"""

import math
from dataclasses import dataclass

import numpy as np

from arena.environments.mech.config.constants import FOLIAGE, GLASS, PLAIN
from arena.environments.mech.maps.features import KINDS, Coordinates, FeatureKind, Heights, Landscape, LocalFrame, Mask
from arena.seeding import derive
from arena.seeding.arrays import derive_array

FEATURES_RANGE = (5.0, 70.0)
"""Features on 10,000 m2 that need not be clear, of the easiest and of the hardest map."""
NEAR_PATH = 0.4
"""Share of the features between the spawns and the zone, as cover."""
NEAR_PATH_RANGE = (0.4, 0.95)
"""Distance of these features from the centre, as a share of the spawn's distance."""
NEAR_PATH_RAD = 0.9
"""Largest angle at the centre between these features and the spawn."""
PLACES = 4
"""Number of positions that are tried for a feature before it is left out."""
MOST_TAKEN = 0.2
"""Largest share of a feature that may overlap others or reserved cells, where it is cut off."""
DRAWS = 4 + 3 * PLACES
"""Random numbers that shape one feature."""


def count_features(clear: Mask, difficulty: float) -> int:
    """Features of a map with these clear cells, without their images."""
    return round(_between(FEATURES_RANGE, difficulty) * float((~clear).sum()) / 10_000.0 / 2.0)


@dataclass(frozen=True)
class Site:
    """Constraints of a map.

    Attributes:
        clear: Cells (G, G) that stay flat and plain.
        spawn: Centre (2,) of home's formation.
        footprint: Footprint of the widest mech; gaps that it cannot pass are filled.
    """

    clear: Mask
    spawn: Coordinates
    footprint: int


def draw_landscape(seed: int, site: Site, difficulty: float, features: int) -> Landscape:
    """Generate a map.

    Args:
        seed: Seed of all draws; the first features do not depend on the number of features.
        site: Constraints of the map.
        difficulty: From 0 (low features) to 1 (high features).
        features: Number of features, without their mirror images.
    """
    land = Landscape(*(np.zeros(site.clear.shape, dtype=np.int64) for _ in range(3)))
    order = np.argsort(derive_array(derive(seed, "kinds"), np.arange(len(KINDS))))
    rows, columns = np.arange(features)[:, None], np.arange(DRAWS)[None, :]
    chances = derive_array(derive(seed, "features"), rows, columns) * 2.0**-63
    taken = site.clear.copy()
    for k, chance in enumerate(chances):
        kind = KINDS[order[k % len(KINDS)]]
        frame = _find_place(kind, taken, site.spawn, chance[1:])
        if frame is not None:
            land = kind.draw(land, frame, kind.rise(difficulty, chance[0]))
            taken |= frame.rectangle | frame.rectangle[::-1, ::-1]
    return _symmetrize(land, site)


def _find_place(kind: FeatureKind, taken: Mask, spawn: Coordinates, chance: Coordinates) -> LocalFrame | None:
    """The first position of a feature that is mostly free."""
    for place in chance[3:].reshape(PLACES, 3):
        frame = _frame(kind, len(taken), _place(len(taken), spawn, place), chance[:3])
        covered = frame.rectangle
        if np.count_nonzero(covered & taken) <= MOST_TAKEN * np.count_nonzero(covered):
            return frame
    return None


def _place(side: int, spawn: Coordinates, chance: Coordinates) -> tuple[float, float]:
    """Random position on the map, or near the path from the spawn to the zone."""
    if chance[0] >= NEAR_PATH:
        return side * (chance[1] - 0.5), side * (chance[2] - 0.5)
    distance = math.hypot(*spawn) * _between(NEAR_PATH_RANGE, chance[1])
    angle = math.atan2(spawn[1], spawn[0]) + NEAR_PATH_RAD * (2.0 * chance[2] - 1.0)
    return distance * math.cos(angle), distance * math.sin(angle)


def _frame(kind: FeatureKind, side: int, place: tuple[float, float], chance: Coordinates) -> LocalFrame:
    """A feature there, pointing anywhere."""
    angle = math.pi * chance[0]
    cosine, sine = math.cos(angle), math.sin(angle)
    middles = np.arange(side) + 0.5 - side / 2.0
    ahead, left = middles[None, :] - place[0], middles[:, None] - place[1]
    return LocalFrame(
        along=ahead * cosine + left * sine,
        across=left * cosine - ahead * sine,
        half_length=_between(kind.half_lengths, chance[1]),
        half_width=_between(kind.half_widths, chance[2]),
    )


def _symmetrize(land: Landscape, site: Site) -> Landscape:
    """Combine features with their mirror images and clear the reserved cells; liquids and debris need flat ground."""
    opaque, glass, material = (
        np.where(site.clear, 0, np.maximum(grid, grid[::-1, ::-1])) for grid in (land.opaque, land.glass, land.material)
    )
    solid = np.maximum(opaque, glass)
    closed = -spread(-spread(solid, site.footprint), site.footprint)
    opaque = np.where(site.clear | (closed <= solid), opaque, closed)
    raised = np.maximum(opaque, glass) > 0
    material = np.where(raised & (material != FOLIAGE), PLAIN, material)
    return Landscape(opaque, glass, np.where(glass > opaque, GLASS, material))


def spread(heights: Heights, reach: int) -> Heights:
    """Highest among the cells at most `reach` rows and columns away."""
    for axis in (0, 1):
        padded = np.pad(heights, [(reach, reach) if axis == k else (0, 0) for k in (0, 1)], mode="edge")
        heights = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=axis).max(axis=-1)
    return heights


def _between(bounds: tuple[float, float], share: float) -> float:
    low, high = bounds
    return low + (high - low) * share
