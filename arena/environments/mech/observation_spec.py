"""Environment spec of a composition: observation blocks, action heads, signature. Torch- and Warp-free."""

from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import COMM_SIZE, EWAR_OPTIONS, LOCAL_MAP_CELLS, MOVES, REASONS
from arena.environments.mech.config.scenario import PRESETS, MechConfig, Terrain
from arena.environments.mech.config.signature import covered_rules
from arena.environments.mech.config.weapons import TIMERS, TRIGGERS
from arena.environments.mech.maps.pool import MAPS_EDITION
from arena.environments.spec import SIDES, ActionHead, EnvironmentSpec, HeadKind, MemberMask, ObservationBlock

SPEED_SCALE = 10.0
"""Metres a second that read as 1."""

CONDITION_FEATURES = (
    "hp",
    "leg_hp",
    "stability",
    "shutdown",
    "heat_critical",
    "fallen",
    "legged",
    "under_fire",
    "targeted",
    "painted",
    "missile_inbound",
    "suppressed",
    "in_zone",
    "ecm",
    "eccm",
    *(f"{timer}_timer" for timer in TIMERS),
    "ams_timer",
)
"""Shares of the mech's maximum, or 0 and 1; a timer is 1 at the start of its longest cooldown."""

HULL_FEATURES = (*CLASSES, "slots", "range", "fidelity")
"""Class one-hot, and the suite: slots / 20, (range factor - 0.8) / 0.7, fidelity."""

MOTION_FEATURES = ("velocity_ahead", "velocity_left", "velocity_up", "damage_ahead", "damage_left")
"""Velocity over SPEED_SCALE, clipped; direction of the last decision's damage, a unit vector or 0."""

ZONE_FEATURES = ("ahead", "left", "radius", "route_ahead", "route_left", "route")
"""Centre and radius of the zone, and the path there.

Centre and radius over the map's side; first step of the path, a unit vector; length of the path to the zone's edge over
twice the map's side, clipped.
"""

EDGE_FEATURES = ("ahead", "left", "behind", "right")
"""Distance to the map's edge in each direction, over the map's side, clipped."""

SCORE_FEATURES = ("control", "enemy_control", "score", "enemy_score", "time")
"""Zone ticks of the last decision; zone seconds over the goal, at most 1; time over the limit."""

SENSOR_FEATURES = ("quality", "jam", "eccm", "noise_ahead", "noise_left", "noise_behind", "noise_right")
"""Sensor quality over 1.5, jamming and ECCM; noise of enemies in each quarter, clipped to 1."""

PANEL_FEATURES = ("mates_alive", "friends_alive", "enemies_alive", "enemies_seen", "enemies_painted", "friends_in_zone")
"""Counts over the most that there can be."""

CONTACT_FEATURES = (
    "ahead",
    "left",
    "up",
    "distance",
    "velocity_ahead",
    "velocity_left",
    "velocity_up",
    "closing",
    "facing_ahead",
    "facing_left",
    "hp",
    "heat",
    "stability",
    "fallen",
    "legged",
    "shutdown",
    "hostile",
    *CLASSES,
    "painted",
    "in_sight",
    "ewar",
    "in_zone",
    "focus",
)
"""One mech outside the own pack, in the viewer's frame; all 0 in an empty slot.

Position and distance are divided by the map's diagonal. Velocities are relative to the viewer's, divided by SPEED_SCALE
and clipped. Heat is the share of the capacity, at most 2; hp and stability are shares; focus is 1 for the target of the
viewer's last action.
"""

MATE_FEATURES = ("ahead", "left", "up", "facing_ahead", "facing_left", "hp", "heat", "fallen", "shutdown", *CLASSES)
"""One pack mate, without noise, in the order of the pack without the viewer; 0 for destroyed or missing mates."""

SIGNED_FEATURES = (CONDITION_FEATURES, CONTACT_FEATURES, MATE_FEATURES, HULL_FEATURES, PANEL_FEATURES)
"""Features whose names and order the signature covers; of the other blocks it covers the size only."""


