"""The environments of a run: one batch, one for each of several threads where that pays, or two that processes step."""

from arena.environments import declare, make
from arena.environments.protocol import AwaitedEnvironment, Environment
from arena.seeding import derive
from trainer.settings import EnvironmentSettings, RunSettings

ROWS_OF_A_THREAD = 512
"""Agents of a side below which a thread of its own costs more than it brings: Python runs on one at a time."""


def open_batches(played: EnvironmentSettings, run: RunSettings) -> list[Environment]:
    """Open all environments, in batches that differ by one match at most.

    Where processes step them, there are two, whatever their number: one is stepped while the trainer acts in the other.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: Processes were asked for, and the game steps a whole batch by itself.
    """
    if played.processes:
        whole = make(
            played.name,
            num_envs=played.num_envs,
            device=run.device,
            seed=run.seed,
            processes=played.processes,
            step_limit_s=played.step_limit_s,
        )
        return list(whole.halves()) if isinstance(whole, AwaitedEnvironment) else [whole]
    agents = max(declare(played.name).agents_per_side)
    sizes = batch_sizes(played.num_envs, agents, run.threads if run.device == "cpu" else 1)
    seeds = [run.seed, *(derive(run.seed, "batch", number) for number in range(1, len(sizes)))]
    return [
        make(played.name, num_envs=size, device=run.device, seed=seed) for size, seed in zip(sizes, seeds, strict=True)
    ]


def batch_sizes(num_envs: int, agents: int, threads: int) -> list[int]:
    """How many environments each thread steps, with so many agents a side."""
    count = max(1, min(threads, num_envs, num_envs * agents // ROWS_OF_A_THREAD))
    return [(number + 1) * num_envs // count - number * num_envs // count for number in range(count)]
