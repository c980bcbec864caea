"""Input of the checks of random play: one decision of every row, and how the arrays of two decisions compare."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.conformance.check import ViolationError
from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.policies.scripted import draw_actions

OBSERVATIONS = "observations: "
"""Prefix of the names of a step's observations in `tensors_of`."""


class Memory:
    """State that checks of an environment store from one decision to the next.

    Attributes:
        options: For each categorical head (2, K) bool: the options that were legal, and those that were chosen.
        inactive: (E, N) bool, agents that have been inactive in the current episode.
        reward_sums: (2, E) sum of all rewards of the current match, and of their absolute values.
        seen: Observations of home and of away, as bytes.
        ends: Number of finished matches.
        openings: Number of them whose final observation equals the first one of the next match.
        returned: Arrays of the previous step, each with a copy.
    """

    def __init__(self, env: Environment) -> None:
        self.options: dict[str, Bool[Tensor, "2 K"]] = {}
        self.inactive = torch.zeros(env.num_envs, env.spec.num_agents, dtype=torch.bool, device=env.device)
        self.reward_sums = torch.zeros(2, env.num_envs, dtype=torch.float64, device=env.device)
        self.seen: tuple[set[bytes], set[bytes]] = (set(), set())
        self.ends, self.openings = 0, 0
        self.returned: dict[str, tuple[Tensor, Tensor]] = {}


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
        memory: State from earlier decisions.
    """

    env: Environment
    lengths: Int[Tensor, " E"]
    seeds: Int[Tensor, " E"]
    next_seeds: Int[Tensor, " E"]
    before: Observation
    actions: Actions
    step: StepResult
    memory: Memory


def play(env: Environment, observation: Observation, rng: torch.Generator, decisions: int) -> Iterator[StepResult]:
    """Play on with random legal actions; yield each step."""
    for _ in range(decisions):
        step = env.step(draw_actions(env.spec.heads, observation, rng))
        yield step
        observation = step.observation


def require_tensor(env: Environment, name: str, tensor: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Check the shape, type and device of a tensor."""
    if not isinstance(tensor, Tensor):
        raise ViolationError(f"{name} is a {type(tensor).__name__}: it must be a tensor")
    if tuple(tensor.shape) != shape or tensor.dtype is not dtype or tensor.device != env.device:
        seen = f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"
        raise ViolationError(f"{seen}: {dtype} of {shape} on {env.device} is required")


def first(broken: Tensor) -> tuple[int, ...]:
    """Return the index of the first true element of a bool tensor; empty if all are false."""
    found = broken.nonzero()
    return tuple(found[0].tolist()) if len(found) else ()


def unlike(one: Tensor, other: Tensor) -> Tensor:
    """Return the elements in which two tensors differ; NaN equals NaN."""
    differs = one != other
    return differs & ~(one.isnan() & other.isnan()) if one.is_floating_point() else differs


def tensors_of(step: StepResult) -> dict[str, Tensor]:
    """Return all tensors of a step by name; the leading axis of each is E."""
    observations = ((OBSERVATIONS, step.observation), ("the final observation: ", step.final_observation))
    return {
        **{f"{whose}{name}": tensor for whose, seen in observations for name, tensor in parts_of(seen).items()},
        "rewards": step.reward,
        "terminations": step.terminated,
        "truncations": step.truncated,
        "ends of matches": step.over,
        "scores": step.outcome.score,
        "reasons": step.outcome.reason,
        "lengths": step.outcome.decisions,
    }


def parts_of(seen: Observation) -> dict[str, Tensor]:
    """Return all tensors of an observation by name."""
    masks = {f"masks of head {name!r}": mask for name, mask in seen.masks.items()}
    return {"values": seen.values, "active agents": seen.active, **masks}
