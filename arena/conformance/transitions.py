"""Inputs of the checks: batched observations and transitions, and the faults that the checks return."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.policies.scripted import RandomPolicy

OBSERVATIONS = "observations: "
"""Prefix of the names of a step's observations in `tensors_of`."""


class Fault(NamedTuple):
    """A violation of a rule.

    Attributes:
        seen: The offending value, as text.
        row: Row of the batch; None if the fault concerns all rows.
        agent: Index of the agent; None if the fault concerns no single agent.
    """

    seen: str
    row: int | None = None
    agent: int | None = None


@dataclass(frozen=True)
class ObservationBatch:
    """Observations of all agents in the rows that are checked.

    Attributes:
        env: The environment that returned the observation.
        observation: Observation of all rows, leading axes (E, N).
        rows: (E,) bool, true for rows that are checked.
    """

    env: Environment
    observation: Observation
    rows: Bool[Tensor, " E"]


@dataclass(frozen=True)
class Transition:
    """One decision of every row.

    Attributes:
        env: The environment that was stepped.
        lengths: (E,) decisions of the current match, this one included, counted by the checker.
        seeds: (E,) `env.seeds` before the step.
        next_seeds: (E,) `env.next_seeds` before the step.
        before: Observation before the step.
        actions: Actions of all agents.
        step: Result of the step.
    """

    env: Environment
    lengths: Int[Tensor, " E"]
    seeds: Int[Tensor, " E"]
    next_seeds: Int[Tensor, " E"]
    before: Observation
    actions: Actions
    step: StepResult


def draw(env: Environment, observation: Observation, rng: torch.Generator) -> Actions:
    """Draw an action of every agent uniformly from its legal actions."""
    flat, rows = observation.side(slice(0, env.spec.num_agents)), (env.num_envs, env.spec.num_agents)
    actions, _ = RandomPolicy(env.spec.heads).act(flat, (), torch.zeros_like(flat.active), rng)
    return {name: action.reshape(*rows, *action.shape[1:]) for name, action in actions.items()}


def misshapen(env: Environment, name: str, tensor: object, shape: tuple[int, ...], dtype: torch.dtype) -> Fault | None:
    """Check the shape, type and device of a tensor."""
    if not isinstance(tensor, Tensor):
        return Fault(f"{name} is a {type(tensor).__name__}: it must be a tensor")
    if tuple(tensor.shape) == shape and tensor.dtype is dtype and tensor.device == env.device:
        return None
    seen = f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"
    return Fault(f"{seen}: {dtype} of {shape} on {env.device} is required")


def choose(where: Bool[Tensor, "..."], ones: Actions, others: Actions) -> Actions:
    """Return the first actions where a mask over the leading axes is true, and the others elsewhere."""
    return {
        name: torch.where(where.view(*where.shape, *(1,) * (action.dim() - where.dim())), action, others[name])
        for name, action in ones.items()
    }


def first(broken: Tensor) -> tuple[int, ...] | None:
    """Return the index of the first true element of a bool tensor; None if all are false."""
    found = broken.nonzero()
    return tuple(found[0].tolist()) if len(found) else None


def paired(
    ones: Sequence[tuple[str, Tensor]], others: Sequence[tuple[str, Tensor]]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the tensors of the same name."""
    return ((name, one, other) for (name, one), (_, other) in zip(ones, others, strict=True))


def unlike(one: Tensor, other: Tensor) -> Tensor:
    """Return the elements in which two tensors differ; NaN equals NaN."""
    differs = one != other
    return differs & ~(one.isnan() & other.isnan()) if one.is_floating_point() else differs


def tensors_of(step: StepResult) -> list[tuple[str, Tensor]]:
    """Return all tensors of a step with their names; the leading axis of each is E."""
    sights = ((OBSERVATIONS, step.observation), ("the final observation: ", step.final_observation))
    return [
        *((f"{whose}{name}", tensor) for whose, seen in sights for name, tensor in parts_of(seen)),
        ("rewards", step.reward),
        ("terminations", step.terminated),
        ("truncations", step.truncated),
        ("ends of matches", step.over),
        ("scores", step.outcome.score),
        ("reasons", step.outcome.reason),
        ("lengths", step.outcome.decisions),
    ]


def parts_of(seen: Observation) -> list[tuple[str, Tensor]]:
    """Return all tensors of an observation with their names."""
    return [
        ("values", seen.values),
        ("active agents", seen.active),
        *((f"masks of head {name!r}", mask) for name, mask in seen.masks.items()),
    ]
