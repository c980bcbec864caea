"""Inputs of the checks: batched observations and transitions, and the faults that the checks return."""

import traceback
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.policies.scripted import RandomPolicy


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


def first(broken: Tensor) -> tuple[int, ...] | None:
    """Return the index of the first true element of a bool tensor; None if all are false."""
    found = broken.nonzero()
    return tuple(found[0].tolist()) if len(found) else None


def unlike(one: Tensor, other: Tensor) -> Tensor:
    """Return the elements in which two tensors differ; NaN equals NaN."""
    differs = one != other
    return differs & ~(one.isnan() & other.isnan()) if one.is_floating_point() else differs


def describe(error: BaseException) -> str:
    """Return an error in one line, with the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    location = f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}{location}" if message else f"{type(error).__name__}{location}"
