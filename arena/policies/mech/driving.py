"""Movement of scripted players: to the zone, away from close enemies, and out of dead ends."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.mech.config.chassis import CLASSES, MechClass
from arena.environments.mech.config.constants import DECISION_S, LOCAL_MAP_PITCH
from arena.policies.mech.aiming import Target
from arena.policies.mech.perception import Percept, length

STANDOFFS = {"scout": 5.5, "light": 4.0, "medium": 5.5, "heavy": 0.0}
"""Distance to the target below which each class backs off; within flamer range for lights, never for heavies."""

BACK_OFF_THROTTLE = 0.3

STOP_SHARE, STOP_SHARE_ALONE = 0.5, 0.2
"""Share of the zone's radius at which a lieutenant stops, with and without a known enemy.

Without one it moves further in to make room for teammates.
"""

LEAST_GAIN = 0.2
"""Metres by which a lieutenant must reduce its shortest distance to the zone to count as progress."""

JUMP_AFTER = 2
"""Decisions without progress before using jump jets."""

STUCK_AFTER = 10
"""Decisions without progress before a detour."""

REVERSE, STRAFE = round(1.0 / DECISION_S), round(1.0 / DECISION_S)
"""Durations of the detour's two parts, in decisions."""


class Progress(NamedTuple):
    """Memory of R lieutenants; counts are floats, so that one tensor stores everything.

    Attributes:
        least: Distance to the zone at the last progress, in metres.
        stalled: Decisions since then.
        detour: Remaining decisions of the detour.
        side: 1 if the latest detour went left, -1 if right.
    """

    least: Float[Tensor, " R"]
    stalled: Float[Tensor, " R"]
    detour: Float[Tensor, " R"]
    side: Float[Tensor, " R"]


# The infinite distance makes the first decision count as progress.
BLANK: Float[Tensor, " fields"] = torch.tensor([math.inf, 0.0, 0.0, -1.0])
"""Initial progress."""


class Handling(NamedTuple):
    """Handling of R mechs, by class.

    Attributes:
        standoff: Distance to the target below which it backs off.
        jets: 1 if it has jump jets.
        caution: Throttle that moves it half a point of the local map per decision.
        turn: Yaw rate that turns it by one radian per decision, as a share of its maximum.
    """

    standoff: Float[Tensor, " R"]
    jets: Float[Tensor, " R"]
    caution: Float[Tensor, " R"]
    turn: Float[Tensor, " R"]


class Course(NamedTuple):
    """Movement of R mechs: throttle (ahead, left) and jump jet thrust."""

    throttle: Float[Tensor, "2 R"]
    lift: Float[Tensor, " R"]


def handling(senses: Percept) -> Handling:
    """Return the handling of every mech."""
    return Handling(*senses.by_class(_HANDLING).unbind())


def note_progress(before: Progress, senses: Percept, travelling: Bool[Tensor, " R"]) -> Progress:
    """Update the count of decisions without progress, and start or continue detours.

    Args:
        before: Previous memory.
        senses: Current perception.
        travelling: Mechs that can move and have no close enemy.
    """
    outside = travelling & (senses.remaining > 0.0) & (before.detour == 0.0)
    waits = outside & (senses.remaining > before.least - LEAST_GAIN)
    stalled = (before.stalled + 1.0) * waits
    stuck = stalled > STUCK_AFTER
    return Progress(
        least=torch.where(waits, before.least, senses.remaining),
        stalled=stalled.masked_fill(stuck, 0.0),
        detour=(before.detour - 1.0).relu().masked_fill(stuck, REVERSE + STRAFE),
        side=torch.where(stuck, -before.side, before.side),
    )


def steer(senses: Percept, target: Target, progress: Progress, close: Bool[Tensor, " R"]) -> Float[Tensor, "2 R"]:
    """Return the direction: away from a close enemy, else to the zone; 0 after arrival."""
    stop_share = torch.where(target.known, STOP_SHARE, STOP_SHARE_ALONE)
    going = length(senses.zone) > stop_share * senses.zone_radius
    across = torch.stack([-senses.route[1], senses.route[0]]) * progress.side
    detour = torch.where(progress.detour > STRAFE, -senses.route, across)
    way = torch.where(progress.detour > 0.0, detour, senses.route * going)
    return torch.where(close, target.way / -target.distance.clamp(min=1e-6), way)


def drive(
    direction: Float[Tensor, "2 R"],
    lava: Bool[Tensor, " R"],
    progress: Progress,
    handling: Handling,
    close: Bool[Tensor, " R"],
) -> Course:
    """Return the throttle: reduced when backing off or near lava on the route, 0 at lava off the route."""
    on_route = (progress.detour == 0.0) & ~close
    throttle = torch.where(lava, handling.caution * on_route, torch.where(close, BACK_OFF_THROTTLE, 1.0))
    return Course(direction * throttle, handling.jets * (progress.stalled > JUMP_AFTER))


def _handling(mech: MechClass) -> Sequence[float]:
    """Return the fields of Handling."""
    per_decision = mech.max_speed * DECISION_S
    return (
        STANDOFFS[mech.name],
        float(mech.jet_acceleration > 0.0),
        min(1.0, 0.5 * LOCAL_MAP_PITCH / per_decision),
        1.0 / (mech.max_yaw_rate * DECISION_S),
    )


_HANDLING: Float[Tensor, "fields classes"] = (
    torch.tensor([_handling(mech) for mech in CLASSES.values()]).t().contiguous()
)
"""Table with a column per class."""
