"""Common base of built-in environments: device and seeds of each row."""

import operator
from typing import SupportsIndex

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments import counter_rng as randomness
from arena.environments.base import Actions, check_actions
from arena.environments.spec import EnvironmentSpec
from arena.errors import CallOrderError, InputError
from arena.seeding import derive

SEED_RULE = "a seed is a whole number from 0 to 2**63 - 1"


class SeededBatch:
    """E rows of matches, each with its own seed.

    The seed of row k's n-th match is derived from (environment seed, k, n). It does not depend on E or on the length of
    other rows' matches.

    Attributes:
        spec: Environment spec.
        num_envs: E.
        device: Device of its tensors.
        seeds: Seed (E,) int64 of each row's current match; changes in place.
        next_seeds: Seed (E,) int64 of each row's next match; callers may overwrite it in place.
    """

    def __init__(self, spec: EnvironmentSpec, *, num_envs: int, device: str, seed: int) -> None:
        require_rows(spec.name, num_envs)
        require_seed(spec.name, seed)
        self.spec = spec
        self.num_envs = num_envs
        self.device = require_device(device)
        self.seeds: Int[Tensor, " E"] = torch.zeros(num_envs, dtype=torch.int64, device=self.device)
        self.next_seeds: Int[Tensor, " E"] = torch.zeros_like(self.seeds)
        self._episodes = torch.zeros_like(self.seeds)
        self._row_seeds = randomness.derive(
            torch.full_like(self.seeds, derive(seed, "environment")), torch.arange(num_envs, device=self.device)
        )
        # In place, here and below: callers and recorded graphs hold this tensor.
        self.next_seeds.copy_(randomness.derive(self._row_seeds, self._episodes))
        self._opened = False

    def _require_fit(self, actions: Actions) -> None:
        """Check that actions match the heads and that the environment has been reset."""
        if not self._opened:
            raise CallOrderError(f"{self.spec.name} was stepped before its first reset: call reset()")
        check_actions(self.spec, self.num_envs, actions)

    def _take_seeds(self, seeds: Int[Tensor, " E"] | None) -> None:
        """Use `seeds`, if given, for the next episodes."""
        if seeds is not None:
            require_seeds(self.spec.name, seeds, self.num_envs)
            self.next_seeds.copy_(seeds)
        self._opened = True

    def _open_episodes(self, rows: Bool[Tensor, " E"]) -> None:
        """Advance `rows` to their next seed and derive the one after it."""
        self.seeds.copy_(torch.where(rows, self.next_seeds, self.seeds))
        self._episodes += rows
        # Computed for all rows and then selected: a mask of rows would wait for a GPU.
        drawn = randomness.derive(self._row_seeds, self._episodes)
        self.next_seeds.copy_(torch.where(rows, drawn, self.next_seeds))

    def _zeros(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Allocate zeros `(E, *shape)`."""
        return torch.zeros(self.num_envs, *shape, dtype=dtype, device=self.device)

    def _open_all(self, seeds: Int[Tensor, " E"] | None) -> None:
        """Open a new episode in every row, from `seeds` or from `next_seeds`."""
        self._take_seeds(seeds)
        self._open_episodes(torch.ones(self.num_envs, dtype=torch.bool, device=self.device))


def require_rows(environment: str, num_envs: int) -> None:
    """Check that a batch has at least one match.

    Raises:
        ArenaError: It has none.
    """
    if num_envs < 1:
        raise InputError(f"{environment} was asked for {num_envs} environments: give at least 1")


def require_seed(environment: str, seed: object) -> None:
    """Check a seed.

    Raises:
        ArenaError: It is not an integer, or out of range.
    """
    if isinstance(seed, bool) or not isinstance(seed, SupportsIndex) or not 0 <= operator.index(seed) < 2**63:
        raise InputError(f"{environment} was given the seed {seed!r}: {SEED_RULE}")


def require_seeds(environment: str, seeds: Tensor, rows: int) -> None:
    """Check the seeds of a batch.

    Raises:
        ArenaError: They are not one nonnegative integer per row.
    """
    if seeds.dtype is torch.bool or seeds.is_floating_point() or seeds.is_complex():
        raise InputError(f"{environment} was given seeds of type {seeds.dtype}: {SEED_RULE}; give a tensor of int64")
    if seeds.shape != (rows,):
        raise InputError(f"{environment} was given {seeds.numel()} seeds for {rows} matches: give one for each")
    if bool((seeds < 0).any()):
        raise InputError(f"{environment} was given the seed {int(seeds.min())}: {SEED_RULE}")


def require_device(device: str) -> torch.device:
    """Return the torch device of a name.

    Raises:
        ArenaError: The device does not exist here.
    """
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}: choose cpu, cuda or cuda:INDEX") from error
    available = torch.cuda.device_count() if chosen.type == "cuda" else 1
    if chosen.type not in ("cpu", "cuda") or (chosen.index or 0) >= available:
        raise InputError(f"device {device!r} does not exist here ({available} available): choose cpu")
    return chosen
