"""The arrays of a match, one frame per decision, and the columns of every frame in a recording. Torch-free."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.environments.mech.config.chassis import STABILITY, MechClass
from arena.environments.mech.config.constants import EWAR_OPTIONS, ZONE_HEIGHT
from arena.replay.mech.battlefield import Battlefield
from arena.replay.mech.frames import Flag, Frames

ARRAYS = (
    "position",
    "heading",
    "built",
    "hp",
    "leg_hp",
    "heat",
    "stability",
    "timers",
    "fallen_ticks",
    "suppressed_ticks",
    "painted_by",
    "wreck",
    "ewar",
    "zone_s",
    "zone_tick",
    "shell_position",
    "shell_reach",
    "shell_weapon",
    "smoke_centre",
    "smoke_left",
    "hitscan_hits",
    "dealt",
    "terrain_damage",
    "killed",
    "assists",
    "intercepted",
)
"""Arrays of the state from which a recording is made."""


Footage = Mapping[str, FloatArray]
"""The arrays of one match by name, each with F, the frames, as its first axis; flags are 0 and 1."""


@dataclass(frozen=True)
class Setting:
    """Constants of a match.

    Attributes:
        team: Class of every mech of both sides.
        built: The same with the first build, then with the second one, and so on.
        battlefield: The map and the zone.
    """

    team: tuple[MechClass, ...]
    built: tuple[MechClass, ...]
    battlefield: Battlefield

    def of_mechs(self, name: str) -> FloatArray:
        """A number of every mech's class (N,)."""
        return np.array([getattr(mech, name) for mech in self.team], dtype=np.float64)

    def of_builds(self, name: str, footage: Footage) -> FloatArray:
        """A number of every mech's class with its build (F, N)."""
        numbers = np.array([getattr(mech, name) for mech in self.built], dtype=np.float64)
        return numbers[footage["built"].astype(np.int64)]


def read_frames(footage: Footage, setting: Setting) -> Frames:
    """Return the columns of every frame."""
    position, heading = footage["position"], footage["heading"]
    angle = np.degrees(np.arctan2(heading[..., 1], heading[..., 0]))
    return Frames(
        x=to_whole(100.0 * position[..., 0]),
        y=to_whole(100.0 * position[..., 1]),
        z=to_whole(100.0 * position[..., 2]),
        heading=to_whole(angle) % 360,
        hp=_percent_left(footage["hp"], setting.of_builds("hp", footage)),
        heat=to_whole(100.0 * footage["heat"] / setting.of_mechs("heat_capacity")),
        leg=_percent_left(footage["leg_hp"], setting.of_builds("leg_hp", footage)),
        stability=to_whole(100.0 * footage["stability"] / STABILITY),
        flags=_read_flags(footage, setting, position),
        home_zone=to_whole(100.0 * footage["zone_s"][:, 0]),
        away_zone=to_whole(100.0 * footage["zone_s"][:, 1]),
        home_tick=to_whole(100.0 * footage["zone_tick"][:, 0]),
        away_tick=to_whole(100.0 * footage["zone_tick"][:, 1]),
    )


def shut_down(footage: Footage, setting: Setting) -> BoolArray:
    """Whether each mech lives, too hot to do anything (F, N)."""
    hot: BoolArray = footage["heat"] > setting.of_mechs("heat_capacity")
    return hot & (footage["hp"] > 0.0)


def _read_flags(footage: Footage, setting: Setting, position: FloatArray) -> IntArray:
    alive, shutdown = footage["hp"] > 0.0, shut_down(footage, setting)
    powered = alive & ~shutdown
    bits = {
        Flag.ALIVE: alive,
        Flag.SHUTDOWN: shutdown,
        Flag.FALLEN: alive & (footage["fallen_ticks"] > 0),
        Flag.LEGGED: alive & (footage["leg_hp"] <= 0.0),
        Flag.PAINTED: alive & (footage["painted_by"] >= 0),
        Flag.ECM: powered & (footage["ewar"] == EWAR_OPTIONS.index("ecm")),
        Flag.ECCM: powered & (footage["ewar"] == EWAR_OPTIONS.index("eccm")),
        Flag.SUPPRESSED: alive & (footage["suppressed_ticks"] > 0),
        Flag.IN_ZONE: alive & _holds_zone(position, setting),
        Flag.WRECK: footage["wreck"] > 0.0,
    }
    flags = np.zeros(alive.shape, dtype=np.int64)
    for flag, where in bits.items():
        flags |= int(flag) * where
    return flags


def _holds_zone(position: FloatArray, setting: Setting) -> BoolArray:
    distance_cm = 100.0 * np.hypot(position[..., 0], position[..., 1])
    above: BoolArray = position[..., 2] - _ground_below(position, setting) <= ZONE_HEIGHT
    return above & (distance_cm <= setting.battlefield.zone_radius)


def _ground_below(position: FloatArray, setting: Setting) -> IntArray:
    """Height of the ground under each mech (F, N)."""
    below = np.zeros(position.shape[:2], dtype=np.int64)
    ground = setting.battlefield.ground
    if ground is not None:
        columns, rows = (cells_of(position[..., axis], ground.cells) for axis in (0, 1))
        for index, mech in enumerate(setting.team):
            highest = highest_around(ground.layer("solid"), mech.footprint)
            below[:, index] = highest[rows[:, index], columns[:, index]]
    return below


def cells_of(coordinate: FloatArray, cells: int) -> IntArray:
    """Columns (or rows) of the cells that contain the coordinates; symmetric under half a turn of the map."""
    half = cells // 2
    column = np.where(coordinate >= 0.0, half + np.floor(coordinate), half - 1 - np.floor(-coordinate))
    return np.clip(column, 0, cells - 1).astype(np.int64)


def highest_around(solid: IntArray, reach: int) -> IntArray:
    """Highest of the cells at most `reach` rows and columns away from each."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(solid, reach), (2 * reach + 1, 2 * reach + 1))
    return windows.max(axis=(-2, -1))  # type: ignore[no-any-return]


def _percent_left(value: FloatArray, most: FloatArray) -> IntArray:
    """Share in percent, rounded up, so that 0 means exactly 0."""
    percent: FloatArray = np.maximum(np.ceil(np.round(100.0 * value / most, 3)), value > 0.0)
    return percent.astype(np.int64)


def to_whole(value: FloatArray) -> IntArray:
    """The nearest whole numbers."""
    whole: FloatArray = np.rint(value)
    return whole.astype(np.int64)
