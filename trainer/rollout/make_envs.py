"""Vectorised environments of a run: one batch, one batch per thread, or two for worker processes to step in turn."""

from arena.environments import declare, make
from arena.environments.base import AwaitedEnvironment, Environment, supports
from arena.seeding import derive
from trainer.config.schema import EnvironmentSettings, RunSettings

MIN_ROWS_PER_THREAD = 512
"""Rows of a side below which another thread costs more than it saves, because Python code runs on one at a time."""


def make_env_batches(settings: EnvironmentSettings, run: RunSettings) -> list[Environment]:
    """Create all environments of a run, in batches whose sizes differ by at most one.

    With worker processes there are two batches, whatever the number of processes: while the processes step one, the
    trainer acts in the other.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: Processes were requested, and the game steps a whole batch by itself.
    """
    if settings.processes:
        env = make(
            settings.name,
            num_envs=settings.num_envs,
            device=run.device,
            seed=run.seed,
            processes=settings.processes,
            step_limit_s=settings.step_limit_s,
        )
        return list(env.halves()) if supports(env, AwaitedEnvironment) else [env]
    agents_per_side = max(declare(settings.name).agents_per_side)
    sizes = batch_sizes(settings.num_envs, agents_per_side, run.threads if run.device == "cpu" else 1)
    seeds = [run.seed, *(derive(run.seed, "batch", number) for number in range(1, len(sizes)))]
    return [
        make(settings.name, num_envs=size, device=run.device, seed=seed)
        for size, seed in zip(sizes, seeds, strict=True)
    ]


def batch_sizes(num_envs: int, agents_per_side: int, threads: int) -> list[int]:
    """Number of environments of each thread's batch."""
    count = max(1, min(threads, num_envs, num_envs * agents_per_side // MIN_ROWS_PER_THREAD))
    return [(number + 1) * num_envs // count - number * num_envs // count for number in range(count)]
