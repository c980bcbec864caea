"""What is looked at: a decision of every row and what came of it, and what agents perceive before and after it."""

import traceback
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.policies.scripted import RandomPolicy


class Fault(NamedTuple):
    """Something that breaks a rule.

    Attributes:
        seen: What was seen.
        row: In which row of the batch; None where it is of all of them.
        agent: Whose it is; None where it is nobody's.
    """

    seen: str
    row: int | None = None
    agent: int | None = None


@dataclass(frozen=True)
class ObservationBatch:
    """What the agents of some rows perceive.

    Attributes:
        env: Whose observation it is.
        observation: Of all rows.
        rows: (E,) bool, those that are looked at.
    """

    env: Environment
    observation: Observation
    rows: Bool[Tensor, " E"]


@dataclass(frozen=True)
class Transition:
    """A decision of every row.

    Attributes:
        env: What was stepped.
        lengths: (E,) decisions of the match so far, this one among them, as they were counted from outside.
        seeds: (E,) what `env.seeds` said before it.
        next_seeds: (E,) what `env.next_seeds` said before it.
        before: What agents perceived.
        actions: What they did.
        step: What came of it.
    """

    env: Environment
    lengths: Int[Tensor, " E"]
    seeds: Int[Tensor, " E"]
    next_seeds: Int[Tensor, " E"]
    before: Observation
    actions: Actions
    step: StepResult


def draw(env: Environment, observation: Observation, rng: torch.Generator) -> Actions:
    """Actions of all agents, each drawn uniformly from those that are legal."""
    flat, rows = observation.side(slice(0, env.spec.num_agents)), (env.num_envs, env.spec.num_agents)
    actions, _ = RandomPolicy(env.spec.heads).act(flat, (), torch.zeros_like(flat.active), rng)
    return {name: action.reshape(*rows, *action.shape[1:]) for name, action in actions.items()}


def first(broken: Tensor) -> tuple[int, ...] | None:
    """Where a bool tensor is true for the first time; None where it never is."""
    found = broken.nonzero()
    return tuple(found[0].tolist()) if len(found) else None


def unlike(one: Tensor, other: Tensor) -> Tensor:
    """Where two tensors differ; what is no number in both does not."""
    differs = one != other
    return differs & ~(one.isnan() & other.isnan()) if one.is_floating_point() else differs


def describe(error: BaseException) -> str:
    """An error in one line, with the line of code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name})" if frames else ""
    told = " ".join(str(error).split())
    return f"{type(error).__name__}: {told}{place}" if told else f"{type(error).__name__}{place}"
