"""Scripted players of the mech arena. They see what every policy sees."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.mech.rules import (
    AUTOCANNON,
    CONTACT_FEATURES,
    DECISION_S,
    LASER,
    MOVES,
    PRESETS,
    TRIGGERS,
    MechConfig,
    make_spec,
)
from arena.environments.protocol import Actions, Observation
from arena.policies.protocol import State
from arena.policies.scripted import RandomPolicy

STANDOFF = 5.5
"""Distance to the enemy below which a lieutenant backs off."""

BACK_OFF_THROTTLE = 0.3
VENT_ABOVE = 0.75
HOLD_SHARE = 0.5
"""Share of the zone's radius within which a lieutenant stops."""


class Lieutenant:
    """Goes to the zone, faces the nearest enemy and keeps it at a distance, vents when hot, fires when it can hit.

    It knows no fear: it fires on until it shuts down. Its actions follow from the observation alone.
    """

    def __init__(self, config: MechConfig) -> None:
        spec = make_spec(config)
        self._layout = spec.layout
        self._side = config.map_side
        self._diagonal = config.map_side * math.sqrt(2.0)
        self._max_yaw_rate = max(mech.max_yaw_rate for mech in config.team)
        self._hit_radius = min(mech.hit_radius for mech in config.team)

    def initial_state(self, rows: int) -> State:
        """Nothing."""
        return ()

    def act(
        self,
        observation: Observation,
        state: State,
        episode_start: Bool[Tensor, " R"],
        rng: torch.Generator,
    ) -> tuple[Actions, State]:
        """Follow the script; see `Policy.act`."""
        values = observation.values
        contact = values[:, self._layout["contacts"]][:, : len(CONTACT_FEATURES)]
        seen = contact[:, CONTACT_FEATURES.index("present")] > 0.0
        ahead, left = CONTACT_FEATURES.index("ahead"), CONTACT_FEATURES.index("left")
        enemy = torch.stack([contact[:, ahead], contact[:, left]], dim=-1) * self._diagonal
        zone = values[:, self._layout["zone"]] * self._side
        heat = values[:, self._layout["heat"]].squeeze(-1)
        actions = {
            "move": self._move(enemy, seen, zone[:, :2], zone[:, 2]),
            "trigger": self._trigger(enemy, seen, heat) & observation.masks["trigger"],
        }
        return actions, state

    def _move(
        self, enemy: Float[Tensor, "R 2"], seen: Bool[Tensor, " R"], zone: Float[Tensor, "R 2"], radius: Tensor
    ) -> Float[Tensor, "R 4"]:
        outside = zone.norm(dim=-1) > HOLD_SHARE * radius
        close = seen & (enemy.norm(dim=-1) < STANDOFF)
        advance = _direction(zone) * outside.unsqueeze(-1)
        throttle = torch.where(close.unsqueeze(-1), -BACK_OFF_THROTTLE * _direction(enemy), advance)
        faced = torch.where(seen.unsqueeze(-1), enemy, zone)
        angle = torch.atan2(faced[:, 1], faced[:, 0])
        move = torch.zeros(len(enemy), len(MOVES), device=enemy.device)
        move[:, MOVES.index("forward")] = throttle[:, 0]
        move[:, MOVES.index("strafe")] = throttle[:, 1]
        move[:, MOVES.index("yaw_rate")] = (angle / (self._max_yaw_rate * DECISION_S)).clamp(-1.0, 1.0)
        return move

    def _trigger(
        self, enemy: Float[Tensor, "R 2"], seen: Bool[Tensor, " R"], heat: Float[Tensor, " R"]
    ) -> Bool[Tensor, "R 5"]:
        distance = enemy.norm(dim=-1)
        angle = torch.atan2(enemy[:, 1], enemy[:, 0]).abs()
        in_line = (enemy[:, 0] > 0.0) & (enemy[:, 1].abs() <= self._hit_radius)
        trigger = torch.zeros(len(enemy), len(TRIGGERS), dtype=torch.bool, device=enemy.device)
        trigger[:, TRIGGERS.index("primary")] = seen & (distance <= LASER.range) & (angle <= LASER.half_arc_rad)
        trigger[:, TRIGGERS.index("tertiary")] = seen & (distance <= AUTOCANNON.range) & in_line
        trigger[:, TRIGGERS.index("vent")] = heat > VENT_ABOVE
        return trigger


def make_baseline(environment: str, baseline: str) -> Lieutenant | RandomPolicy:
    """The scripted player `baseline` of a preset."""
    config = PRESETS[environment]
    return Lieutenant(config) if baseline == "lieutenant" else RandomPolicy(make_spec(config).heads)


def _direction(vector: Float[Tensor, "R 2"]) -> Float[Tensor, "R 2"]:
    """Unit vectors; zero where the vector is."""
    return torch.nn.functional.normalize(vector, dim=-1)
