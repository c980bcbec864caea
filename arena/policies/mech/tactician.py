"""Plays scripted tactics, each row of a batch its own."""

from collections.abc import Sequence
from dataclasses import fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.mech.config.constants import DECISION_S, MOVES, NEAREST_CONE_RAD
from arena.environments.mech.config.scenario import MechConfig
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.observation_spec import (
    CONDITION_FEATURES,
    CONTACT_FEATURES,
    MOTION_FEATURES,
    SCORE_FEATURES,
    SPEED_SCALE,
    make_spec,
)
from arena.policies.mech.aiming import ORDER, Armament, HeatLimits, Target, TriggerNumbers, find_target, pull_triggers
from arena.policies.mech.commands import jam_while_cool, move_and_turn, restrain, silence
from arena.policies.mech.driving import BLANK, Course, Progress, drive, handling, note_progress, steer
from arena.policies.mech.perception import Percept, Reader, length
from arena.policies.mech.tactics import FAR, Tactic, as_rows
from arena.policies.protocol import State

SLACK = 0.5
"""Metres by which the distance to the target may be off."""

WAITING_ROOM = 8.0
"""Distance to the zone's edge at which a tactic waits."""

GUN = ORDER.index("tertiary")
"""The trigger on which all classes carry their guns."""

TERTIARY, SPECIAL = TRIGGERS.index("tertiary"), TRIGGERS.index("special")


class Tactics:
    """Parameters of R rows by name, as floats; flags are 0 or 1."""

    def __init__(self, rows: Float[Tensor, "R fields"]) -> None:
        self._columns = {field.name: rows[:, index] for index, field in enumerate(fields(Tactic))}

    def number(self, name: str) -> Float[Tensor, " R"]:
        """Return a parameter of every row."""
        return self._columns[name]

    def flag(self, name: str) -> Bool[Tensor, " R"]:
        """Return a flag of every row."""
        return self._columns[name] > 0.5


class Tactician:
    """Plays one tactic in every match of a batch.

    Args:
        config: The composition.
        tactics: Tactic of every match in which the policy plays, in their order.
        draws: Whether each mech draws one of the tactics at random at the start of a match instead.
        fire_probability: Probability that the triggers of a decision are pulled.
    """

    def __init__(
        self, config: MechConfig, tactics: Sequence[Tactic], *, draws: bool = False, fire_probability: float = 1.0
    ) -> None:
        self._reader, self._armament = Reader(config), Armament(config)
        self._tactics, self._team, self._draws = as_rows(tactics), len(config.team), draws
        self._fire_probability = fire_probability
        self._limit_s = config.max_decisions * DECISION_S
        layout = make_spec(config).layout
        self._hp = layout["condition"].start + CONDITION_FEATURES.index("hp")
        self._time = layout["score"].start + SCORE_FEATURES.index("time")
        self._velocity = layout["motion"].start + MOTION_FEATURES.index("velocity_ahead")
        self._contact_velocity = layout["contacts"].start + CONTACT_FEATURES.index("velocity_ahead")

    def initial_state(self, rows: int) -> State:
        """Return the progress, the strafing direction and the index of the tactic of every row."""
        index = torch.zeros(rows, dtype=torch.int64) if self._draws else torch.arange(rows) // self._team
        return BLANK.expand(rows, -1).clone(), torch.ones(rows), index

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Follow the tactics (see `Policy.act`)."""
        values = observation.values
        senses = self._reader.read(values)
        target, on = find_target(senses), self._armament.numbers(senses)
        memory, side, index = (part.to(values.device) for part in state)
        index = self._draw(index, episode_start, rng)
        own = Tactics(self._tactics.to(values.device)[index])
        memory = torch.where(episode_start.unsqueeze(-1), BLANK.to(values.device), memory)
        side = _strafing_side(own, side, episode_start, rng)
        mobile = observation.masks["move"][:, MOVES.index("forward")]
        progress = note_progress(Progress(*memory.unbind(dim=-1)), senses, mobile & ~target.visible)
        lead = self._lead(values, target, on.speed[GUN])
        faced = torch.where(target.known, torch.where(own.flag("leads"), lead, target.way), senses.route)
        pulled = _fire(own, on, senses, target, lead, observation.masks["trigger"])
        actions = {
            "move": move_and_turn(self._drive(own, values, senses, target, progress, side), faced, handling(senses)),
            "trigger": restrain(pulled, self._fire_probability, rng),
            "target": (target.slot + 1) * (own.flag("focuses") & ~own.flag("leads")),
            **silence(observation),
        }
        if "ewar" in observation.masks:
            actions["ewar"] = jam_while_cool(senses, observation.masks["ewar"]) * own.flag("jams")
        if "build" in observation.masks:
            actions["build"] = own.number("build").long()
        kept = observation.active.unsqueeze(-1)
        new_memory = torch.where(kept, torch.stack(progress, dim=-1), memory)
        return actions, (new_memory, side, index)

    def _draw(self, index: Int[Tensor, " R"], starts: Bool[Tensor, " R"], rng: torch.Generator) -> Int[Tensor, " R"]:
        """Return the index of every row's tactic; with `draws`, a new one at the start."""
        if not self._draws:
            return index
        drawn = torch.randint(len(self._tactics), index.shape, generator=rng, device=index.device)
        return torch.where(starts, drawn, index)

    def _drive(
        self,
        own: Tactics,
        values: Float[Tensor, "R D"],
        senses: Percept,
        target: Target,
        progress: Progress,
        side: Float[Tensor, " R"],
    ) -> Course:
        to_target = target.way / target.distance.clamp(min=1e-6)
        retreating = target.known & (values[:, self._hp] < own.number("retreats_below"))
        distance = _distance(own, senses, target)
        too_far = target.distance > distance + SLACK
        too_close = target.visible & (target.distance < distance - SLACK)
        hunting = own.flag("hunts") & target.known
        to_zone = steer(senses, target, progress, torch.zeros_like(retreating))
        early = values[:, self._time] * self._limit_s < own.number("wait_s")
        to_zone = to_zone * ~(early & (senses.remaining < WAITING_ROOM))
        radial = torch.where(hunting, to_target * too_far, to_zone)
        radial = torch.where(too_close | retreating, -to_target, radial)
        across = torch.stack([-to_target[1], to_target[0]]) * side * own.number("strafe")
        direction = radial + across * target.visible
        direction = direction / length(direction).clamp(min=1.0)
        lava = self._reader.lava_towards(values, direction)
        return drive(direction, lava, progress, handling(senses), torch.zeros_like(retreating))

    def _lead(self, values: Float[Tensor, "R D"], target: Target, speed: Float[Tensor, " R"]) -> Float[Tensor, "2 R"]:
        """Return the vector to the place where a shell fired now would meet the target."""
        column = self._contact_velocity + target.slot.clamp(min=0) * len(CONTACT_FEATURES)
        relative = torch.stack([values.gather(1, (column + axis).unsqueeze(-1))[:, 0] for axis in (0, 1)])
        own = values[:, self._velocity : self._velocity + 2].t()
        flight = target.distance / speed.clamp(min=1e-6) * (speed > 0.0)
        # The heading arrives there at the end of the decision: the mean shot is fired half a decision later.
        ahead_s = flight + 0.5 * DECISION_S
        return target.way + ((relative + own) * ahead_s - own * 0.5 * DECISION_S) * SPEED_SCALE * target.known


