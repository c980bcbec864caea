"""Numbers of the mech arena: classes, weapons, presets, rewards, and what they declare. Torch- and Warp-free.

Lengths are in metres, times in seconds, angles in radians unless a name says otherwise. The map is a square centred on
the origin, so that turning it by half a turn negates every coordinate exactly. Headings are unit vectors; in a mech's
own frame x points ahead and y to the left, and a positive yaw rate turns left.
"""

from dataclasses import asdict, dataclass
from typing import Any

from arena.environments.spec import SIDES, ActionHead, EnvironmentSpec, HeadKind, ObservationBlock

TICK_S = 0.05
TICKS_PER_DECISION = 5
DECISION_S = TICK_S * TICKS_PER_DECISION
DRAG = 0.98
"""What is left of a mech's velocity every tick."""

VENT_FACTOR = 3.0
"""How much faster heat dissipates while venting."""

REAR_COSINE = 0.707
REAR_FACTOR = 1.5
"""Damage factor where the shot goes the way that its target faces, within the angle of REAR_COSINE."""

CRITICAL_HEAT = 0.85
"""Share of the heat capacity above which the observation warns."""

ZONE_RADIUS = 7.5
ZONE_RADIUS_RANGE = (0.5, 1.5)
CONTESTED_FLOOR = 0.25
"""What each side scores a second in a contested zone, before its tonnage counts."""

ZONE_GOAL_SHARE = 0.5
"""Share of the time limit that a side must score to win by zone."""

SCORE_MARGIN = 1e-3
"""Zone seconds, or hit points, that count as a lead when time is up."""

SPAWN_DISTANCE_RANGE = (0.65, 0.85)
"""Distance of the spawn from the centre, as a share of half the map's side."""

SPAWN_PITCH = 3.5
SPAWN_JITTER_RAD = 0.15

REASONS = ("zone", "elimination", "time")
COMPONENTS = ("zone", "approach", "damage", "kill", "death", "win")
TRIGGERS = ("primary", "vent", "secondary", "tertiary", "special")
MOVES = ("forward", "strafe", "vertical", "yaw_rate")


@dataclass(frozen=True)
class MechClass:
    """What sets one class of mech apart."""

    name: str
    width: float
    height: float
    max_speed: float
    max_yaw_rate: float
    hp: float
    heat_capacity: float
    dissipation: float
    tonnage: float

    @property
    def hit_radius(self) -> float:
        """How near a shell must pass to hit."""
        return max(self.width, self.height) / 2.0


@dataclass(frozen=True)
class Weapon:
    """A direct-fire weapon.

    Attributes:
        range: Longest distance of a hit.
        damage: Hit points a hit costs.
        heat: Heat it adds to whoever fires it.
        target_heat: Heat it adds to whoever is hit.
        cooldown_s: Time between two shots.
        half_arc_rad: A laser's target, or an enemy whom a gun aims at by itself, is within this angle of the heading.
        speed: Of its shell; 0 where the hit is instant.
    """

    range: float
    damage: float
    heat: float
    target_heat: float
    cooldown_s: float
    half_arc_rad: float
    speed: float

    @property
    def cooldown_ticks(self) -> int:
        """Ticks between two shots."""
        return round(self.cooldown_s / TICK_S)


