"""Truncated backpropagation through time: which decisions go through the recurrent core together.

A rollout is cut into chunks of L decisions. At a chunk's start the state that the actor had there was stored. Inside a
chunk a row is cut again where an episode starts, and decisions at which the agent was inactive are left out, since they
leave its state alone. What remains are segments: at most L decisions that one call of the fused core advances exactly
as the step-by-step actor did. Segments are padded to L; padding comes last and its outputs are dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies import RecurrentState


@dataclass(frozen=True)
class Segments:
    """S runs of decisions that share no state.

    Attributes:
        index: Position t * R + r of each decision in the flattened rollout (L, S); padding repeats the first one.
        inside: Whether it is a decision and not padding (L, S).
        state: Recurrent state before the first decision, each (S, H).
        fresh: Whether an episode starts with the first decision (S): its state is zero and never stale.
    """

    index: Int[Tensor, "L S"]
    inside: Bool[Tensor, "L S"]
    state: RecurrentState
    fresh: Bool[Tensor, " S"]

    def __len__(self) -> int:
        """S."""
        return self.index.shape[1]

    def take(self, chosen: Int[Tensor, " s"]) -> "Segments":
        """Some of the segments."""
        state = RecurrentState(*(part[chosen] for part in self.state))
        return Segments(self.index[:, chosen], self.inside[:, chosen], state, self.fresh[chosen])

    def learned(self, burn_in: int) -> Bool[Tensor, "L S"]:
        """Decisions that carry loss: not padding, nor the first `burn_in` of a segment that starts from a stored state.

        Those bring the state up to date with the present weights.
        """
        place = torch.arange(len(self.inside), device=self.inside.device).unsqueeze(1)
        return self.inside & ((place >= burn_in) | self.fresh)


def cut(
    episode_start: Bool[Tensor, "T R"],
    active: Bool[Tensor, "T R"],
    hidden: Float[Tensor, "C R H"],
    cell: Float[Tensor, "C R H"],
) -> Segments:
    """Cut a rollout into segments.

    Args:
        episode_start: Whether an episode starts at a decision: the state is zeroed before it.
        active: Whether the agent acts at it.
        hidden: State before the first decision of each of C chunks; C divides T.
        cell: The same.
    """
    steps, rows = active.shape
    length = steps // hidden.shape[0]
    times = torch.arange(steps, device=active.device).unsqueeze(1)
    opens = episode_start | (times % length == 0)
    opens_by_row, acts_by_row = opens.t().flatten(), active.t().flatten()
    segment = opens_by_row.long().cumsum(0) - 1
    sizes = torch.zeros_like(segment[: int(segment[-1]) + 1]).index_add_(0, segment, acts_by_row.long())
    offset = acts_by_row.long().cumsum(0) - 1 - (sizes.cumsum(0) - sizes)[segment]
    where = (times * rows + torch.arange(rows, device=active.device)).t().flatten()
    index = where.new_zeros(length, len(sizes))
    index[offset[acts_by_row], segment[acts_by_row]] = where[acts_by_row]
    inside = torch.arange(length, device=active.device).unsqueeze(1) < sizes
    opening = where[opens_by_row]
    fresh = episode_start.flatten()[opening]
    chunk_row = (opening // rows // length) * rows + opening % rows
    states = (part.flatten(0, 1)[chunk_row].masked_fill(fresh.unsqueeze(1), 0.0) for part in (hidden, cell))
    segments = Segments(torch.where(inside, index, index[0]), inside, RecurrentState(*states), fresh)
    return segments.take(sizes.nonzero().squeeze(1))


def minibatches(segments: Segments, count: int, rng: torch.Generator) -> Iterator[Segments]:
    """Deal all segments, shuffled, into `count` parts of nearly equal size; each segment comes once."""
    order = torch.randperm(len(segments), generator=rng, device=rng.device)
    for part in order.tensor_split(min(count, len(segments))):
        yield segments.take(part.to(segments.index.device))
