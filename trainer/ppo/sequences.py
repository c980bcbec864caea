"""Sequences for truncated backpropagation through time (BPTT) with stored recurrent states.

A rollout of T steps and R rows is cut into chunks of L = `rollout.bptt_horizon` steps. The buffer stores the recurrent
state of the actor at the start of each chunk. Inside a chunk, a row is cut again wherever an episode starts. Steps at
which the agent was inactive are left out, because they do not change its state. The results are sequences of at most L
decisions. The recurrent core computes a sequence in one call and reproduces the actor's outputs step by step.

Source: Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from arena.policies import PackedRuns, RecurrentState
from arena.policies.nn.distributions import ActionLayout
from trainer.rollout.buffer import RolloutBuffer

PADDING = -1
"""Entry of `Sequences.index` behind the end of a sequence."""


@dataclass(frozen=True)
class Sequences:
    """S sequences of N decisions in total that share no state, the longest first.

    Lengths are also known to the host. From them it knows the size of every tensor that is gathered for a minibatch,
    so that no operation waits for the device.

    Attributes:
        index: Flat position t * R + r of each decision in the rollout (L, S), padded behind the end of a sequence.
        state: Recurrent state before the first decision of each sequence, (S, H) each.
        starts_episode: Whether an episode starts with the first decision (S,): then the state is zero, never stale.
        lengths: Decisions of each sequence (S,), on the host.
        loss_lengths: Decisions of each sequence that carry loss (S,), on the host.
        loss_table: Which decisions carry loss (L, S); None if all do.
    """

    index: Int[Tensor, "L S"]
    state: RecurrentState
    starts_episode: Bool[Tensor, " S"]
    lengths: NDArray[np.int64]
    loss_lengths: NDArray[np.int64]
    loss_table: Bool[Tensor, "L S"] | None = None

    def __len__(self) -> int:
        """Return S."""
        return self.index.shape[1]

    @property
    def step_mask(self) -> Bool[Tensor, "L S"]:
        """False where `index` is padding."""
        return self.index != PADDING

    @cached_property
    def runs(self) -> PackedRuns:
        """Packed layout of the sequences for the recurrent core."""
        return PackedRuns.of(self.lengths, len(self.index), self.step_mask)

    @cached_property
    def flat_index(self) -> Int[Tensor, " N"]:
        """Flat positions of all N decisions in the rollout, without padding, in the order of `runs`."""
        return self.index.flatten().index_select(0, self.runs.padded_index)

    @property
    def loss_mask(self) -> Bool[Tensor, " N"]:
        """Which of the N decisions carry loss."""
        if self.loss_table is None:
            return torch.ones_like(self.flat_index, dtype=torch.bool)
        return self.loss_table.flatten().index_select(0, self.runs.padded_index)

    def with_loss(self, valid: Bool[Tensor, "T R"], burn_in: int) -> "Sequences":
        """Return the sequences with other decisions that carry loss: the valid ones behind the burn-in.

        Burn-in decisions are the first `burn_in` of each sequence that starts from a stored state. They only bring that
        state up to date with the current weights.
        """
        step = torch.arange(len(self.index), device=self.index.device).unsqueeze(1)
        behind = (step >= burn_in) | self.starts_episode
        table = valid.flatten()[self.index] & behind & self.step_mask
        loss_lengths = table.sum(dim=0).cpu().numpy()
        carries_all = np.array_equal(loss_lengths, self.lengths)
        return replace(self, loss_lengths=loss_lengths, loss_table=None if carries_all else table)

    def take(self, selected: NDArray[np.int64]) -> "Sequences":
        """Return some of the sequences, the longest first."""
        [taken] = self.take_each([selected])
        return taken

    def take_each(self, groups: Sequence[NDArray[np.int64]]) -> "Iterator[Sequences]":
        """Yield groups of the sequences, the longest first; their numbers are uploaded at once."""
        # The longest first: the recurrent core steps the runs that are still going on as one block.
        groups = [numbers[np.argsort(-self.lengths[numbers], kind="stable")] for numbers in groups]
        selected = torch.from_numpy(np.concatenate(groups)).to(self.index.device)
        for numbers, chosen in zip(groups, torch.split(selected, [len(each) for each in groups]), strict=True):
            yield Sequences(
                index=self.index.index_select(1, chosen),
                state=RecurrentState(*(part.index_select(0, chosen) for part in self.state)),
                starts_episode=self.starts_episode.index_select(0, chosen),
                lengths=self.lengths[numbers],
                loss_lengths=self.loss_lengths[numbers],
                loss_table=None if self.loss_table is None else self.loss_table.index_select(1, chosen),
            )

    def split(self, count: int) -> "list[Sequences]":
        """Split into `count` parts with about the same number of decisions."""
        if count <= 1:
            return [self]
        numbers = np.arange(len(self))
        return list(self.take_each([numbers[first::count] for first in range(count)]))


def split_into_sequences(
    episode_start: Bool[Tensor, "T R"],
    active: Bool[Tensor, "T R"],
    hidden: Float[Tensor, "C R H"],
    cell: Float[Tensor, "C R H"],
) -> Sequences:
    """Split a rollout into sequences at chunk boundaries and episode starts; all decisions carry loss.

    Args:
        episode_start: Whether an episode starts at the step; the state is zeroed before it.
        active: Whether the agent acts at the step.
        hidden: Hidden state before the first step of each of C chunks; C divides T.
        cell: Cell state, likewise.
    """
    steps, rows = active.shape
    length = steps // hidden.shape[0]
    times = torch.arange(steps, device=active.device).unsqueeze(1)
    opens = episode_start | (times % length == 0)
    # Row by row, so that the decisions of a sequence are neighbours.
    opens_by_row, acts_by_row = opens.t().flatten(), active.t().flatten()
    position = torch.arange(active.numel(), device=active.device).view(steps, rows).t().flatten()
    sequence = opens_by_row.cumsum(0) - 1
    count = int(sequence[-1]) + 1
    sizes = sequence.new_zeros(count).index_add_(0, sequence, acts_by_row.long())
    offset = acts_by_row.cumsum(0) - 1 - (sizes.cumsum(0) - sizes)[sequence]
    # Steps without a decision are written behind the table: a boolean index would wait for the device.
    entry = torch.where(acts_by_row, offset * count + sequence, length * count)
    table = position.new_full((length * count + 1,), PADDING).scatter_(0, entry, position)
    order = sizes.argsort(descending=True, stable=True)
    lengths = sizes[order].cpu().numpy()
    # A row that was inactive for a whole chunk has no decisions, and its state did not change.
    lengths = lengths[lengths > 0]
    order = order[: len(lengths)]
    first = torch.nonzero_static(opens_by_row, size=count).squeeze(1)[order]
    first = position[first]
    starts_episode = episode_start.flatten()[first]
    chunk_row = (first // rows // length) * rows + first % rows
    states = (part.flatten(0, 1)[chunk_row].masked_fill(starts_episode.unsqueeze(1), 0.0) for part in (hidden, cell))
    index = table[:-1].view(length, count).index_select(1, order)
    return Sequences(index, RecurrentState(*states), starts_episode, lengths, lengths)


def shuffle_minibatches(weights: NDArray[np.int64], count: int, rng: torch.Generator) -> list[NDArray[np.int64]]:
    """Deal sequences at random into minibatches of nearly equal total weight; return the sequences of each.

    Sequences are dealt in rounds of `count`, the heaviest first. In each round the heaviest sequence goes to the
    lightest minibatch. The sizes of minibatches therefore differ by at most one sequence, and their total weights by at
    most the weight of one sequence. Ties are broken at random. Larger minibatches come first. If there are fewer
    sequences than minibatches, the last minibatches are empty.

    Args:
        weights: Weight of each of S sequences, >= 0: its number of decisions that carry loss.
        count: Number of minibatches.
        rng: Source of the random order.
    """
    order = torch.randperm(len(weights), generator=rng, device=rng.device).cpu().numpy()
    order = order[np.argsort(-weights[order], kind="stable")]
    rounds = np.append(order, np.full(-len(order) % count, -1)).reshape(-1, count)
    round_weights = np.append(weights, 0)[rounds]  # padding is -1 and weighs 0
    totals = np.zeros(count)
    # A round of equal weights changes no difference between totals, so only the other rounds need a new order.
    for number in np.flatnonzero(round_weights[:, 0] > round_weights[:, -1]):
        lightest_first = np.argsort(totals, kind="stable")
        rounds[number, lightest_first] = rounds[number].copy()
        totals[lightest_first] += round_weights[number]
    larger_first = np.argsort((rounds[-1:] < 0).sum(axis=0), kind="stable")
    return [numbers[numbers >= 0] for numbers in rounds.T[larger_first]]


@dataclass(frozen=True)
class Targets:
    """Advantages, returns and old values of a rollout.

    Attributes:
        advantage: Normalised advantage of each action.
        returns: Return of each decision, in the critic's units.
        old_value: Prediction of the critic when the agent acted, in the critic's current units.
        valid: Decisions to learn from.
    """

    advantage: Float[Tensor, "T R"]
    returns: Float[Tensor, "T R"]
    old_value: Float[Tensor, "T R"]
    valid: Bool[Tensor, "T R"]


@dataclass(frozen=True)
class SequenceBatch:
    """N decisions that pass through the recurrent core, and the samples of the n <= N of them that carry loss.

    Attributes:
        observation: Observations, before normalisation.
        state: Recurrent state before each sequence.
        runs: Packed layout of the N decisions.
        loss_mask: Which of the N decisions carry loss.
        loss_index: Indices of the n among the N; None if all carry loss.
        index: Flat position t * R + r of each of the n in the rollout.
        noise: Standard normal samples for the entropy estimate of squashed gaussian heads.
        action_mask: Packed action masks, as in `RolloutBuffer`.
        raw_action: As in `RolloutBuffer`.
        log_prob: As in `RolloutBuffer`.
        old_value: As in `Targets`.
        advantage: As in `Targets`.
        returns: As in `Targets`.
    """

    observation: Float[Tensor, "N D"]
    state: RecurrentState
    runs: PackedRuns
    loss_mask: Bool[Tensor, " N"]
    loss_index: Int[Tensor, " n"] | None
    index: Int[Tensor, " n"]
    noise: Float[Tensor, "n G"]
    action_mask: Bool[Tensor, "n M"]
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
        sequences: Sequences,
        layout: ActionLayout,
        rng: torch.Generator,
    ) -> "SequenceBatch":
        """Gather whole sequences from a rollout and its targets."""
        index, loss_mask, loss_index = sequences.flat_index, sequences.loss_mask, None
        observation = take_flat(rollout.observation, index)
        if sequences.loss_table is not None:
            # Only if some do not carry loss: selecting all rows would copy them.
            loss_index = torch.nonzero_static(loss_mask, size=int(sequences.loss_lengths.sum())).squeeze(1)
            index = index.index_select(0, loss_index)
        return cls(
            observation=observation,
            state=sequences.state,
            runs=sequences.runs,
            loss_mask=loss_mask,
            loss_index=loss_index,
            index=index,
            noise=layout.draw_entropy_noise((len(index),), rng),
            action_mask=take_flat(rollout.action_mask, index),
            raw_action=take_flat(rollout.raw_action, index),
            log_prob=take_flat(rollout.log_prob, index),
            old_value=take_flat(targets.old_value, index),
            advantage=take_flat(targets.advantage, index),
            returns=take_flat(targets.returns, index),
        )


def take_flat(field: Shaped[Tensor, "T R ..."], index: Int[Tensor, " N"]) -> Shaped[Tensor, "N ..."]:
    """Select N entries of a rollout field by their flat positions t * R + r."""
    return field.flatten(0, 1).index_select(0, index)
