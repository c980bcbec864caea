"""Conversion of batched actions to a game's action space."""

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from jaxtyping import Bool
from torch import Tensor

from arena.environments.base import NOTHING_LEGAL, Actions, Observation
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind
from arena.errors import InvalidActionError


def check_legal(spec: EnvironmentSpec, actions: Actions, seen: Observation) -> None:
    """Check that the actions of all acting agents exist and are allowed by the action masks.

    Raises:
        InvalidActionError: An action is out of range or masked out.
    """
    for head in spec.heads:
        if head.kind is HeadKind.BERNOULLI and head.masked:
            forbidden = actions[head.name] & ~seen.masks[head.name] & seen.active.unsqueeze(-1)
            if bool(forbidden.any()):
                row, agent, switch = forbidden.nonzero()[0].tolist()
                raise InvalidActionError(
                    f"agent {agent} put on switch {switch} of head {head.name!r} in match {row} of {spec.name}: its "
                    "mask forbids that"
                )
        if head.kind is not HeadKind.CATEGORICAL:
            continue
        chosen = actions[head.name]
        inside = (chosen >= 0) & (chosen < head.size)
        legal = inside
        if head.masked:
            legal = inside & seen.masks[head.name].gather(-1, chosen.where(inside, 0).unsqueeze(-1)).squeeze(-1)
        refused = seen.active & ~legal
        if bool(refused.any()):
            row, agent = refused.nonzero()[0].tolist()
            allowed = (
                seen.masks[head.name][row, agent].nonzero().flatten().tolist() if head.masked else range(head.size)
            )
            raise InvalidActionError(
                f"agent {agent} chose {int(chosen[row, agent])} of head {head.name!r} in match {row} of {spec.name}: "
                f"allowed is {', '.join(map(str, allowed)) or NOTHING_LEGAL}"
            )


def read(
    space: spaces.Space[Any], heads: Sequence[ActionHead], actions: Actions, active: Bool[Tensor, "E N"]
) -> Tensor:
    """Return actions (E, N, ...) in the space of one agent; inactive agents get the first action."""
    first = actions[heads[0].name]
    shape = (*active.shape, *(space.shape or ()))
    match space:
        case spaces.Discrete():
            return first.where(active, 0) + int(space.start)
        case spaces.MultiDiscrete():
            chosen = torch.stack([actions[head.name].where(active, 0) for head in heads], dim=-1)
            start = torch.as_tensor(space.start, device=chosen.device)
            return chosen.reshape(shape) + start
        case spaces.MultiBinary():
            return (first & active.unsqueeze(-1)).to(torch.int8).reshape(shape)
        case spaces.Box():
            low, high = (torch.as_tensor(bound, device=first.device).float() for bound in (space.low, space.high))
            scaled = (low + high) / 2.0 + (high - low) / 2.0 * first.reshape(shape)
            return torch.clamp(scaled, low, high)
        case _:
            raise AssertionError(space)  # `factors_of` rejects all other spaces
