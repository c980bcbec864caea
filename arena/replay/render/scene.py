"""What there is to see at one moment of a match of mechs, between its frames as well. Lengths are in metres."""

from dataclasses import dataclass

from arena.replay.mech.events import Event, Holder
from arena.replay.mech.frames import Flag

LOW_HP = 0.35
"""Share of its hit points below which a mech is in danger."""
SMOKE_RADIUS = 4.0
"""Metres."""


@dataclass(frozen=True)
class Mech:
    """One mech.

    Attributes:
        agent: Its number; home's come first.
        side: 0 home, 1 away.
        role: Its class.
        x, y, z: Its feet.
        angle: Its heading in radians, 0 along x and growing to the left.
        hp: Share of its hit points.
        heat: Share of its heat capacity.
        flags: What else is true of it.
        hurt: Hit points that it loses in the decision that the frame ends.
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
        """Whether it is not destroyed."""
        return Flag.ALIVE in self.flags

    @property
    def label(self) -> str:
        """Its class's first letter."""
        return self.role[0].upper()


@dataclass(frozen=True)
class Beam:
    """A hitscan weapon that hits."""

    weapon: str
    shooter: int
    target: int


@dataclass(frozen=True)
class Shell:
    """A shell in the air, and where it comes from."""

    weapon: str
    owner: int
    x: float
    y: float
    from_x: float
    from_y: float


@dataclass(frozen=True)
class Cloud:
    """Smoke, and how dense it is, in [0, 1]."""

    x: float
    y: float
    density: float


@dataclass(frozen=True)
class Scene:
    """One moment.

    Attributes:
        frame: The frame that comes next, or is now.
        progress: Share of the decision before that frame that has passed, in (0, 1].
        time_s: Since the start.
        mechs: In the order of their numbers.
        holder: Who scores in the zone.
        zone_s: Zone seconds of home and away.
        recent: Events of the last seconds, with their age in seconds, oldest first.
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
