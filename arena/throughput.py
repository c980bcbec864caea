"""How fast an environment steps."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from arena.environments.protocol import Environment
from arena.policies.scripted import RandomPolicy

WARM_UP_STEPS = 20


@dataclass(frozen=True)
class Throughput:
    """Decisions a second: of all matches together, and of all their agents together."""

    env_steps_per_s: float
    agent_steps_per_s: float


def measure(
    env: Environment, *, steps: int, repeats: int, clock: Callable[[], float], rng: torch.Generator
) -> Throughput:
    """Step with legal random actions; only `step` is timed, and the median of the repeats counts.

    Args:
        env: What to step; every repeat resets it.
        steps: Decisions of every repeat.
        repeats: How often to measure.
        clock: Seconds; CPU seconds of the stepping thread tell most where the machine is shared.
        rng: Where the actions come from.
    """
    _time_steps(env, WARM_UP_STEPS, clock, rng)
    seconds = statistics.median(_time_steps(env, steps, clock, rng) for _ in range(repeats))
    per_s = env.num_envs * steps / seconds
    return Throughput(per_s, per_s * env.spec.num_agents)


def _time_steps(env: Environment, steps: int, clock: Callable[[], float], rng: torch.Generator) -> float:
    player, everybody = RandomPolicy(env.spec.heads), slice(0, env.spec.num_agents)
    rows = (env.num_envs, env.spec.num_agents)
    observation, seconds = env.reset(), 0.0
    for _ in range(steps):
        flat = observation.side(everybody)
        actions, _ = player.act(flat, (), torch.zeros_like(flat.active), rng)
        shaped = {name: action.reshape(*rows, *action.shape[1:]) for name, action in actions.items()}
        start = clock()
        observation = env.step(shaped).observation
        seconds += clock() - start
    return seconds
