"""What changes in one match, and reading it out of a row of the batch."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mech_oracle.edges import Edges
from mech_oracle.world import Hull, Plane, Space, World
from numpy.typing import NDArray

from arena.environments.mech.config.chassis import STABILITY
from arena.environments.mech.config.constants import COMM_SIZE, SMOKE_SLOTS
from arena.environments.mech.config.weapons import SHELL_SLOTS, TIMERS, WEAPONS

NOBODY = -1
SMOKE_FREE, CLEAR = 1, 3
"""What the batch's table of sights holds."""


def single(value: float) -> float:
    """Round to single precision, where the last bit decides."""
    return float(np.float32(value))


@dataclass
class Shell:
    """A shell in the air."""

    position: Space
    velocity: Space
    reach: float
    weapon: int
    target: int


@dataclass
class Cloud:
    """A cloud of smoke; `left` is 0 where there is none."""

    centre: Space
    left: int


@dataclass
class Mech:
    """One mech."""

    hull: Hull
    position: Space
    heading: Plane
    hp: float
    leg_hp: float
    velocity: Space = (0.0, 0.0, 0.0)
    heat: float = 0.0
    stability: float = STABILITY
    timers: list[int] = field(default_factory=lambda: [0] * len(TIMERS))
    fallen_ticks: int = 0
    suppressed_ticks: int = 0
    painted_ticks: int = 0
    painted_by: int = NOBODY
    ams_ticks: int = 0
    wreck: bool = False
    acted: bool = False
    powered: bool = False
    throttle: Plane = (0.0, 0.0)
    lift: float = 0.0
    yaw: float = 0.0
    """Angle by which it turns left in a tick."""
    pulled: tuple[bool, ...] = ()
    heeded: bool = False
    focus: int = NOBODY
    ewar: int = 0
    comm: list[float] = field(default_factory=lambda: [0.0] * COMM_SIZE)
    shells: list[Shell | None] = field(default_factory=lambda: [None] * SHELL_SLOTS)
    origin: Space = (0.0, 0.0, 0.0)
    proposal: Plane = (0.0, 0.0)
    burn: float = 0.0
    potential: float = 0.0

    @property
    def alive(self) -> bool:
        return self.hp > 0.0

    @property
    def shut_down(self) -> bool:
        return self.heat > self.hull.type.heat_capacity

    @property
    def fallen(self) -> bool:
        return self.fallen_ticks > 0

    @property
    def legged(self) -> bool:
        return self.leg_hp <= 0.0

    @property
    def suppressed(self) -> bool:
        return self.suppressed_ticks > 0

    @property
    def centre(self) -> Space:
        x, y, z = self.position
        return x, y, z + 0.5 * self.hull.type.height


class Books:
    """What is written down in the course of a decision."""

    def __init__(self, mechs: int) -> None:
        self.dealt = np.zeros((mechs, mechs))
        self.killed = np.zeros((mechs, mechs))
        self.assists = np.zeros((mechs, mechs))
        self.terrain_damage = np.zeros(mechs)
        self.raw_damage = np.zeros((mechs, len(WEAPONS)))
        self.hitscan_hits = np.full((mechs, len(WEAPONS)), NOBODY)
        self.intercepted = np.zeros(mechs, dtype=int)
        self.paints = np.zeros(mechs, dtype=int)
        self.hurt_from = np.zeros((mechs, 2))
        self.hurt = np.zeros(mechs)


@dataclass
class State:
    """One match."""

    world: World
    seed: int
    map: int
    zone_radius: float
    mechs: list[Mech]
    books: Books
    decision: int = 0
    tick: int = 0
    zone_s: list[float] = field(default_factory=lambda: [0.0, 0.0])
    zone_tick: list[float] = field(default_factory=lambda: [0.0, 0.0])
    smoke: list[list[Cloud]] = field(
        default_factory=lambda: [[Cloud((0.0, 0.0, 0.0), 0) for _ in range(SMOKE_SLOTS)] for _ in range(2)]
    )
    smoke_count: list[int] = field(default_factory=lambda: [0, 0])
    fire_probability: list[float] = field(default_factory=lambda: [1.0, 1.0])
    own_share: float = 0.7
    sight: dict[tuple[int, int], tuple[bool, bool]] = field(default_factory=dict)
    """Pairs of living enemies -> whether no smoke is between their eyes, and whether nothing is."""
    contacts: list[list[int]] = field(default_factory=list)
    quality: list[float] = field(default_factory=list)
    jam: list[float] = field(default_factory=list)
    eccm: list[float] = field(default_factory=list)
    seen: list[set[int]] = field(default_factory=list)
    recognised: set[tuple[int, int]] = field(default_factory=set)
    """Viewers and enemies whose builds they know."""
    edges: Edges = field(default_factory=Edges)
    happened: Counter[str] = field(default_factory=Counter)
    """How often things happened that the rules speak of."""

    def enemies(self, mech: Mech) -> list[Mech]:
        """Living enemies."""
        return [other for other in self.mechs if other.alive and other.hull.side != mech.hull.side]

    def clear(self, viewer: int, other: int) -> bool:
        """Whether the last look found a clear sight between two enemies."""
        return self.sight.get((viewer, other), (False, False))[1]

    def solid(self, x: float, y: float) -> int:
        return 0 if self.world.flat else self._at(self.world.pool.solid[self.map], x, y, "solid")

    def material(self, x: float, y: float) -> int:
        return 0 if self.world.flat else self._at(self.world.pool.material[self.map], x, y, "material")

    def ground(self, mech: Mech, x: float, y: float) -> int:
        """Highest ground under a mech's box."""
        if self.world.flat:
            return 0
        return self._at(self.world.grounds[mech.hull.type.footprint][self.map], x, y, "ground")

    def _at(self, grid: NDArray[Any], x: float, y: float, what: str) -> int:
        value, beside = self.world.height(grid, x, y)
        if beside:
            self.edges.met.append(what)
        return value