LASER = Weapon(8.0, damage=14.0, heat=22.0, target_heat=6.0, cooldown_s=0.6, half_arc_rad=1.0471976, speed=0.0)
AUTOCANNON = Weapon(12.0, damage=8.0, heat=6.0, target_heat=0.0, cooldown_s=0.2, half_arc_rad=0.1, speed=25.0)
SHELL_STEP = AUTOCANNON.speed * TICK_S
SHELL_SLOTS = -int(-AUTOCANNON.range // SHELL_STEP) // AUTOCANNON.cooldown_ticks + 1
"""Shells of one gun that can be in the air at once."""

MEDIUM = MechClass(
    "medium",
    width=2.5,
    height=3.0,
    max_speed=5.5,
    max_yaw_rate=1.0,
    hp=150.0,
    heat_capacity=100.0,
    dissipation=11.0,
    tonnage=55.0,
)


@dataclass(frozen=True)
class RewardWeights:
    """Weight of every reward component, and the discount that shaping must share with training.

    Per agent and decision, s is a side's zone tick, m hit points, f a potential in [0, 1]:

        zone      s_own - s_enemy
        approach  gamma f' - f, where f = 1 - (distance to the zone's edge) / (side of the map), and f' = 0 at the end
        damage    m_dealt - m_taken
        kill      share of the killing damage
        death     -1 when destroyed
        win       +1, 0 or -1 when the match is over

    All but `approach` sum to zero over both sides. Standing still never earns: its `approach` is (gamma - 1) f <= 0.
    A 60 s match pays at most 6 for the zone, 3 for the damage, 1 each for the kill, the death and the win.
    """

    zone: float = 0.05
    approach: float = 1.0
    damage: float = 0.02
    kill: float = 1.0
    death: float = 1.0
    win: float = 1.0
    gamma: float = 0.995


@dataclass(frozen=True)
class MechConfig:
    """One composition: the same team on both sides.

    Attributes:
        name: Registry name.
        team: Class of every mech of a side.
        map_side: Length of the map's edge.
        limit_s: When time is up.
    """

    name: str
    team: tuple[MechClass, ...]
    map_side: float
    limit_s: float

    @property
    def max_decisions(self) -> int:
        """Decisions until time is up."""
        return round(self.limit_s / DECISION_S)

    @property
    def zone_goal_s(self) -> float:
        """Zone seconds that win."""
        return ZONE_GOAL_SHARE * self.limit_s


PRESETS = {"mech-duel": MechConfig("mech-duel", (MEDIUM,), map_side=40.0, limit_s=60.0)}

EGO_BLOCKS = (
    ObservationBlock("condition", (7,), 0.0, 1.0),
    ObservationBlock("heat", (1,), 0.0, 2.0),
    ObservationBlock("motion", (2,), -1.0, 1.0),
    ObservationBlock("zone", (3,), -1.0, 1.0),
    ObservationBlock("score", (3,), 0.0, 1.0),
)
"""What a mech knows of itself and the match.

condition: hit points, shut down, heat critical, hit in the last decision, laser and autocannon cooldown (1 = just
fired), in the zone. heat: share of the capacity. motion: velocity in the own frame over the top speed. zone: its centre
in the own frame over the map's side, its radius over the map's side. score: own and enemy zone seconds over the goal,
time over the limit.
"""

CONTACT_FEATURES = (
    "present",
    "ahead",
    "left",
    "velocity_ahead",
    "velocity_left",
    "facing_ahead",
    "facing_left",
    "hp",
    "heat",
    "shutdown",
    "in_zone",
    "distance",
    "closing",
)
"""Features of one enemy, in the viewer's frame, nearest first; all 0 where there is none.

Positions and distance are over the map's diagonal; velocities, relative to the viewer's, over CONTACT_SPEED and
clipped; heat is the share of the capacity, at most 2.
"""

CONTACT_SPEED = 10.0


def observation_blocks(enemies: int) -> tuple[ObservationBlock, ...]:
    """Layout of the observation against so many enemies."""
    return (*EGO_BLOCKS, ObservationBlock("contacts", (enemies, len(CONTACT_FEATURES)), -1.0, 2.0))


def make_spec(config: MechConfig) -> EnvironmentSpec:
    """What an environment of that composition declares."""
    return EnvironmentSpec(
        name=config.name,
        agents_per_side=(len(config.team), len(config.team)),
        roles=tuple(mech.name for mech in config.team) * SIDES,
        observation=observation_blocks(len(config.team)),
        heads=(
            ActionHead("move", HeadKind.GAUSSIAN, len(MOVES), masked=True),
            ActionHead("trigger", HeadKind.BERNOULLI, len(TRIGGERS), masked=True),
        ),
        max_decisions=config.max_decisions,
        turn_based=False,
        reproducible=True,
        reasons=REASONS,
        rules=_declared_rules(config),
    )


def _declared_rules(config: MechConfig) -> dict[str, Any]:
    return {
        "config": asdict(config),
        "laser": asdict(LASER),
        "autocannon": asdict(AUTOCANNON),
        "tick_s": TICK_S,
        "ticks_per_decision": TICKS_PER_DECISION,
        "drag": DRAG,
        "vent_factor": VENT_FACTOR,
        "rear": [REAR_COSINE, REAR_FACTOR],
        "zone_radius": [ZONE_RADIUS, *ZONE_RADIUS_RANGE],
        "contested_floor": CONTESTED_FLOOR,
        "zone_goal_share": ZONE_GOAL_SHARE,
        "spawn": [*SPAWN_DISTANCE_RANGE, SPAWN_PITCH, SPAWN_JITTER_RAD],
        "contacts": CONTACT_FEATURES,
    }
