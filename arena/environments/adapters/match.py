"""How a game that plays one match at a time is stepped. Torch-free: it may run in another process."""

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
    """What the N agents of a match perceive; see `arena.environments.base.Observation`.

    Attributes:
        values: (N, D) float32.
        masks: For every masked head, (N, K) bool.
        active: (N,) bool, who acts now.
    """

    values: FloatArray
    masks: Mapping[str, BoolArray]
    active: BoolArray

    def clear(self) -> None:
        """Show nothing to anybody: zeros, nothing that may be chosen, and nobody acts."""
        self.values.fill(0.0)
        self.active.fill(False)
        for mask in self.masks.values():
            mask.fill(False)

    def hide(self, index: int | BoolArray) -> None:
        """Show nothing to an agent, or in some matches of several, and let it not act."""
        self.values[index] = 0.0
        self.active[index] = False
        for mask in self.masks.values():
            mask[index] = False

    def part(self, index: int | slice) -> "ObservationBuffer":
        """A view of one match's or of some matches' part, where there is an axis of matches in front."""
        masks = {name: mask[index] for name, mask in self.masks.items()}
        return ObservationBuffer(self.values[index], masks, self.active[index])

    def copy(self) -> "ObservationBuffer":
        """The same in memory of its own."""
        return ObservationBuffer(
            self.values.copy(), {name: mask.copy() for name, mask in self.masks.items()}, self.active.copy()
        )

    def take(self, rows: BoolArray, other: "ObservationBuffer") -> None:
        """Take some rows, of the first axis, from another."""
        self.values[rows], self.active[rows] = other.values[rows], other.active[rows]
        for name, mask in self.masks.items():
            mask[rows] = other.masks[name][rows]

    def remember(self, other: "ObservationBuffer") -> None:
        """Take what another shows to whoever acts in it; of everybody else keep what is here."""
        acting = other.active[..., np.newaxis]
        np.copyto(self.values, other.values, where=acting)
        for name, mask in self.masks.items():
            np.copyto(mask, other.masks[name], where=acting)
        np.logical_or(self.active, other.active, out=self.active)


@dataclass(frozen=True)
class Row:
    """One match's place in a batch: what is done in it is read here, and what comes of it is written here.

    Attributes:
        actions: Of every head (N, ...), legal for whoever acts.
        seen: What agents perceive next. Where agents move in turns it is cleared before a decision; elsewhere a match
            changes what is no longer so, and leaves the rest.
        final: What they perceived last, in a match that has ended; nothing before it is written.
        reward: (N,) float32 of the action just taken; zeros before it is written.
    """

    actions: Mapping[str, NDArray[Any]]
    seen: ObservationBuffer
    final: ObservationBuffer
    reward: FloatArray


@dataclass(frozen=True)
class MatchEnd:
    """How a match ended.

    Attributes:
        truncated: A limit cut it off; otherwise the game ended it.
        score: Home's score in [0, 1].
        reason: Index of the spec's reasons.
    """

    truncated: bool
    score: float
    reason: int


@runtime_checkable
class Match(Protocol):
    """Plays one match after another."""

    def reset(self, seed: int, row: Row) -> None:
        """Open a match and show it; all that is seen is cleared before.

        Args:
            seed: In [0, 2^63); everything random in the match follows from it, as far as the game allows.
            row: Where it is shown.
        """
        ...

    def step(self, row: Row, *, last: bool) -> MatchEnd | None:
        """Play one decision; None while the match goes on.

        Args:
            row: Where it is played.
            last: The match is cut off after this decision, if it has not ended by itself: it is the longest declared.
        """
        ...


@dataclass(frozen=True)
class SingleMatchGame:
    """A game that plays one match at a time.

    Attributes:
        spec: What it declares.
        open_match: Makes what plays one match after another.
    """

    spec: EnvironmentSpec
    open_match: Callable[[], Match]
