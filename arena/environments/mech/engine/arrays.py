"""The arrays of a batch of matches: torch tensors, and the Warp structs that share their memory."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import COMM_SIZE, MOVES, SMOKE_SLOTS
from arena.environments.mech.config.rewards import COMPONENTS, RewardWeights
from arena.environments.mech.config.scenario import MechConfig, ObservationMode
from arena.environments.mech.config.scenario import Terrain as Ground
from arena.environments.mech.config.weapons import MISSILE, SHELL_SLOTS, SMOKE, TIMERS, TRIGGERS, WEAPONS
from arena.environments.mech.kernels import wp
from arena.environments.mech.kernels.state import (
    COVER_CELLS,
    Arms,
    Commands,
    Field,
    Hulls,
    Report,
    State,
    Terrain,
    View,
)
from arena.environments.mech.maps.pool import MapPool
from arena.environments.mech.observation_spec import CONTACT_FEATURES
from arena.environments.spec import SIDES, EnvironmentSpec

TORCH_TYPES: Mapping[Any, torch.dtype] = {
    wp.float32: torch.float32,
    wp.float64: torch.float64,
    wp.int32: torch.int32,
    wp.int64: torch.int64,
    wp.uint8: torch.uint8,
    wp.bool: torch.bool,
    wp.vec2: torch.float32,
    wp.vec3: torch.float32,
}
VECTOR_SIZES: Mapping[Any, int] = {wp.vec2: 2, wp.vec3: 3}


class Struct:
    """A Warp struct and the torch tensors behind its arrays, by the same names."""

    def __init__(self, kind: Any, tensors: Mapping[str, Tensor], **scalars: float) -> None:  # noqa: ANN401  a Warp type
        self.tensors = dict(tensors)
        self.warp = kind()
        for name, tensor in tensors.items():
            setattr(self.warp, name, wp.from_torch(tensor, dtype=array_types(kind)[name].dtype))
        for name, value in scalars.items():
            setattr(self.warp, name, value)

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def point_at(self, tensors: Mapping[str, Tensor]) -> None:
        """Put other tensors of the same shapes and types behind the arrays: cheaper than a new struct."""
        # Past Warp's attributes, which would wrap and check each tensor again.
        arrays = self.warp.__ctype__()
        for name, tensor in tensors.items():
            getattr(arrays, name).data = tensor.data_ptr()
        self.tensors = dict(tensors)

    @property
    def size_bytes(self) -> int:
        """Memory of the arrays."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


