"""Sequences for truncated backpropagation through time: which decisions go through the recurrent core together.

A rollout is cut into chunks of L = `rollout.bptt_horizon` decisions. The buffer has the recurrent state of the actor at
the start of each chunk. Inside a chunk a row is cut again at the start of an episode, and decisions at which the agent
was inactive are left out, because they do not change its state. The results are sequences of at most L decisions. The
core computes each of them in one call, exactly as the actor did step by step.

Source: Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from arena.policies import PackedRuns, RecurrentState
from arena.policies.nn.distributions import ActionLayout
from trainer.rollout.buffer import RolloutBuffer


@dataclass(frozen=True)
class Sequences:
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
    def runs(self) -> PackedRuns:
        """How they follow each other."""
        return PackedRuns.of(self.lengths, len(self.index))

    def take(self, selected: Int[Tensor, " s"]) -> "Sequences":
        """Some of the segments."""
        selected = selected[self.lengths[selected].argsort(descending=True, stable=True)]
        index = self.index.index_select(1, selected)
        state = RecurrentState(*(part.index_select(0, selected) for part in self.state))
        return Sequences(index, self.lengths[selected], state, self.fresh[selected])

    def split(self, count: int) -> "list[Sequences]":
        """Split into `count` parts of about equally many decisions."""
        if count == 1:
            return [self]
        places = torch.arange(len(self), device=self.index.device)
        return [self.take(places[number::count]) for number in range(count)]

    def sum_per_sequence(self, values: Bool[Tensor, " N"]) -> Float[Tensor, " S"]:
        """Number of true values in each sequence."""
        padded = self.inside.clone()
        padded[self.inside] = values
        return padded.sum(dim=0).float()

    def behind_burn_in(self, burn_in: int) -> Bool[Tensor, " N"]:
        """Decisions behind the burn-in: all but the first `burn_in` of a sequence that starts from a stored state.

        Those only bring the state up to date with the current weights.
        """
        if not burn_in:
            return torch.ones_like(self.rows, dtype=torch.bool)
        place = torch.arange(len(self.index), device=self.index.device).unsqueeze(1)
        return ((place >= burn_in) | self.fresh)[self.inside]


def split_into_sequences(
    episode_start: Bool[Tensor, "T R"],
    active: Bool[Tensor, "T R"],
    hidden: Float[Tensor, "C R H"],
    cell: Float[Tensor, "C R H"],
) -> Sequences:
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
    segments = Sequences(index, sizes, RecurrentState(*states), fresh)
    return segments.take(sizes.nonzero().squeeze(1))


def shuffle_minibatches(
    weights: Float[Tensor, " S"], count: int, rng: torch.Generator
) -> tuple[Int[Tensor, " _"], ...]:
    """Numbers of all segments in `count` random minibatches of nearly the same total weight; each comes once.

    Segments are dealt in rounds, the heaviest first, one to every minibatch: in each round the heaviest segment goes to
    the minibatch that is the lightest so far. So minibatches differ by one segment at most, and their total weights by
    at most the weight of one segment. Among segments of equal weight chance decides. The larger minibatches come first;
    where there are fewer segments than minibatches, the last ones are empty.

    Args:
        weights: Of each of S segments, >= 0: its decisions that carry loss.
        count: Minibatches.
        rng: Chance.
    """
    order = torch.randperm(len(weights), generator=rng, device=rng.device).cpu().numpy()
    by_number = weights.cpu().numpy()
    order = order[np.argsort(-by_number[order], kind="stable")]
    rounds = np.append(order, np.full(-len(order) % count, -1)).reshape(-1, count)
    dealt = np.append(by_number, 0.0)[rounds]  # an empty place, -1, weighs nothing
    totals = np.zeros(count)
    # Where all weights of a round are equal, totals stay as far apart as they are: few rounds are left to look at.
    for number in np.flatnonzero(dealt[:, 0] > dealt[:, -1]):
        lightest_first = np.argsort(totals, kind="stable")
        rounds[number, lightest_first] = rounds[number].copy()
        totals[lightest_first] += dealt[number]
    larger_first = np.argsort((rounds[-1:] < 0).sum(axis=0), kind="stable")
    minibatches = [torch.from_numpy(numbers[numbers >= 0]) for numbers in rounds.T[larger_first]]
    return tuple(numbers.to(weights.device) for numbers in minibatches)


@dataclass(frozen=True)
class Targets:
    """What an update learns from, beside the rollout.

    Attributes:
        advantage: Normalised advantage of each action.
        returns: Return of each decision, in the critic's units.
        old_value: What the critic said when the decision was made, in its present units.
        valid: Decisions that count.
    """

    advantage: Float[Tensor, "T R"]
    returns: Float[Tensor, "T R"]
    old_value: Float[Tensor, "T R"]
    valid: Bool[Tensor, "T R"]


@dataclass(frozen=True)
class SequenceBatch:
    """N decisions that go through the core, and what is needed of the n among them that carry loss.

    Attributes:
        observation: Observations, before normalisation.
        state: State before each run.
        runs: How the N decisions follow each other.
        loss_mask: Which of them carry loss.
        loss_index: Where these n are among the N; None where that is all.
        index: Position t * R + r of each of the n in the rollout.
        noise: Chance for the estimate of their entropy.
        mask: As in the rollout, as are `raw` and `log_prob`.
        old_value: As in the targets, as are `advantage` and `target`.
    """

    observation: Float[Tensor, "N D"]
    state: RecurrentState
    runs: PackedRuns
    loss_mask: Bool[Tensor, " N"]
    loss_index: Int[Tensor, " n"] | None
    index: Int[Tensor, " n"]
    noise: Float[Tensor, "n G"]
    mask: Bool[Tensor, "n M"]
    raw_action: Float[Tensor, "n A"]
    log_prob: Float[Tensor, "n heads"]
    old_value: Float[Tensor, " n"]
    advantage: Float[Tensor, " n"]
    returns: Float[Tensor, " n"]

    @classmethod
    def gather(
        cls,
        rollout: RolloutBuffer,
        targets: Targets,
        segments: Sequences,
        loss_mask: Bool[Tensor, " N"],
        layout: ActionLayout,
        rng: torch.Generator,
    ) -> "SequenceBatch":
        """What whole segments hold, with the decisions that carry loss."""
        rows = segments.rows
        loss_index = None if bool(loss_mask.all()) else loss_mask.nonzero().squeeze(1)
        index = rows if loss_index is None else rows.index_select(0, loss_index)
        return cls(
            observation=take_flat(rollout.observation, rows),
            state=segments.state,
            runs=segments.runs,
            loss_mask=loss_mask,
            loss_index=loss_index,
            index=index,
            noise=layout.draw_entropy_noise((len(index),), rng),
            mask=take_flat(rollout.mask, index),
            raw_action=take_flat(rollout.raw_action, index),
            log_prob=take_flat(rollout.log_prob, index),
            old_value=take_flat(targets.old_value, index),
            advantage=take_flat(targets.advantage, index),
            returns=take_flat(targets.returns, index),
        )


def take_flat(field: Shaped[Tensor, "T R ..."], rows: Int[Tensor, " N"]) -> Shaped[Tensor, "N ..."]:
    """What stands at N positions t * R + r."""
    return field.flatten(0, 1).index_select(0, rows)
