"""`LIBRARY:GAME` as an environment."""

from arena.environments.adapters.subprocess.env import SyncBatch
from arena.environments.adapters.subprocess.factory import make_batch

OPENER = "arena.environments.adapters.pettingzoo.game:host_pettingzoo"


def make_pettingzoo(
    name: str, *, num_envs: int, device: str, seed: int, processes: int, step_limit_s: float
) -> SyncBatch:
    """Return the batch of `LIBRARY:GAME`. Errors as in `find_game` and `look_at`."""
    return make_batch(
        OPENER, name, num_envs=num_envs, device=device, seed=seed, processes=processes, step_limit_s=step_limit_s
    )
