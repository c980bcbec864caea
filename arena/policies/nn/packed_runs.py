"""Recurrent state with its reset at episode starts, and the packed layout of runs of consecutive decisions."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
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
        first: First row of every step, then N, int32 (L + 1).
        padded_index: Index t * S + r of each decision in the runs padded to length L (N).
    """

    first: Tensor
    padded_index: Tensor

    @classmethod
    def of(cls, lengths: Int[Tensor, " S"], steps: int) -> "PackedRuns":
        """Pack runs of the given lengths, sorted longest first, none longer than `steps`."""
        # Sorted lengths make the runs that reach a step its first ones, so a count per step is enough.
        inside = torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
        first = F.pad(inside.sum(dim=1).cumsum(0), (1, 0)).int()
        return cls(first, inside.flatten().nonzero().squeeze(1))

    @property
    def steps(self) -> int:
        """L."""
        return len(self.first) - 1


def reset_rows(state: RecurrentState, rows: Bool[Tensor, " R"]) -> RecurrentState:
    """Zero the state of the rows selected by `rows`; all others stay bit-equal."""
    return RecurrentState(*(part.masked_fill(rows.unsqueeze(-1), 0.0) for part in state))
