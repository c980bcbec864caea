"""Recurrent state with its reset at episode starts, and the packed layout of runs of consecutive decisions."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import ArrayLike
from torch import Tensor


class RecurrentState(NamedTuple):
    """Recurrent state of R rows, each part (R, H); H is 0 in a feed-forward network."""

    hidden: Tensor
    cell: Tensor


class PackedRuns(NamedTuple):
    """Packed layout of S runs of consecutive decisions, N decisions in all and at most L in a run.

    Decisions are stored time step by time step, as in torch's `PackedSequence`. Runs are sorted by length, longest
    first, so that the decision of run r at step t is row first[t] + r.

    Attributes:
        first: First row of every step, then N, int32 (L + 1), on the host.
        padded_index: Index t * S + r of each decision in the runs padded to length L (N).
    """

    first: Tensor
    padded_index: Tensor

    @classmethod
    def of(cls, lengths: ArrayLike, steps: int, inside: Bool[Tensor, "L S"] | None = None) -> "PackedRuns":
        """Pack runs of the given lengths, sorted longest first, none longer than `steps`.

        Args:
            lengths: Lengths of the runs (S,), on the host: no operation waits for the device.
            steps: L.
            inside: Whether a run has a decision at a step, on the device of the decisions; None for the host.
        """
        # Sorted lengths make the runs that reach a step its first ones, so a count per step is enough.
        of_host = np.asarray(lengths) > np.arange(steps)[:, np.newaxis]
        first = np.append(0, of_host.sum(axis=1).cumsum()).astype(np.int32)
        flat = (torch.from_numpy(of_host) if inside is None else inside).flatten()
        return cls(torch.from_numpy(first), torch.nonzero_static(flat, size=int(first[-1])).squeeze(1))

    @property
    def steps(self) -> int:
        """L."""
        return len(self.first) - 1


def reset_rows(state: RecurrentState, rows: Bool[Tensor, " R"]) -> RecurrentState:
    """Zero the state of the rows selected by `rows`; all others stay bit-equal."""
    return RecurrentState(*(part.masked_fill(rows.unsqueeze(-1), 0.0) for part in state))
