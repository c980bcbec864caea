"""Interface of games that play one match at a time. Torch-free, because they may run in a worker process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from arena.environments.spec import EnvironmentSpec

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class ObservationBuffer:
    """Observation of the N agents of a match (see `arena.environments.base.Observation`).

    Attributes:
        values: (N, D) float32.
        masks: (N, K) bool for every masked head.
        active: (N,) bool, true for agents that act now.
    """

    values: FloatArray
    masks: Mapping[str, BoolArray]
    active: BoolArray

    def clear(self) -> None:
        """Reset to inactive agents: zero values and nothing legal."""
        self.values.fill(0.0)
        self.active.fill(False)
        for mask in self.masks.values():
            mask.fill(False)

    def hide(self, index: int | BoolArray) -> None:
        """Make an agent inactive, or all agents of some matches."""
        self.values[index] = 0.0
        self.active[index] = False
        for mask in self.masks.values():
            mask[index] = False

    def part(self, index: int | slice) -> "ObservationBuffer":
        """Return a view of one or several matches, if the first axis is of matches."""
        masks = {name: mask[index] for name, mask in self.masks.items()}
        return ObservationBuffer(self.values[index], masks, self.active[index])

    def copy(self) -> "ObservationBuffer":
        """Return a copy."""
        return ObservationBuffer(
            self.values.copy(), {name: mask.copy() for name, mask in self.masks.items()}, self.active.copy()
        )

    def take(self, rows: BoolArray, other: "ObservationBuffer") -> None:
        """Copy some rows of the first axis from another buffer."""
        self.values[rows], self.active[rows] = other.values[rows], other.active[rows]
        for name, mask in self.masks.items():
            mask[rows] = other.masks[name][rows]

    def remember(self, other: "ObservationBuffer") -> None:
        """Copy the acting agents' observations from another buffer; the others are unchanged."""
        acting = other.active[..., np.newaxis]
        np.copyto(self.values, other.values, where=acting)
        for name, mask in self.masks.items():
            np.copyto(mask, other.masks[name], where=acting)
        np.logical_or(self.active, other.active, out=self.active)


@dataclass(frozen=True)
class Row:
    """One match's row in a batch: inputs and outputs of a decision.

    Attributes:
        actions: Actions of every head, (N, ...), legal for acting agents.
        seen: Next observation. In turn-based games it is cleared before a decision. In others a match updates only the
            entries that change.
        final: Final observation of a match that has ended; not used before.
        reward: (N,) float32 of the action just taken; zeros before it is written.
    """

    actions: Mapping[str, NDArray[Any]]
    seen: ObservationBuffer
    final: ObservationBuffer
    reward: FloatArray


@dataclass(frozen=True)
class MatchEnd:
    """End of a match.

    Attributes:
        truncated: Whether a limit ended it; otherwise the game terminated it.
        score: Home's score in [0, 1].
        reason: Index into the spec's reasons.
    """

    truncated: bool
    score: float
    reason: int


@runtime_checkable
class Match(Protocol):
    """Plays one match after another."""

    def reset(self, seed: int, row: Row) -> None:
        """Open a match and write its observation; the buffer is cleared before.

        Args:
            seed: In [0, 2^63); determines all randomness of the match, as far as the game allows.
            row: Row of the match.
        """
        ...

    def step(self, row: Row, *, last: bool) -> MatchEnd | None:
        """Play one decision; None while the match continues.

        Args:
            row: Row of the match.
            last: Whether the decision limit truncates the match after this decision.
        """
        ...


@dataclass(frozen=True)
class SingleMatchGame:
    """A game that plays one match at a time.

    Attributes:
        spec: Its environment spec.
        open_match: Creates a match runner.
    """

    spec: EnvironmentSpec
    open_match: Callable[[], Match]
