"""What every built-in environment shares: where it lives, and which seed each row plays next."""

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
    """E rows of matches, each opened by a seed of its own.

    The seed of row k's n-th match follows from (environment seed, k, n): it does not depend on E, nor on how long the
    matches of other rows last.

    Attributes:
        spec: What the environment declares.
        num_envs: E.
        device: Where its tensors live.
        seeds: Seed (E,) int64 of the match that each row is in; changes in place.
        next_seeds: Seed (E,) int64 of each row's next match; callers may write their own, in place.
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
        self.next_seeds.copy_(randomness.derive(self._row_seeds, self._episodes))
        self._opened = False

    def _require_fit(self, actions: Actions) -> None:
        """Refuse actions that do not fit the heads, and any before the first reset."""
        if not self._opened:
            raise CallOrderError(f"{self.spec.name} was stepped before its first reset: call reset()")
        check_actions(self.spec, self.num_envs, actions)

    def _take_seeds(self, seeds: Int[Tensor, " E"] | None) -> None:
        """Make `seeds`, if there are any, what the next episodes are opened by."""
        if seeds is not None:
            require_seeds(self.spec.name, seeds, self.num_envs)
            self.next_seeds.copy_(seeds)
        self._opened = True

    def _open_episodes(self, rows: Bool[Tensor, " E"]) -> None:
        """Move `rows` on to their next seed, and draw the one after it."""
        self.seeds.copy_(torch.where(rows, self.next_seeds, self.seeds))
        self._episodes += rows
        drawn = randomness.derive(self._row_seeds, self._episodes)
        self.next_seeds.copy_(torch.where(rows, drawn, self.next_seeds))

    def _zeros(self, dtype: torch.dtype, *shape: int) -> Tensor:
        """Room (E, *shape) for something that every row has."""
        return torch.zeros(self.num_envs, *shape, dtype=dtype, device=self.device)

    def _open_all(self, seeds: Int[Tensor, " E"] | None) -> None:
        """Open a new episode in every row, from `seeds` or from `next_seeds`."""
        self._take_seeds(seeds)
        self._open_episodes(torch.ones(self.num_envs, dtype=torch.bool, device=self.device))


def require_rows(environment: str, num_envs: int) -> None:
    """Refuse a batch without matches.

    Raises:
        ArenaError: There are fewer than one.
    """
    if num_envs < 1:
        raise InputError(f"{environment} was asked for {num_envs} environments: give at least 1")


def require_seed(environment: str, seed: object) -> None:
    """Refuse what is no seed.

    Raises:
        ArenaError: It is no whole number, or out of range.
    """
    if isinstance(seed, bool) or not isinstance(seed, SupportsIndex) or not 0 <= operator.index(seed) < 2**63:
        raise InputError(f"{environment} was given the seed {seed!r}: {SEED_RULE}")


def require_seeds(environment: str, seeds: Tensor, rows: int) -> None:
    """Refuse seeds that do not open an episode in each of so many rows.

    Raises:
        ArenaError: They are not one for each, no whole numbers, or below 0.
    """
    if seeds.dtype is torch.bool or seeds.is_floating_point() or seeds.is_complex():
        raise InputError(f"{environment} was given seeds of type {seeds.dtype}: {SEED_RULE}; give a tensor of int64")
    if seeds.shape != (rows,):
        raise InputError(f"{environment} was given {seeds.numel()} seeds for {rows} matches: give one for each")
    if bool((seeds < 0).any()):
        raise InputError(f"{environment} was given the seed {int(seeds.min())}: {SEED_RULE}")


def require_device(device: str) -> torch.device:
    """The torch device of that name.

    Raises:
        ArenaError: No such device exists here.
    """
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise InputError(f"unknown device {device!r}: choose cpu, cuda or cuda:INDEX") from error
    available = torch.cuda.device_count() if chosen.type == "cuda" else 1
    if chosen.type not in ("cpu", "cuda") or (chosen.index or 0) >= available:
        raise InputError(f"device {device!r} does not exist here ({available} available): choose cpu")
    return chosen
