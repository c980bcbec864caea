"""Scripted players of the mech arena, with the same observations as any policy."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.mech.config.constants import MOVES
from arena.environments.mech.config.rules import STANDARD_RULES
from arena.environments.mech.config.scenario import PRESETS, MechConfig
from arena.environments.mech.observation_spec import make_spec
from arena.errors import UnknownPolicyError
from arena.policies.mech.aiming import Armament, find_target, pull_triggers
from arena.policies.mech.commands import jam_while_cool, move_and_turn, restrain, silence
from arena.policies.mech.driving import BLANK, Course, Progress, drive, handling, note_progress, steer
from arena.policies.mech.perception import Reader
from arena.policies.mech.tactician import Tactician
from arena.policies.mech.tactics import weavers
from arena.policies.protocol import Policy, State
from arena.policies.scripted import RandomPolicy

HALF = 0.5
"""Fire probability of `lieutenant-half`."""


class Turret:
    """Does not move, turns to the nearest known enemy, and fires weapons that can hit."""

    def __init__(self, config: MechConfig) -> None:
        self._reader, self._armament = Reader(config), Armament(config)

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
            "trigger": pull_triggers(self._armament.numbers(senses), senses, target, observation.masks["trigger"]),
            "target": target.slot + 1,
            **silence(observation),
        }
        return actions, state


class Lieutenant:
    """Moves to the zone, faces the nearest enemy at a distance, vents when hot, and fires weapons that can hit.

    Scouts use ECM while they are cool. Smoke is not used. With a fire probability of 1 it is deterministic.
    """

    def __init__(self, config: MechConfig, *, fire_probability: float) -> None:
        self._reader, self._armament = Reader(config), Armament(config)
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
        pulled = pull_triggers(self._armament.numbers(senses), senses, target, observation.masks["trigger"])
        actions = {
            "move": move_and_turn(drive(direction, lava, progress, handles, close), faced, handles),
            "trigger": restrain(pulled, self._fire_probability, rng),
            "target": target.slot + 1,
            **silence(observation),
        }
        if "ewar" in observation.masks:
            actions["ewar"] = jam_while_cool(senses, observation.masks["ewar"])
        new_memory = torch.where(observation.active.unsqueeze(-1), torch.stack(progress, dim=-1), memory)
        return actions, (new_memory,)


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


def _make_lieutenant(config: MechConfig, fire_probability: float) -> Policy:
    """Return the lieutenant that suits the rules: the standard one stands still, which other rules punish."""
    if config.rules == STANDARD_RULES:
        return Lieutenant(config, fire_probability=fire_probability)
    return Tactician(config, weavers(config), draws=True, fire_probability=fire_probability)


_PLAYERS: Mapping[str, Callable[[MechConfig], Policy]] = {
    "random": lambda config: RandomPolicy(make_spec(config).heads),
    "lieutenant": lambda config: _make_lieutenant(config, 1.0),
    "lieutenant-half": lambda config: _make_lieutenant(config, HALF),
    "turret": Turret,
}
