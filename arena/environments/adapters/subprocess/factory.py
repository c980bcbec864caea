"""Factory of batches of single-match games, stepped in this process or in subprocesses."""

from arena.environments.adapters.subprocess.env import InProcess, SubprocessBatch, SyncBatch
from arena.environments.adapters.subprocess.pool import Workers
from arena.environments.adapters.subprocess.rows import Part
from arena.environments.adapters.subprocess.worker import find_hosted
from arena.environments.base import Environment
from arena.environments.seeded import require_rows
from arena.environments.wrappers.rounds import Rounds
from arena.errors import InputError

LONGEST_LIMIT_S = 86_400.0
"""Largest step limit; operating systems limit waits to some weeks."""


def make_batch(
    opener: str, name: str, *, num_envs: int, device: str, seed: int, processes: int, step_limit_s: float
) -> SyncBatch:
    """Return a batch of matches of a game.

    Args:
        opener: `module:callable` that finds the game by name, here and in worker processes.
        name: Name of the game.
        num_envs: E.
        device: Device of the returned tensors.
        seed: The environment's seed.
        processes: Number of worker processes; 0 steps in this process.
        step_limit_s: Time limit of a worker for one decision of its matches.

    Raises:
        ArenaError: A number is out of range, or the game is not supported.
    """
    if processes < 0:
        raise InputError(f"{name} was given {processes} processes: give 0 to step it in this one, or at least 1")
    if not 0.0 < step_limit_s <= LONGEST_LIMIT_S:
        raise InputError(
            f"{name} was given a limit of {step_limit_s} s for a step: give seconds above 0, at most a day"
        )
    game = find_hosted(opener, name)
    if not processes:
        return SyncBatch(game.spec, lambda rows: InProcess(game, rows), num_envs=num_envs, device=device, seed=seed)
    require_rows(name, num_envs)
    workers = Workers(game.spec, opener, num_envs, processes=processes, step_limit_s=step_limit_s)
    return SubprocessBatch(game.spec, workers, Part.ALL, device=device, seed=seed)


def plays_single_matches(env: Environment) -> bool:
    """Return whether an environment plays single matches, so that worker processes can step it."""
    return isinstance(env.game if isinstance(env, Rounds) else env, SyncBatch)
