"""The four classes of mech and how well each perceives. Torch- and Warp-free.

Lengths are in metres, speeds in m/s, angles in radians, heat in points.
"""

from dataclasses import dataclass

STABILITY = 100.0
"""What every mech has, and what it loses to shaking hits before it falls."""


@dataclass(frozen=True)
class SensorSuite:
    """How many contacts a class can follow, how far its radar reaches and how precisely it sees.

    Attributes:
        slots: Contacts that it can follow at once.
        range_factor: Multiplies the radar's range.
        fidelity: 1 sees exactly; what lacks to 1 scales the noise.
    """

    slots: int
    range_factor: float
    fidelity: float


@dataclass(frozen=True)
class MechClass:
    """What sets one class of mech apart.

    Attributes:
        name: The role of its mechs.
        width: Edge of its square box.
        height: Of its box.
        max_speed: Before drag, on open ground.
        max_yaw_rate: Per second.
        jet_acceleration: Of its jump jets at full throttle; 0 for a mech without.
        hp: Hit points of the body.
        leg_hp: Hit points of the legs.
        heat_capacity: Above it the mech shuts down.
        dissipation: Heat lost a second.
        tonnage: What it counts in the zone.
        acoustic_mass: How loud it is at 1 m/s.
        wreck_chance: How often its wreck stays in the way.
        ewar: Whether it carries ECM and ECCM.
        ams: Whether it shoots at missiles.
        suite: How it perceives.
    """

    name: str
    width: float
    height: float
    max_speed: float
    max_yaw_rate: float
    jet_acceleration: float
    hp: float
    leg_hp: float
    heat_capacity: float
    dissipation: float
    tonnage: float
    acoustic_mass: float
    wreck_chance: float
    ewar: bool
    ams: bool
    suite: SensorSuite

    @property
    def hit_radius(self) -> float:
        """How near to its centre a shell must pass to hit."""
        return max(self.width, self.height) / 2.0

    @property
    def footprint(self) -> int:
        """Cells on every side of its own on which its box stands, too."""
        return max(1, round(self.width / 2.0))


SCOUT = MechClass(
    "scout",
    width=1.2,
    height=1.8,
    max_speed=7.0,
    max_yaw_rate=1.8,
    jet_acceleration=18.0,
    hp=60.0,
    leg_hp=30.0,
    heat_capacity=75.0,
    dissipation=13.0,
    tonnage=20.0,
    acoustic_mass=1.0,
    wreck_chance=0.1,
    ewar=True,
    ams=False,
    suite=SensorSuite(slots=20, range_factor=1.5, fidelity=0.8),
)
LIGHT = MechClass(
    "light",
    width=1.5,
    height=2.0,
    max_speed=6.8,
    max_yaw_rate=1.5,
    jet_acceleration=16.0,
    hp=80.0,
    leg_hp=40.0,
    heat_capacity=80.0,
    dissipation=12.0,
    tonnage=35.0,
    acoustic_mass=1.5,
    wreck_chance=0.3,
    ewar=False,
    ams=False,
    suite=SensorSuite(slots=10, range_factor=1.2, fidelity=0.6),
)
MEDIUM = MechClass(
    "medium",
    width=2.5,
    height=3.0,
    max_speed=5.5,
    max_yaw_rate=1.0,
    jet_acceleration=0.0,
    hp=150.0,
    leg_hp=75.0,
    heat_capacity=100.0,
    dissipation=11.0,
    tonnage=55.0,
    acoustic_mass=2.5,
    wreck_chance=0.6,
    ewar=False,
    ams=False,
    suite=SensorSuite(slots=8, range_factor=1.0, fidelity=0.7),
)
HEAVY = MechClass(
    "heavy",
    width=3.5,
    height=4.0,
    max_speed=2.5,
    max_yaw_rate=0.6,
    jet_acceleration=0.0,
    hp=200.0,
    leg_hp=100.0,
    heat_capacity=130.0,
    dissipation=10.0,
    tonnage=85.0,
    acoustic_mass=4.0,
    wreck_chance=0.9,
    ewar=False,
    ams=True,
    suite=SensorSuite(slots=5, range_factor=0.8, fidelity=1.0),
)

CLASSES = {each.name: each for each in (SCOUT, LIGHT, MEDIUM, HEAVY)}
"""By name, from the lightest to the heaviest."""
