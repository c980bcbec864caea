"""Action heads of scripted players: movement, electronic warfare, and neutral values of heads that they do not use."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.mech.config.constants import COMM_SIZE, EWAR_OPTIONS
from arena.environments.mech.config.weapons import TRIGGERS
from arena.policies.mech.driving import Course, Handling
from arena.policies.mech.perception import Percept

ECM_BELOW = 0.7
"""Heat share up to which scripted players use ECM; above it ECCM, which produces less heat."""


def move_and_turn(course: Course, faced: Float[Tensor, "2 R"], handles: Handling) -> Float[Tensor, "R moves"]:
    """Return the head `move`, in the order of MOVES: follow the course and turn to the direction `faced`."""
    angle = torch.atan2(faced[1], faced[0])
    return torch.stack([*course.throttle, course.lift, (angle * handles.turn).clamp(-1.0, 1.0)], dim=-1)


def restrain(
    trigger: Bool[Tensor, "R triggers"], fire_probability: float, rng: torch.Generator
) -> Bool[Tensor, "R triggers"]:
    """Drop triggers at random according to the fire probability, except venting."""
    if fire_probability >= 1.0:
        return trigger
    heeded = torch.rand(len(trigger), 1, generator=rng, device=trigger.device) < fire_probability
    vent = torch.tensor([name == "vent" for name in TRIGGERS], device=trigger.device)
    return trigger & (heeded | vent)


def jam_while_cool(senses: Percept, mask: Bool[Tensor, "R options"]) -> Int[Tensor, " R"]:
    """Return the head `ewar`: ECM while cool, else ECCM."""
    ecm, eccm = (EWAR_OPTIONS.index(name) for name in ("ecm", "eccm"))
    return torch.where(senses.heat < ECM_BELOW, ecm, eccm).masked_fill(~mask[:, ecm], 0)


def silence(observation: Observation) -> Actions:
    """Return neutral actions of unused heads: no message, no jamming and the first build."""
    rows, device = len(observation.active), observation.active.device
    nothing: Actions = {
        "ewar": torch.zeros(rows, dtype=torch.int64, device=device),
        "build": torch.zeros(rows, dtype=torch.int64, device=device),
        "comm": torch.zeros(rows, COMM_SIZE, device=device),
    }
    return {name: action for name, action in nothing.items() if name in observation.masks}
