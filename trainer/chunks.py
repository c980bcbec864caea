"""Truncated backpropagation through time: which decisions go through the recurrent core together.

A rollout is cut into chunks of L decisions. At a chunk's start the state that the actor had there was stored. Inside a
chunk a row is cut again where an episode starts, and decisions at which the agent was inactive are left out, since they
leave its state alone. What remains are segments: at most L decisions that the core goes through all at once, exactly as
the step-by-step actor did.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.policies import RecurrentState, Runs


@dataclass(frozen=True)
class Segments:
    """S runs of decisions that share no state, the longest first.

    Attributes:
        index: Position t * R + r of each decision in the flattened rollout (L, S); no meaning behind a segment's end.
        lengths: Decisions of each (S).
        state: Recurrent state before the first decision, each (S, H).
        fresh: Whether an episode starts with the first decision (S): its state is zero and never stale.
    """

    index: Int[Tensor, "L S"]
    lengths: Int[Tensor, " S"]
    state: RecurrentState
    fresh: Bool[Tensor, " S"]

    def __len__(self) -> int:
        """S."""
        return self.index.shape[1]

    @cached_property
    def inside(self) -> Bool[Tensor, "L S"]:
        """Where `index` has a meaning."""
        return torch.arange(len(self.index), device=self.index.device).unsqueeze(1) < self.lengths

    @cached_property
    def rows(self) -> Int[Tensor, " N"]:
        """Position of all N decisions in the flattened rollout, in the order of `runs`."""
        return self.index[self.inside]

    @property
    def runs(self) -> Runs:
        """How they follow each other."""
        return Runs.of(self.lengths, len(self.index))

    def take(self, chosen: Int[Tensor, " s"]) -> "Segments":
        """Some of the segments."""
        return self._at(self.longest_first(chosen))

    def share(self, chosen: Int[Tensor, " s"], number: int, count: int) -> "Segments":
        """What `number` gets where some of the segments are dealt in turn to `count`, the longest first."""
        return self._at(self.longest_first(chosen)[number::count])

    def longest_first(self, chosen: Int[Tensor, " s"]) -> Int[Tensor, " s"]:
        """Numbers of segments in the order in which they are dealt."""
        return chosen[self.lengths[chosen].argsort(descending=True, stable=True)]

    def deal(self, count: int) -> "list[Segments]":
        """The segments, dealt in turn to `count` of about as many decisions."""
        if count == 1:
            return [self]
        places = torch.arange(len(self), device=self.index.device)
        return [self.take(places[number::count]) for number in range(count)]

    def learned(self, burn_in: int) -> Bool[Tensor, " N"]:
        """Decisions that carry loss: not the first `burn_in` of a segment that starts from a stored state.

        Those bring the state up to date with the present weights.
        """
        if not burn_in:
            return torch.ones_like(self.rows, dtype=torch.bool)
        place = torch.arange(len(self.index), device=self.index.device).unsqueeze(1)
        return ((place >= burn_in) | self.fresh)[self.inside]

    def _at(self, places: Int[Tensor, " s"]) -> "Segments":
        index = self.index.index_select(1, places)
        state = RecurrentState(*(part.index_select(0, places) for part in self.state))
        return Segments(index, self.lengths[places], state, self.fresh[places])


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
    opening = where[opens_by_row]
    fresh = episode_start.flatten()[opening]
    chunk_row = (opening // rows // length) * rows + opening % rows
    states = (part.flatten(0, 1)[chunk_row].masked_fill(fresh.unsqueeze(1), 0.0) for part in (hidden, cell))
    segments = Segments(index, sizes, RecurrentState(*states), fresh)
    return segments.take(sizes.nonzero().squeeze(1))


def shuffled(segments: Segments, count: int, rng: torch.Generator) -> tuple[Int[Tensor, " _"], ...]:
    """Numbers of all segments, shuffled, in `count` minibatches of nearly equal size; each comes once.

    Where there are fewer segments than that, the last minibatches are empty.
    """
    order = torch.randperm(len(segments), generator=rng, device=rng.device)
    return order.to(segments.index.device).tensor_split(count)
