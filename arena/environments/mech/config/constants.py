"""Numbers of the mech arena that belong to no class and no weapon. Torch- and Warp-free.

Lengths are in metres, times in seconds, angles in radians, heat in points. The map is a square centred on the origin,
x and y in the plane, z up, so that turning it by half a turn negates x and y exactly. Headings are unit vectors; in a
mech's own frame x points ahead and y to the left, and a positive yaw rate turns left.
"""

TICK_S = 0.05
TICKS_PER_DECISION = 5
DECISION_S = TICK_S * TICKS_PER_DECISION

# Movement
DRAG = 0.98
"""Factor of the velocity per tick."""
GRAVITY = 9.81
STEP_UP = 1.1
"""Highest step that a mech walks up."""
STEP_UP_SPEED = 1.0
"""Vertical speed from which it no longer steps up."""
CEILING = 12.0
"""Highest that feet get."""
LEGGED_SPEED = 0.4
"""Factor of the speed of a mech with destroyed legs."""
LEGGED_JETS = 0.5

# Heat
VENT_FACTOR = 3.0
"""Factor of the dissipation while venting."""
CRITICAL_HEAT = 0.85
"""Share of the heat capacity above which the observation warns."""
EWAR_HEAT = (0.0, 3.0, 2.0)
"""Heat a second of each option of the head `ewar`."""

# Stability
STABILITY_REGENERATION = 10.0
"""Points a second."""
LEAST_REGENERATION = 0.1
"""Smallest share of the regeneration after penalties."""
LEGGED_PENALTY, MOVING_PENALTY, SUPPRESSED_PENALTY = 0.5, 0.5, 0.75
MOVING_SPEED = 1.0
LEGGED_STABILITY = 0.5
"""Share of its stability that a mech without legs can have."""
FALLEN_TICKS = round(3.0 / TICK_S)
STANDING_STABILITY = 50.0
"""Stability after a fall."""
SUPPRESSED_TICKS = round(1.2 / TICK_S)

# Ground
PLAIN, WATER, LAVA, DEBRIS, FOLIAGE, GLASS = range(6)
"""Materials of a cell."""
WATER_SPEED = 0.6
HAZARD_HEAT = (0.0, -30.0, 40.0, 20.0, 0.0, 0.0)
"""Heat a second of each material, at the feet."""
HAZARD_DAMAGE = (0.0, 0.0, 5.0, 1.25, 0.0, 0.0)
"""Hit points a second of each material, at the feet."""
FOOT_CLEARANCE = 0.1
"""Height above the ground in metres up to which the material still affects a mech."""
FOLIAGE_HEIGHT = 4.0
"""Height of foliage above its ground in metres; it blocks the sight."""

# Hits
REAR_COSINE = 0.707
REAR_FACTOR = 1.5
"""Factor of the damage from behind, within the angle of REAR_COSINE."""
LEG_HIT_CHANCE = 0.1
LEG_HIT_BODY = 0.5
"""Share of the damage of a leg hit that the body loses."""

# Aim
FOCUS_CONE_RAD, NEAREST_CONE_RAD = 0.2, 0.1
"""Largest angle between heading and target of a gun: the mech in focus, and the nearest enemy."""
MISSILE_SIGHT_RANGE = 12.0
"""Range in metres within which a missile locks on to a target in clear sight of its own mech."""
MISSILE_LOFT = 0.5
"""Upward part of a missile's launch direction, beside a unit vector to the target."""
MISSILE_BLEND = 4.0 * TICK_S
"""Share of a missile's direction that turns to its target every tick."""

# Paint
PAINT_TICKS = round(5.0 / TICK_S)
PAINT_FACTOR = 1.1
"""Damage factor of the painter's pack."""
LOCK_QUALITY = 0.70
"""Sensor quality from which paint gives a missile lock and reveals the painted mech."""

# Anti-missile system
AMS_RANGE = 5.5
AMS_CHANCE = 0.60
AMS_TICKS = round(1.0 / TICK_S)

# Smoke
SMOKE_SLOTS = 4
"""Largest number of clouds per side; a new cloud replaces the oldest."""
SMOKE_RADIUS = 4.0
SMOKE_DECISIONS = round(10.0 / DECISION_S)
SMOKE_DISTANCE = (15.0, 20.0)
SMOKE_HEIGHT = 2.0
"""Of a cloud's centre above the ground."""

# Sensors
EWAR_RANGE = 50.0
JAM_WEIGHT, ECCM_WEIGHT = 0.85, 0.65
QUALITY_RANGE = (0.25, 1.5)
RADAR_RANGE = 14.0
HOT_HEAT = 0.8
"""Share of the heat capacity above which a mech is seen through walls."""
EYE_SHARE = 0.9
"""Height of the eyes, as a share of the mech's."""
SIGHT_STEP = 1.0
"""Longest distance between two points at which a line of sight is checked."""
TARGETED_RANGE = 8.0
HIDDEN_NOISE = 0.2
"""Factor of the noise of a mech out of sight."""
POSITION_NOISE = 0.1
"""Largest error of a contact's position on each axis, as a share of its distance, at fidelity 0."""
CONDITION_NOISE = 0.2
"""Largest error of a contact's hit points and heat, as shares, at fidelity 0."""

# Objective
ZONE_RADIUS = 7.5
ZONE_RADIUS_RANGE = (0.5, 1.5)
ZONE_HEIGHT = 2.0
"""Largest height of the feet above the ground at which a mech holds the zone."""
CONTESTED_FLOOR = 0.25
"""Score per second of each side in a contested zone, before tonnage counts."""
ZONE_GOAL_SHARE = 0.5
"""Share of the time limit that a side must score to win by zone."""
SCORE_MARGIN = 1e-3
"""Zone seconds, or hit points, that count as a lead when time is up."""

# Spawn
SPAWN_DISTANCE_RANGE = (0.65, 0.85)
"""Distance of the spawn from the centre, as a share of half the map's side."""
SPAWN_COLUMNS = 5
SPAWN_PITCH = 3.5
SPAWN_JITTER = 0.25
SPAWN_JITTER_RAD = 0.15

REASONS = ("zone", "elimination", "time")
MOVES = ("forward", "strafe", "vertical", "yaw_rate")
EWAR_OPTIONS = ("off", "ecm", "eccm")
COMM_SIZE = 8
LOCAL_MAP_CELLS = 11
LOCAL_MAP_PITCH = 2.0
"""Metres between two points of the local map."""
LOCAL_MAP_RISE = 4.0
"""Rise of the ground that shows as 1 on the local map."""
