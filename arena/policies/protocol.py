"""What acts: scripted and learned players look alike. Contract for anyone who brings a player."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.protocol import Actions, Observation

State = tuple[Tensor, ...]
"""Recurrent state: any named tuple of tensors whose first axis is R; empty for a policy without memory."""


@runtime_checkable
class Policy(Protocol):
    """Acts for R agents at once. Each row is an agent with a memory of its own; rows never look at each other."""

    def initial_state(self, rows: int) -> State:
        """State of `rows` agents that have seen nothing."""
        ...

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Choose actions.

        Args:
            observation: Leading axis R.
            state: What this policy returned for these rows one decision before.
            episode_start: Rows whose observation opens an episode: their state is reset first.
            rng: The only source of chance.

        Returns:
            Actions with leading axis R for every head, and the state after this decision. Inactive rows keep theirs.
        """
        ...
