"""`openspiel:GAME` as an environment: lookup tables if the game is small, else one match at a time."""

from arena.environments.adapters.openspiel.declare import declare_openspiel, has_tables, tree_of
from arena.environments.adapters.openspiel.tabular_env import TabularGameEnv
from arena.environments.adapters.subprocess.factory import make_batch
from arena.environments.base import Environment
from arena.errors import InputError

OPENER = "arena.environments.adapters.openspiel.matches:host_openspiel"


def make_openspiel(
    name: str, *, num_envs: int, device: str, seed: int, processes: int, step_limit_s: float
) -> Environment:
    """Return the environment of `openspiel:GAME`. Errors as in `load_game`.

    Raises:
        ArenaError: Processes were requested for a game that is played from tables.
    """
    if not has_tables(name):
        return make_batch(
            OPENER, name, num_envs=num_envs, device=device, seed=seed, processes=processes, step_limit_s=step_limit_s
        )
    if processes:
        raise InputError(f"{name} is played from tables, a whole batch in one process: omit --processes {processes}")
    return TabularGameEnv(declare_openspiel(name), tree_of(name), num_envs=num_envs, device=device, seed=seed)