def observation_blocks(config: MechConfig) -> tuple[ObservationBlock, ...]:
    """Layout of one mech's observation; blocks that a composition cannot fill are left out."""
    has_builds = config.builds > 1
    contacts = ("contacts", "contact_builds") if has_builds else ("contacts",)
    pack = ("pack", "comms", "pack_builds") if has_builds else ("pack", "comms")
    blocks = [
        ObservationBlock("condition", (len(CONDITION_FEATURES),), 0.0, 1.0),
        ObservationBlock("heat", (1,), 0.0, 2.0),
        ObservationBlock("hull", (len(HULL_FEATURES),), 0.0, 1.0),
        ObservationBlock("motion", (len(MOTION_FEATURES),), -1.0, 1.0),
        ObservationBlock("zone", (len(ZONE_FEATURES),), -1.0, 1.0),
        ObservationBlock("edge", (len(EDGE_FEATURES),), 0.0, 1.0),
        ObservationBlock("score", (len(SCORE_FEATURES),), 0.0, 1.0),
        ObservationBlock("sensors", (len(SENSOR_FEATURES),), 0.0, 1.0),
        ObservationBlock("panel", (len(PANEL_FEATURES),), 0.0, 1.0),
        ObservationBlock("contacts", (config.contacts, len(CONTACT_FEATURES)), -1.0, 2.0),
        MemberMask("contact_mask", (config.contacts,), 0.0, 1.0, describes=contacts, chosen_by=("target",)),
    ]
    if has_builds:
        blocks += [
            ObservationBlock("build", (config.builds,), 0.0, 1.0),
            ObservationBlock("contact_builds", (config.contacts, config.builds), 0.0, 1.0),
        ]
    if config.mates:
        blocks += [
            ObservationBlock("pack", (config.mates, len(MATE_FEATURES)), -1.0, 2.0),
            MemberMask("pack_mask", (config.mates,), 0.0, 1.0, describes=pack, chosen_by=()),
            ObservationBlock("comms", (config.mates, COMM_SIZE), -1.0, 1.0),
        ]
        if has_builds:
            blocks.append(ObservationBlock("pack_builds", (config.mates, config.builds), 0.0, 1.0))
    if config.terrain is Terrain.BROKEN:
        blocks.append(ObservationBlock("local_map", (LOCAL_MAP_CELLS, LOCAL_MAP_CELLS), -1.0, 1.0))
    return tuple(blocks)


def action_heads(config: MechConfig) -> tuple[ActionHead, ...]:
    """Action heads of one mech, without those that no mech of the composition can use."""
    heads = [
        ActionHead("move", HeadKind.GAUSSIAN, len(MOVES), masked=True),
        ActionHead("trigger", HeadKind.BERNOULLI, len(TRIGGERS), masked=True),
        ActionHead("target", HeadKind.CATEGORICAL, 1 + config.contacts, masked=True),
    ]
    if any(mech.ewar for mech in config.team):
        heads.append(ActionHead("ewar", HeadKind.CATEGORICAL, len(EWAR_OPTIONS), masked=True))
    if config.builds > 1:
        heads.append(ActionHead("build", HeadKind.CATEGORICAL, config.builds, masked=True))
    if config.mates:
        heads.append(ActionHead("comm", HeadKind.GAUSSIAN, COMM_SIZE, masked=True))
    return tuple(heads)


def declare_preset(name: str) -> EnvironmentSpec:
    """Return the spec of the preset `name`."""
    return make_spec(PRESETS[name])


def make_spec(config: MechConfig) -> EnvironmentSpec:
    """Return the spec of a composition."""
    return EnvironmentSpec(
        name=config.name,
        agents_per_side=(len(config.team), len(config.team)),
        roles=tuple(mech.name for mech in config.team) * SIDES,
        observation=observation_blocks(config),
        heads=action_heads(config),
        max_decisions=config.max_decisions,
        turn_based=False,
        reproducible=True,
        limit_decides=True,
        reasons=REASONS,
        rules=covered_rules(config, maps_edition=MAPS_EDITION, features=SIGNED_FEATURES),
    )
