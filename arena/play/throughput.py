"""Throughput and memory of an environment."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from arena.environments.base import CountsBytes, Environment, supports
from arena.policies.scripted import draw_actions

WARM_UP_STEPS = 20


@dataclass(frozen=True)
class Throughput:
    """Decisions per second, per environment and summed over its agents."""

    env_steps_per_s: float
    agent_steps_per_s: float


def measure(
    env: Environment, *, steps: int, repeats: int, clock: Callable[[], float], rng: torch.Generator
) -> Throughput:
    """Measure throughput with random legal actions; only `step` is timed, and the median of the repeats counts.

    Args:
        env: The environment; every repeat resets it.
        steps: Decisions per repeat.
        repeats: Number of repeats.
        clock: Clock in seconds; on a shared machine use the CPU time of the stepping thread.
        rng: Generator of the actions.
    """
    _time_steps(env, WARM_UP_STEPS, clock, rng)
    seconds = statistics.median(_time_steps(env, steps, clock, rng) for _ in range(repeats))
    per_s = env.num_envs * steps / seconds
    return Throughput(per_s, per_s * env.spec.num_agents)


@dataclass(frozen=True)
class Memory:
    """Memory of one match's tensors, and of tensors shared by all matches, in bytes.

    Attributes:
        state: State of a match.
        observation: Observation values, masks and active agents.
        shared: Data that exists once for all matches of a batch, such as maps.
    """

    state: int
    observation: int
    shared: int


def measure_memory(env: Environment) -> Memory:
    """Measure the memory of an environment's tensors; the state counts as 0 if the environment does not report it."""
    own, shared = (env.own_bytes, env.shared_bytes) if supports(env, CountsBytes) else (0, 0)
    observation = env.reset()
    tensors = (observation.values, observation.active, *observation.masks.values())
    return Memory(own // env.num_envs, sum(tensor.nbytes for tensor in tensors) // env.num_envs, shared)


def _time_steps(env: Environment, steps: int, clock: Callable[[], float], rng: torch.Generator) -> float:
    observation, seconds = env.reset(), 0.0
    for _ in range(steps):
        actions = draw_actions(env.spec.heads, observation, rng)
        start = clock()
        observation = env.step(actions).observation
        seconds += clock() - start
    return seconds
