"""The four classes of mech and their sensors. Torch- and Warp-free.

Lengths are in metres, speeds in m/s, angles in radians, heat in points.
"""

from dataclasses import dataclass

STABILITY = 100.0
"""Maximum stability of every mech; at 0 the mech falls."""


@dataclass(frozen=True)
class SensorSuite:
    """Sensors of a class.

    Attributes:
        slots: Number of contact slots.
        range_factor: Factor of the radar range.
        fidelity: Accuracy of the observed positions in [0, 1]; the noise scales with 1 - fidelity.
    """

    slots: int
    range_factor: float
    fidelity: float


@dataclass(frozen=True)
class MechClass:
    """Properties of a class of mechs. Lengths are in metres, times in seconds, angles in radians.

    Attributes:
        name: The role of its mechs.
        width: Edge of the square bounding box.
        height: Height of the bounding box.
        max_speed: Maximum speed before drag, on open ground.
        max_yaw_rate: Maximum yaw rate per second.
        hp: Hit points of the body.
        leg_hp: Hit points of the legs.
        heat_capacity: Heat above which the mech shuts down.
        dissipation: Heat lost per second.
        tonnage: Weight in the contest for the zone.
        acoustic_mass: Noise at 1 m/s.
        wreck_chance: Probability that the destroyed mech leaves a wreck.
        suite: Its sensors.
        jet_acceleration: Acceleration of the jump jets at full throttle; 0 without jets.
        ewar: Whether it carries ECM and ECCM.
        ams: Whether it carries an anti-missile system.
    """

    name: str
    width: float
    height: float
    max_speed: float
    max_yaw_rate: float
    hp: float
    leg_hp: float
    heat_capacity: float
    dissipation: float
    tonnage: float
    acoustic_mass: float
    wreck_chance: float
    suite: SensorSuite
    jet_acceleration: float = 0.0
    ewar: bool = False
    ams: bool = False

    @property
    def hit_radius(self) -> float:
        """Distance from its centre within which a shell hits."""
        return max(self.width, self.height) / 2.0

    @property
    def footprint(self) -> int:
        """Cells on each side of the centre cell that the bounding box covers."""
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
    suite=SensorSuite(slots=10, range_factor=1.2, fidelity=0.6),
)
MEDIUM = MechClass(
    "medium",
    width=2.5,
    height=3.0,
    max_speed=5.5,
    max_yaw_rate=1.0,
    hp=150.0,
    leg_hp=75.0,
    heat_capacity=100.0,
    dissipation=11.0,
    tonnage=55.0,
    acoustic_mass=2.5,
    wreck_chance=0.6,
    suite=SensorSuite(slots=8, range_factor=1.0, fidelity=0.7),
)
HEAVY = MechClass(
    "heavy",
    width=3.5,
    height=4.0,
    max_speed=2.5,
    max_yaw_rate=0.6,
    hp=200.0,
    leg_hp=100.0,
    heat_capacity=130.0,
    dissipation=10.0,
    tonnage=85.0,
    acoustic_mass=4.0,
    wreck_chance=0.9,
    ams=True,
    suite=SensorSuite(slots=5, range_factor=0.8, fidelity=1.0),
)

CLASSES = {each.name: each for each in (SCOUT, LIGHT, MEDIUM, HEAVY)}
"""By name, from the lightest to the heaviest."""
