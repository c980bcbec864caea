"""The policy protocol, which scripted, learned and user-defined players implement."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.base import Actions, Observation

State = tuple[Tensor, ...]
"""Recurrent state: a tuple of tensors with leading axis R; empty for a policy without memory."""


@runtime_checkable
class Policy(Protocol):
    """Acts for R agents at once. Each row is one agent with its own state; rows are independent."""

    def initial_state(self, rows: int) -> State:
        """Return the state of `rows` agents before their first observation."""
        ...

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Choose actions.

        Args:
            observation: Leading axis R.
            state: State that the policy returned for these rows at the previous decision.
            episode_start: Rows whose observation starts an episode; their state is reset first.
            rng: The only source of randomness.

        Returns:
            Actions with leading axis R for every head, and the state after this decision. Inactive rows keep theirs.
        """
        ...