def array_types(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401  a Warp struct
    """Element type and number of axes of every array of a struct."""
    return {name: variable.type for name, variable in kind.vars.items() if hasattr(variable.type, "dtype")}


def allocate_state(shared: Mapping[str, Tensor], config: MechConfig, num_envs: int, device: torch.device) -> Struct:
    """Allocate the state of a batch, zero except for the shared arrays; most arrays are (E,), (E, N) or (E, N, N)."""
    agents = SIDES * len(config.team)
    shells, clouds, weapons = (agents, SHELL_SLOTS), (SIDES, SMOKE_SLOTS), (agents, len(WEAPONS))
    axes = {
        "zone_s": (SIDES,),
        "zone_tick": (SIDES,),
        "smoke_centre": clouds,
        "smoke_left": clouds,
        "smoke_count": (SIDES,),
        "fire_probability": (SIDES,),
        "timers": (agents, len(TIMERS)),
        "comm": (agents, COMM_SIZE),
        "shot": weapons,
        "raw_damage": weapons,
        "hitscan_hits": weapons,
        "contact": (agents, config.contacts),
        "public_features": (agents, len(CONTACT_FEATURES)),
        "shell_position": shells,
        "shell_velocity": shells,
        "shell_reach": shells,
        "shell_weapon": shells,
        "shell_target": shells,
    }
    tensors = dict(shared)
    for name, array in array_types(State).items():
        if name not in tensors:
            shape = (num_envs, *axes.get(name, (agents,) * (array.ndim - 1)))
            tensors[name] = _zeros(shape, array.dtype, device)
    return Struct(State, tensors)


def describe_hulls(config: MechConfig, footprints: tuple[int, ...], device: torch.device) -> Struct:
    """Constant rows of the N mechs, home first."""
    team = config.team * SIDES
    size, packs, kinds = len(config.team), len(config.packs), list(CLASSES)
    columns: dict[str, list[Any]] = {
        "side": [index // size for index in range(len(team))],
        "slot_in_team": [index % size for index in range(len(team))],
        "pack": [pack + packs * side for side in range(SIDES) for pack in config.pack_of],
        "rng_id": list(range(len(team))),
        "chassis": [kinds.index(mech.name) for mech in team],
        "ground": [footprints.index(mech.footprint) for mech in team],
        "slots": [mech.suite.slots for mech in team],
        "range_factor": [mech.suite.range_factor for mech in team],
        "fidelity": [mech.suite.fidelity for mech in team],
        "missiles": [MISSILE.name in config.weapons_of(mech.name) for mech in team],
    }
    # Rows of all mechs with their first build, then with their second one, and so on.
    for build in range(config.builds):
        for mech in team:
            loadout, built = config.loadout(mech.name, build), config.with_build(mech, build)
            rows = {
                "longest_wait": _longest_waits(config, loadout),
                "trigger": _weapon_triggers(loadout),
                "carried": _carried_weapons(loadout),
                **{name: getattr(built, name) for name in ("hp", "leg_hp", "max_speed")},
            }
            for name, row in rows.items():
                columns.setdefault(name, []).append(row)
    types = array_types(Hulls)
    for name in types.keys() - columns.keys():
        columns[name] = [getattr(mech, name) for mech in team]
    return Struct(Hulls, {name: _row(column, types[name].dtype, device) for name, column in columns.items()})


def describe_arms(config: MechConfig, device: torch.device) -> Struct:
    """Constant rows of the weapons."""
    weapons = config.weapons
    columns = {
        "timer": [TIMERS.index(weapon.timer) for weapon in weapons],
        "stability_damage": [weapon.shake for weapon in weapons],
        "half_arc_cosine": [math.cos(weapon.half_arc_rad) for weapon in weapons],
    }
    types = array_types(Arms)
    for name in types.keys() - columns.keys():
        columns[name] = [getattr(weapon, name) for weapon in weapons]
    return Struct(Arms, {name: _row(column, types[name].dtype, device) for name, column in columns.items()})


def describe_terrain(config: MechConfig, pool: MapPool, device: torch.device) -> Struct:
    """The maps that the matches share."""
    names = ("solid", "sight", "material", "ground", "route", "highest", "spawn")
    arrays = {name: torch.from_numpy(np.ascontiguousarray(getattr(pool, name))) for name in names}
    arrays["cover"] = _highest_around(arrays["sight"], COVER_CELLS)
    return Struct(
        Terrain,
        {name: array.to(device) for name, array in arrays.items()},
        flat=config.terrain is Ground.OPEN,
        cells=config.map_side,
    )


def _highest_around(heights: Tensor, cells: int) -> Tensor:
    """Highest entry (M, G, G) at most so many columns and rows away."""
    # Pooling has no integer version on CPUs. Heights below 256 are exact in float32.
    return max_pool2d(heights.float(), 2 * cells + 1, stride=1, padding=cells).to(heights.dtype)


def describe_field(config: MechConfig, spec: EnvironmentSpec, weights: RewardWeights, device: torch.device) -> Struct:
    """Constants of the composition, of its observation and of the rewards."""
    heads = {head.name for head in spec.heads}
    columns = {
        name: spec.layout[name].start if name in spec.layout else -1
        for name in (
            *("contacts", "contact_mask", "pack", "pack_mask", "comms", "local_map"),
            *("build", "contact_builds", "pack_builds"),
        )
    }
    return Struct(
        Field,
        {"weights": torch.tensor([getattr(weights, name) for name in COMPONENTS], device=device)},
        half_side=config.map_side / 2.0,
        limit=config.max_decisions,
        zone_goal_s=config.zone_goal_s,
        team_size=len(config.team),
        mates=config.mates,
        full_sight=config.observation_mode is ObservationMode.FULL,
        has_ewar="ewar" in heads,
        has_comms="comm" in heads,
        builds=config.builds,
        recognition_range=config.rules.recognition_range,
        gamma=weights.gamma,
        zone_breaks_ties=config.rules.zone_breaks_ties,
        speed_spread=config.rules.speed_spread,
        heat_spread=config.rules.heat_spread,
        **{f"column_{name}": column for name, column in columns.items()},
    )


def allocate_commands(spec: EnvironmentSpec, num_envs: int, device: torch.device) -> Struct:
    """Room for one decision's actions; heads that the composition has not stay 0."""
    sizes = {"move": (len(MOVES),), "trigger": (len(TRIGGERS),), "comm": (COMM_SIZE,)}
    shape = (num_envs, spec.num_agents)
    return Struct(
        Commands,
        {name: _zeros((*shape, *sizes.get(name, ())), kind.dtype, device) for name, kind in _items(Commands)},
    )


def allocate_report(num_envs: int, agents: int, device: torch.device) -> Struct:
    """Allocate the result of a decision."""
    axes = {"components": (agents, len(COMPONENTS)), "reward": (agents,)}
    return Struct(
        Report, {name: _zeros((num_envs, *axes.get(name, ())), kind.dtype, device) for name, kind in _items(Report)}
    )


def allocate_view(spec: EnvironmentSpec, num_envs: int, device: torch.device) -> dict[str, Tensor]:
    """Allocate a `View` of all mechs; heads that the composition lacks get one column."""
    sizes = {head.name: head.size for head in spec.heads}
    axes = {name: (sizes.get(name, 1),) for name in ("move", "trigger", "target", "ewar", "build", "comm")}
    axes["values"] = (spec.observation_size,)
    shape = (num_envs, spec.num_agents)
    return {
        name: torch.empty(*shape, *axes.get(name, ()), dtype=TORCH_TYPES[kind.dtype], device=device)
        for name, kind in _items(View)
    }


def copy_view(view: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of an observation."""
    return {name: tensor.clone() for name, tensor in view.items()}


def _items(kind: Any) -> Any:  # noqa: ANN401  Warp's types
    return array_types(kind).items()


def _zeros(shape: tuple[int, ...], kind: Any, device: torch.device) -> Tensor:  # noqa: ANN401  a Warp type
    vector = (VECTOR_SIZES[kind],) if kind in VECTOR_SIZES else ()
    return torch.zeros(*shape, *vector, dtype=TORCH_TYPES[kind], device=device)


def _row(column: Any, kind: Any, device: torch.device) -> Tensor:  # noqa: ANN401  nested lists; a Warp type
    return torch.tensor(column, dtype=TORCH_TYPES[kind], device=device)


def _weapon_triggers(loadout: Mapping[str, str]) -> list[int]:
    return [TRIGGERS.index(loadout[weapon.name]) if weapon.name in loadout else -1 for weapon in WEAPONS]


def _carried_weapons(loadout: Mapping[str, str]) -> list[int]:
    carried = [index for index, weapon in enumerate(WEAPONS) if weapon.name in loadout]
    return carried + [-1] * (1 + len(WEAPONS) - len(carried))


def _longest_waits(config: MechConfig, loadout: Mapping[str, str]) -> list[int]:
    carried = [weapon for weapon in (*config.weapons, SMOKE) if weapon.name in loadout]
    return [max([weapon.cooldown_ticks for weapon in carried if weapon.timer == timer], default=1) for timer in TIMERS]
