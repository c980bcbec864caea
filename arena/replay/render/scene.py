"""Scene of a mech match at one moment, possibly between frames. Lengths are in metres."""

from dataclasses import dataclass

from arena.replay.mech.events import Event, Holder
from arena.replay.mech.frames import Flag

LOW_HP = 0.35
"""Share of hit points below which a mech is in danger."""
SMOKE_RADIUS = 4.0
"""Radius in metres."""


@dataclass(frozen=True)
class Mech:
    """One mech.

    Attributes:
        agent: Index; home's come first.
        side: 0 home, 1 away.
        role: Class.
        x, y, z: Position of its feet.
        angle: Heading in radians, 0 along x and counterclockwise.
        hp: Share of its hit points.
        heat: Share of its heat capacity.
        flags: Other state.
        hurt: Hit points lost in the decision before the frame.
    """

    agent: int
    side: int
    role: str
    x: float
    y: float
    z: float
    angle: float
    hp: float
    heat: float
    flags: Flag
    hurt: float

    @property
    def alive(self) -> bool:
        """Whether it is alive."""
        return Flag.ALIVE in self.flags

    @property
    def label(self) -> str:
        """First letter of its class."""
        return self.role[0].upper()


@dataclass(frozen=True)
class Beam:
    """A hit of a hitscan weapon."""

    weapon: str
    shooter: int
    target: int


@dataclass(frozen=True)
class Shell:
    """A shell in the air, with its previous position."""

    weapon: str
    owner: int
    x: float
    y: float
    from_x: float
    from_y: float


@dataclass(frozen=True)
class Cloud:
    """A smoke cloud with its density in [0, 1]."""

    x: float
    y: float
    density: float


@dataclass(frozen=True)
class Scene:
    """Scene at one moment.

    Attributes:
        frame: The current or next frame.
        progress: Share of the decision before that frame that has passed, in (0, 1].
        time_s: Time since the start.
        mechs: Mechs by index.
        holder: Holder of the zone.
        zone_s: Zone seconds of home and away.
        recent: Recent events with their age in seconds, oldest first.
    """

    frame: int
    progress: float
    time_s: float
    mechs: tuple[Mech, ...]
    beams: tuple[Beam, ...]
    shells: tuple[Shell, ...]
    clouds: tuple[Cloud, ...]
    holder: Holder
    zone_s: tuple[float, float]
    recent: tuple[tuple[float, Event], ...]
