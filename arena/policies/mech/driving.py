"""How scripted players move: to the zone on foot, off from whoever is too close, out of where they are stuck."""

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
"""Distance to the target below which each class backs off: within a light's flamer; a heavy holds its ground."""

BACK_OFF_THROTTLE = 0.3

STOP_SHARE, STOP_SHARE_ALONE = 0.5, 0.2
"""Share of the zone's radius within which a lieutenant stops: with an enemy that it knows of, and without, to make
room for those who come later."""

LEAST_GAIN = 0.2
"""Metres of its way to the zone that a lieutenant must gain on its best so far to get on."""

JUMP_AFTER = 2
"""Decisions without a gain after which jump jets help."""

STUCK_AFTER = 10
"""Decisions without a gain after which a lieutenant takes a detour."""

REVERSE, STRAFE = round(1.0 / DECISION_S), round(1.0 / DECISION_S)
"""Decisions of the detour's two parts."""


class Progress(NamedTuple):
    """What a lieutenant remembers of R mechs; counts are floats, so that one tensor holds it all.

    Attributes:
        least: Metres to the zone that were left when it last gained.
        stalled: Decisions since then.
        detour: Decisions that its detour still takes.
        side: 1 if its latest detour went to the left, -1 if to the right.
    """

    least: Float[Tensor, " R"]
    stalled: Float[Tensor, " R"]
    detour: Float[Tensor, " R"]
    side: Float[Tensor, " R"]


BLANK: Float[Tensor, " fields"] = torch.tensor([math.inf, 0.0, 0.0, -1.0])
"""Progress of a mech that has seen nothing."""


class Handling(NamedTuple):
    """How R mechs handle, by their class.

    Attributes:
        standoff: Distance to the target below which it backs off.
        jets: 1 if it has jump jets.
        caution: Throttle at which a decision takes it half a point of the local map ahead.
        turn: Yaw rate that turns it by one radian in a decision, as a share of its highest.
    """

    standoff: Float[Tensor, " R"]
    jets: Float[Tensor, " R"]
    caution: Float[Tensor, " R"]
    turn: Float[Tensor, " R"]


class Course(NamedTuple):
    """Where R mechs go: throttle (ahead, left), and how hard their jump jets push."""

    throttle: Float[Tensor, "2 R"]
    lift: Float[Tensor, " R"]


def handling(senses: Percept) -> Handling:
    """Look up how everybody handles."""
    return Handling(*senses.by_class(_HANDLING).unbind())


def note_progress(before: Progress, senses: Percept, travelling: Bool[Tensor, " R"]) -> Progress:
    """Count for how long mechs outside the zone have not got on, and begin or go on with detours.

    Args:
        before: What was remembered.
        senses: What they perceive.
        travelling: Who can move and has nothing else to do.
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
    """Direction to go in: away from who is too close, else to the zone; 0 for those who have arrived."""
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
    """Go that way: gently when backing off, with care where the route passes lava, and not at all where it does not."""
    on_route = (progress.detour == 0.0) & ~close
    throttle = torch.where(lava, handling.caution * on_route, torch.where(close, BACK_OFF_THROTTLE, 1.0))
    return Course(direction * throttle, handling.jets * (progress.stalled > JUMP_AFTER))


def _handling(mech: MechClass) -> Sequence[float]:
    """The fields of Handling."""
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
"""A column for every class."""
