"""A shooting range: mechs where a test puts them, and the orders that they get."""

import math
from collections.abc import Mapping, Sequence

import torch

from arena.environments.base import Actions, StepResult
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import MechConfig, Terrain
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.kernels.combat.targeting import AUTOCANNON, FLAMER, GAUSS, LASER, MISSILE

EAST, NORTH, WEST, SOUTH = 0.0, 90.0, 180.0, -90.0
NAMES = {LASER: "laser", FLAMER: "flamer", MISSILE: "missile", GAUSS: "gauss", AUTOCANNON: "autocannon"}
Place = tuple[float, float, float]
"""x, y and heading in degrees."""


def set_up(
    packs: Sequence[Sequence[str]],
    places: Mapping[int, Place],
    *,
    terrain: Terrain = Terrain.OPEN,
    num_envs: int = 1,
    lacking: Sequence[int] = (),
    **arrays: Mapping[int, float],
) -> MechEnvironment:
    """Matches with mechs placed by hand on flat ground; whoever has no place stands in its side's far corner.

    Args:
        lacking: Weapons that nobody carries.
        arrays: What else to set, by name and mech.
    """
    config = MechConfig("flattened", tuple(map(tuple, packs)), map_side=160, limit_s=60.0, terrain=terrain)
    env = MechEnvironment(config, RewardWeights(), num_envs=num_envs, device="cpu", seed=0)
    flatten(env)
    env.reset(torch.arange(num_envs))
    for i in range(env.spec.num_agents):
        side = 1 if env.hulls["side"][i] else -1
        x, y, heading = places.get(
            i, (70.0 * side, (70.0 - 6 * int(env.hulls["slot_in_team"][i])) * side, 90.0 - 90.0 * side)
        )
        env.arrays["position"][:, i] = torch.tensor([x, y, 0.0])
        env.arrays["heading"][:, i] = unit(heading)
    for name, values in arrays.items():
        for i, value in values.items():
            env.arrays[name][:, i] = value
    env.arrays["sight"].fill_(3)
    env.hulls["trigger"][:, list(lacking)] = -1
    env.hulls["dissipation"].fill_(0.0)
    return env


def flatten(env: MechEnvironment) -> None:
    """Level the maps: what stands on them is then put there by the test."""
    for name in ("solid", "sight", "material", "ground"):
        env._structs.terrain[name].fill_(0)
    env._structs.terrain["highest"].fill_(9.0)


def build_wall(env: MechEnvironment, column: int, height: int) -> None:
    """A wall right across the maps, from south to north, at x from column to column + 1."""
    env._structs.terrain["solid"][:, :, 80 + column] = height


def unit(degrees: float) -> torch.Tensor:
    return torch.tensor([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])


def polar(distance: float, degrees: float, heading: float) -> Place:
    x, y = (distance * unit(degrees)).tolist()
    return x, y, heading


def order(
    env: MechEnvironment, triggers: Mapping[int, Sequence[str]], focus: Mapping[int, int] | None = None
) -> Actions:
    """Actions of everybody: who pulls which triggers, and who wants to hit whom; nobody moves."""
    actions = {}
    for head in env.spec.heads:
        shape = (env.num_envs, env.spec.num_agents)
        kinds = {"trigger": torch.bool, "target": torch.int64, "ewar": torch.int64}
        size = (head.size,) if head.name in ("move", "trigger", "comm") else ()
        actions[head.name] = torch.zeros(*shape, *size, dtype=kinds.get(head.name, torch.float32))
    for i, names in triggers.items():
        for name in names:
            actions["trigger"][:, i, TRIGGERS.index(name)] = True
    for i, j in (focus or {}).items():
        env.arrays["contact"][:, i, 0] = j
        actions["target"][:, i] = 1
    return actions


def play(
    env: MechEnvironment,
    triggers: Mapping[int, Sequence[str]],
    focus: Mapping[int, int] | None = None,
    decisions: int = 1,
) -> StepResult:
    for _ in range(decisions):
        result = env.step(order(env, triggers, focus))
    return result


def of(env: MechEnvironment, name: str, *index: int) -> float:
    return env.arrays[name][(0, *index)].item()


def rows(env: MechEnvironment, name: str) -> list:
    return env.arrays[name][0].tolist()


def hp(env: MechEnvironment) -> list[float]:
    return rows(env, "hp")


def shell_at(
    env: MechEnvironment, owner: int, slot: int, kind: int, place: Sequence[float], velocity: Sequence[float]
) -> None:
    """A shell in the air; if it is a missile its mark is the last enemy, who is dead: it flies straight on."""
    env.arrays["shell_position"][:, owner, slot] = torch.tensor(place)
    env.arrays["shell_velocity"][:, owner, slot] = torch.tensor(velocity)
    env.arrays["shell_reach"][:, owner, slot] = 50.0
    env.arrays["shell_weapon"][:, owner, slot] = kind
    if kind == MISSILE:
        mark = env.spec.num_agents - 1 if owner < env.spec.num_agents // 2 else env.spec.num_agents // 2 - 1
        env.arrays["shell_target"][:, owner, slot] = mark
        env.arrays["hp"][:, mark] = 0.0