def _strafing_side(
    own: Tactics, side: Float[Tensor, " R"], starts: Bool[Tensor, " R"], rng: torch.Generator
) -> Float[Tensor, " R"]:
    """Draw the direction at the start, and change it at random after that."""
    first, chance = torch.rand(2, len(side), generator=rng, device=side.device).unbind()
    turned = torch.where(chance < DECISION_S / own.number("weave_s"), -side, side)
    return torch.where(starts, torch.where(first < 0.5, 1.0, -1.0), turned)


def _distance(own: Tactics, senses: Percept, target: Target) -> Float[Tensor, " R"]:
    """Return the distance to the target to keep, which can depend on its build."""
    distance = own.number("distance")
    for build, known in enumerate(senses.builds.unbind(dim=1)):
        shown = known.gather(0, target.slot.clamp(min=0).unsqueeze(0))[0] & target.known
        distance = distance.masked_fill(shown & (own.number("closes_on") == build), 0.0)
        distance = distance.masked_fill(shown & (own.number("avoids") == build), FAR)
    return distance


def _fire(
    own: Tactics,
    on: TriggerNumbers,
    senses: Percept,
    target: Target,
    lead: Float[Tensor, "2 R"],
    mask: Bool[Tensor, "R triggers"],
) -> Bool[Tensor, "R triggers"]:
    limit = own.number("heat_limit")
    for name in ("primary", "secondary", "tertiary"):
        used = torch.ones_like(mask)
        used[:, TRIGGERS.index(name)] = own.flag(name)
        mask = mask & used
    pulled = pull_triggers(on, senses, target, mask, HeatLimits(limit, own.number("vent_above")))
    aligned = torch.atan2(lead[1], lead[0]).abs() < NEAREST_CONE_RAD
    ahead = mask[:, TERTIARY] & target.visible & aligned & (target.distance <= on.range[GUN])
    ahead = ahead & (senses.heat + on.heat_share[GUN] <= limit)
    pulled[:, TERTIARY] = torch.where(own.flag("leads") & (on.speed[GUN] > 0.0), ahead, pulled[:, TERTIARY])
    close = target.visible & (target.distance < own.number("smoke_within"))
    pulled[:, SPECIAL] = mask[:, SPECIAL] & close & (senses.heat < limit)
    return pulled
