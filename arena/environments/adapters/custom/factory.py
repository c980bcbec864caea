"""User-defined games as environments."""

from arena.environments.adapters.custom.game import declared_tensors, spec_of_custom
from arena.environments.adapters.custom.lookup import batch_factory, find
from arena.environments.adapters.subprocess.factory import make_batch
from arena.environments.adapters.vector.env import TensorMatches
from arena.environments.adapters.vector.game import as_tensor_game
from arena.environments.base import Environment
from arena.errors import InputError

OPENER = "arena.environments.adapters.custom.game:host_own"


def make_own(name: str, *, num_envs: int, device: str, seed: int, processes: int, step_limit_s: float) -> Environment:
    """Create `MODULE:ATTRIBUTE`, or the environment of a plug-in; `spec_of_custom` lists the other errors.

    Raises:
        ArenaError: The game steps a whole batch itself, but `processes` is not 0.
    """
    found = find(name)
    factory, tensors = batch_factory(found), as_tensor_game(found)
    if factory is None and tensors is None:
        return make_batch(
            OPENER, name, num_envs=num_envs, device=device, seed=seed, processes=processes, step_limit_s=step_limit_s
        )
    if processes:
        raise InputError(f"{name} steps a whole batch itself, so it cannot use {processes} processes: omit them")
    if factory is None:
        return TensorMatches(declared_tensors(name), num_envs=num_envs, device=device, seed=seed)
    spec_of_custom(name)  # checks that the spec has this name
    env: Environment = factory(name, num_envs=num_envs, device=device, seed=seed)
    return env
