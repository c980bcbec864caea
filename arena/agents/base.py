"""The one interface behind which every policy from outside plays: what agents see goes in, what they do comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float

Actions = Mapping[str, Any]
"""What B agents do, head by head: anything that numpy makes an array of; see `arena.agents.decode_actions`."""

NO_MEMORY: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Batch:
    """What B agents see that act now. They may be of different matches and know nothing of each other.

    Attributes:
        observation: Observation floats, laid out as the game declares.
        masks: For every masked head what is allowed, (B, K) with K the head's size.
        memory: What the policy gave each agent to remember at its last decision; None at its first of an episode.
    """

    observation: Float[np.ndarray, "B D"]
    masks: Mapping[str, Bool[np.ndarray, "B K"]]
    memory: Sequence[Any]

    def __len__(self) -> int:
        """B."""
        return len(self.observation)


class Reply(NamedTuple):
    """What a policy answers.

    Attributes:
        actions: What each of the B agents does.
        memory: What each is to remember, B things of any kind; empty where nobody remembers anything.
    """

    actions: Actions
    memory: Sequence[Any] = NO_MEMORY


class ExternalAgent(Protocol):
    """A policy from outside. It keeps nothing of a match itself: memory goes in and comes out."""

    @property
    def identity(self) -> str | None:
        """By what the same policy is known again, such as a file's SHA-256; None where nothing says it."""
        ...

    def act(self, batch: Batch) -> Reply:
        """Answer a batch of one agent or more.

        Raises:
            ExternalPolicyError: It ended, was late, or gave no answer that can be read.
        """
        ...

    def close(self) -> None:
        """Let go of what was opened; a second call does nothing."""
        ...
