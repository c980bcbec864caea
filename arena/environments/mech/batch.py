"""The arrays of a batch of matches: torch tensors, and the Warp structs that share their memory."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from arena.environments.mech.kernels import wp
from arena.environments.mech.kernels.state import Commands, Field, Hulls, Report, State, View
from arena.environments.mech.rules import COMPONENTS, MOVES, SHELL_SLOTS, TRIGGERS, MechConfig, RewardWeights
from arena.environments.spec import SIDES, EnvironmentSpec

TORCH_TYPES: Mapping[Any, torch.dtype] = {
    wp.float32: torch.float32,
    wp.float64: torch.float64,
    wp.int32: torch.int32,
    wp.int64: torch.int64,
    wp.bool: torch.bool,
    wp.vec2: torch.float32,
}


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


def array_types(kind: Any) -> Mapping[str, Any]:  # noqa: ANN401  a Warp struct
    """Element type and number of axes of every array of a struct."""
    return {name: variable.type for name, variable in kind.vars.items()}


def allocate_state(shared: Mapping[str, Tensor], num_envs: int, agents: int, device: torch.device) -> Struct:
    """All of a batch's state, (E,), (E, N) or (E, N, N) but for the odd ones; zero but for what the caller shares."""
    shells = (agents, SHELL_SLOTS)
    odd = {
        "zone_s": (SIDES,),
        "zone_tick": (SIDES,),
        "shell_position": shells,
        "shell_direction": shells,
        "shell_reach": shells,
    }
    tensors = dict(shared)
    for name, array in array_types(State).items():
        if name not in tensors:
            axes = odd.get(name, (agents,) * (array.ndim - 1))
            vector = (2,) if array.dtype is wp.vec2 else ()
            tensors[name] = torch.zeros(num_envs, *axes, *vector, dtype=TORCH_TYPES[array.dtype], device=device)
    return Struct(State, tensors)


def describe_hulls(config: MechConfig, device: torch.device) -> Struct:
    """Constant rows of the N mechs, home first."""
    team = [*enumerate(config.team)] * SIDES
    size = len(config.team)
    columns = {
        "side": torch.tensor([index // size for index in range(len(team))], dtype=torch.int32),
        "rank": torch.tensor([rank for rank, _ in team], dtype=torch.int32),
    }
    for name in array_types(Hulls).keys() - columns.keys():
        columns[name] = torch.tensor([getattr(mech, name) for _, mech in team], dtype=torch.float32)
    return Struct(Hulls, {name: column.to(device) for name, column in columns.items()})


def describe_field(config: MechConfig, weights: RewardWeights, device: torch.device) -> Struct:
    """Constants of the composition and of the rewards."""
    return Struct(
        Field,
        {"weights": torch.tensor([getattr(weights, name) for name in COMPONENTS], device=device)},
        half_side=config.map_side / 2.0,
        limit=config.max_decisions,
        zone_goal_s=config.zone_goal_s,
        team_size=len(config.team),
        gamma=weights.gamma,
    )


def allocate_commands(num_envs: int, agents: int, device: torch.device) -> Struct:
    """Room for one decision's actions."""
    shape = (num_envs, agents)
    return Struct(
        Commands,
        {
            "move": torch.zeros(*shape, len(MOVES), device=device),
            "trigger": torch.zeros(*shape, len(TRIGGERS), dtype=torch.bool, device=device),
        },
    )


def allocate_report(num_envs: int, agents: int, device: torch.device) -> Struct:
    """Room for what comes of one decision."""

    def zeros(*axes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(num_envs, *axes, dtype=dtype, device=device)

    return Struct(
        Report,
        {
            "components": zeros(agents, len(COMPONENTS)),
            "reward": zeros(agents),
            "terminated": zeros(dtype=torch.bool),
            "truncated": zeros(dtype=torch.bool),
            "score": zeros(dtype=torch.float64),
            "reason": zeros(dtype=torch.int64),
            "decisions": zeros(dtype=torch.int64),
        },
    )


def allocate_view(spec: EnvironmentSpec, num_envs: int, device: torch.device) -> Struct:
    """Room for one observation of everybody."""
    shape = (num_envs, spec.num_agents)
    return Struct(
        View,
        {
            "values": torch.zeros(*shape, spec.observation_size, device=device),
            "move": torch.zeros(*shape, len(MOVES), dtype=torch.bool, device=device),
            "trigger": torch.zeros(*shape, len(TRIGGERS), dtype=torch.bool, device=device),
            "active": torch.zeros(shape, dtype=torch.bool, device=device),
        },
    )
