"""Common interface of external agents: a batch of observations in, actions and memory out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float

Actions = Mapping[str, Any]
"""Actions of B agents by head, as anything that numpy converts to an array (see `arena.agents.decode_actions`)."""

NO_MEMORY: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Batch:
    """Observations of B acting agents, possibly of different matches.

    Attributes:
        observation: Observation values, in the layout of the game's spec.
        masks: Action mask of every masked head, (B, K) with K the head's size.
        memory: Memory that the agent returned at its last decision. None at the first of an episode.
    """

    observation: Float[np.ndarray, "B D"]
    masks: Mapping[str, Bool[np.ndarray, "B K"]]
    memory: Sequence[Any]

    def __len__(self) -> int:
        """B."""
        return len(self.observation)


class Reply(NamedTuple):
    """Answer to a batch.

    Attributes:
        actions: Actions of the B agents.
        memory: Memory of each of the B agents, of any type. Empty without memory.
    """

    actions: Actions
    memory: Sequence[Any] = NO_MEMORY


class ExternalAgent(Protocol):
    """An external agent. It is stateless between calls: memory is passed in and returned."""

    @property
    def identity(self) -> str | None:
        """Stable identity of the agent, such as a file's SHA-256; None if unknown."""
        ...

    def act(self, batch: Batch) -> Reply:
        """Return the actions of a batch of one agent or more.

        Raises:
            ExternalPolicyError: The agent ended, timed out, or returned an unreadable answer.
        """
        ...

    def close(self) -> None:
        """Release resources; a second call does nothing."""
        ...
