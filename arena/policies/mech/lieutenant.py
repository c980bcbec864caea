"""Scripted players of the mech arena, with the same observations as any policy."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.mech.config.constants import COMM_SIZE, EWAR_OPTIONS, MOVES
from arena.environments.mech.config.scenario import PRESETS, MechConfig
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.observation_spec import make_spec
from arena.errors import UnknownPolicyError
from arena.policies.mech.aiming import find_target, pull_triggers
from arena.policies.mech.driving import (
    BLANK,
    Course,
    Handling,
    Progress,
    drive,
    handling,
    note_progress,
    steer,
)
from arena.policies.mech.perception import Percept, Reader
from arena.policies.protocol import Policy, State
from arena.policies.scripted import RandomPolicy

ECM_BELOW = 0.7
"""Heat share up to which a lieutenant uses ECM; above it ECCM, which produces less heat."""

HALF = 0.5
"""Fire probability of `lieutenant-half`."""


class Turret:
    """Does not move, turns to the nearest known enemy, and fires weapons that can hit."""

    def __init__(self, config: MechConfig) -> None:
        self._reader = Reader(config)

    def initial_state(self, rows: int) -> State:
        """Return the empty state."""
        return ()

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Follow the script (see `Policy.act`)."""
        senses = self._reader.read(observation.values)
        target = find_target(senses)
        course = Course(torch.zeros_like(senses.zone), torch.zeros_like(senses.heat))
        actions = {
            "move": move_and_turn(course, target.way, handling(senses)),
            "trigger": pull_triggers(senses, target, observation.masks["trigger"]),
            "target": target.slot + 1,
            **silence(observation),
        }
        return actions, state


class Lieutenant:
    """Moves to the zone, faces the nearest enemy at a distance, vents when hot, and fires weapons that can hit.

    Scouts use ECM while they are cool. Smoke is not used. With a fire probability of 1 it is deterministic.
    """

    def __init__(self, config: MechConfig, *, fire_probability: float) -> None:
        self._reader = Reader(config)
        self._fire_probability = fire_probability

    def initial_state(self, rows: int) -> State:
        """Return the initial progress of every row."""
        return (BLANK.expand(rows, -1).clone(),)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Follow the script (see `Policy.act`)."""
        values = observation.values
        senses = self._reader.read(values)
        target, handles = find_target(senses), handling(senses)
        close = target.visible & (target.distance < handles.standoff)
        memory = torch.where(episode_start.unsqueeze(-1), BLANK.to(values.device), state[0].to(values.device))
        mobile = observation.masks["move"][:, MOVES.index("forward")]
        progress = note_progress(Progress(*memory.unbind(dim=-1)), senses, mobile & ~close)
        direction = steer(senses, target, progress, close)
        lava = self._reader.lava_towards(values, direction)
        faced = torch.where(target.known, target.way, torch.where(senses.in_zone, senses.zone, senses.route))
        actions = {
            "move": move_and_turn(drive(direction, lava, progress, handles, close), faced, handles),
            "trigger": self._restrain(pull_triggers(senses, target, observation.masks["trigger"]), rng),
            "target": target.slot + 1,
            **silence(observation),
        }
        if "ewar" in observation.masks:
            actions["ewar"] = jam_while_cool(senses, observation.masks["ewar"])
        new_memory = torch.where(observation.active.unsqueeze(-1), torch.stack(progress, dim=-1), memory)
        return actions, (new_memory,)

    def _restrain(self, trigger: Bool[Tensor, "R triggers"], rng: torch.Generator) -> Bool[Tensor, "R triggers"]:
        """Drop triggers at random according to the fire probability, except venting."""
        if self._fire_probability >= 1.0:
            return trigger
        heeded = torch.rand(len(trigger), 1, generator=rng, device=trigger.device) < self._fire_probability
        vent = torch.tensor([name == "vent" for name in TRIGGERS], device=trigger.device)
        return trigger & (heeded | vent)


def make_baseline(environment: str, baseline: str) -> Policy:
    """Return the scripted player `baseline` of a preset."""
    return make_player(PRESETS[environment], baseline)


def make_player(config: MechConfig, baseline: str) -> Policy:
    """Return the scripted player `baseline` of any composition.

    Raises:
        UnknownPolicyError: There is no such baseline.
    """
    if baseline not in _PLAYERS:
        raise UnknownPolicyError(f"unknown baseline {baseline!r} of {config.name}: choose one of {', '.join(_PLAYERS)}")
    return _PLAYERS[baseline](config)


_PLAYERS: Mapping[str, Callable[[MechConfig], Policy]] = {
    "random": lambda config: RandomPolicy(make_spec(config).heads),
    "lieutenant": lambda config: Lieutenant(config, fire_probability=1.0),
    "lieutenant-half": lambda config: Lieutenant(config, fire_probability=HALF),
    "turret": Turret,
}


def move_and_turn(course: Course, faced: Float[Tensor, "2 R"], handles: Handling) -> Float[Tensor, "R moves"]:
    """Return the head `move`, in the order of MOVES: follow the course and turn to the direction `faced`."""
    angle = torch.atan2(faced[1], faced[0])
    return torch.stack([*course.throttle, course.lift, (angle * handles.turn).clamp(-1.0, 1.0)], dim=-1)


def jam_while_cool(senses: Percept, mask: Bool[Tensor, "R options"]) -> Int[Tensor, " R"]:
    """Return the head `ewar`: ECM while cool, else ECCM."""
    ecm, eccm = (EWAR_OPTIONS.index(name) for name in ("ecm", "eccm"))
    return torch.where(senses.heat < ECM_BELOW, ecm, eccm).masked_fill(~mask[:, ecm], 0)


def silence(observation: Observation) -> Actions:
    """Return neutral actions of unused heads: no message and no jamming."""
    rows, device = len(observation.active), observation.active.device
    nothing: Actions = {
        "ewar": torch.zeros(rows, dtype=torch.int64, device=device),
        "comm": torch.zeros(rows, COMM_SIZE, device=device),
    }
    return {name: action for name, action in nothing.items() if name in observation.masks}
