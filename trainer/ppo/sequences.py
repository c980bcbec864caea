"""Sequences for truncated backpropagation through time (BPTT) with stored recurrent states.

A rollout of T steps and R rows is cut into chunks of L = `rollout.bptt_horizon` steps. The buffer stores the recurrent
state of the actor at the start of each chunk. Inside a chunk, a row is cut again wherever an episode starts. Steps at
which the agent was inactive are left out, because they do not change its state. The results are sequences of at most L
decisions. The recurrent core computes a sequence in one call and reproduces the actor's outputs step by step.

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
    """S sequences of N decisions in total that share no state, the longest first.

    Attributes:
        index: Flat position t * R + r of each decision in the rollout (L, S), padded behind the end of a sequence.
        lengths: Decisions of each sequence (S,).
        state: Recurrent state before the first decision of each sequence, (S, H) each.
        starts_episode: Whether an episode starts with the first decision (S,): then the state is zero, never stale.
    """

    index: Int[Tensor, "L S"]
    lengths: Int[Tensor, " S"]
    state: RecurrentState
    starts_episode: Bool[Tensor, " S"]

    def __len__(self) -> int:
        """Return S."""
        return self.index.shape[1]

    @cached_property
    def step_mask(self) -> Bool[Tensor, "L S"]:
        """False where `index` is padding."""
        return torch.arange(len(self.index), device=self.index.device).unsqueeze(1) < self.lengths

    @cached_property
    def flat_index(self) -> Int[Tensor, " N"]:
        """Flat positions of all N decisions in the rollout, without padding, in the order of `runs`."""
        return self.index[self.step_mask]

    @property
    def runs(self) -> PackedRuns:
        """Packed layout of the sequences for the recurrent core."""
        return PackedRuns.of(self.lengths, len(self.index))

    def take(self, selected: Int[Tensor, " s"]) -> "Sequences":
        """Return some of the sequences, the longest first."""
        # The longest first: the recurrent core steps the runs that are still going on as one block.
        selected = selected[self.lengths[selected].argsort(descending=True, stable=True)]
        index = self.index.index_select(1, selected)
        state = RecurrentState(*(part.index_select(0, selected) for part in self.state))
        return Sequences(index, self.lengths[selected], state, self.starts_episode[selected])

    def split(self, count: int) -> "list[Sequences]":
        """Split into `count` parts with about the same number of decisions."""
        if count == 1:
            return [self]
        numbers = torch.arange(len(self), device=self.index.device)
        return [self.take(numbers[first::count]) for first in range(count)]

    def sum_per_sequence(self, flags: Bool[Tensor, " N"]) -> Float[Tensor, " S"]:
        """Count the true flags in each sequence."""
        # Scatter the flags back to (L, S): decisions are packed without padding.
        padded = self.step_mask.clone()
        padded[self.step_mask] = flags
        return padded.sum(dim=0).float()

    def after_burn_in(self, burn_in: int) -> Bool[Tensor, " N"]:
        """Mask out the burn-in: the first `burn_in` decisions of each sequence that starts from a stored state.

        Burn-in decisions carry no loss. They only bring the stored state up to date with the current weights.
        """
        if not burn_in:
            return torch.ones_like(self.flat_index, dtype=torch.bool)
        step = torch.arange(len(self.index), device=self.index.device).unsqueeze(1)
        return ((step >= burn_in) | self.starts_episode)[self.step_mask]


def split_into_sequences(
    episode_start: Bool[Tensor, "T R"],
    active: Bool[Tensor, "T R"],
    hidden: Float[Tensor, "C R H"],
    cell: Float[Tensor, "C R H"],
) -> Sequences:
    """Split a rollout into sequences at chunk boundaries and episode starts.

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
    sequence = opens_by_row.long().cumsum(0) - 1
    sizes = torch.zeros_like(sequence[: int(sequence[-1]) + 1]).index_add_(0, sequence, acts_by_row.long())
    offset = acts_by_row.long().cumsum(0) - 1 - (sizes.cumsum(0) - sizes)[sequence]
    position = (times * rows + torch.arange(rows, device=active.device)).t().flatten()
    index = position.new_zeros(length, len(sizes))
    index[offset[acts_by_row], sequence[acts_by_row]] = position[acts_by_row]
    first = position[opens_by_row]
    starts_episode = episode_start.flatten()[first]
    chunk_row = (first // rows // length) * rows + first % rows
    states = (part.flatten(0, 1)[chunk_row].masked_fill(starts_episode.unsqueeze(1), 0.0) for part in (hidden, cell))
    sequences = Sequences(index, sizes, RecurrentState(*states), starts_episode)
    # A row that was inactive for a whole chunk has no decisions, and its state did not change.
    return sequences.take(sizes.nonzero().squeeze(1))


def shuffle_minibatches(
    weights: Float[Tensor, " S"], count: int, rng: torch.Generator
) -> tuple[Int[Tensor, " _"], ...]:
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
    weight = weights.cpu().numpy()
    order = order[np.argsort(-weight[order], kind="stable")]
    rounds = np.append(order, np.full(-len(order) % count, -1)).reshape(-1, count)
    round_weights = np.append(weight, 0.0)[rounds]  # padding is -1 and weighs 0
    totals = np.zeros(count)
    # A round of equal weights changes no difference between totals, so only the other rounds need a new order.
    for number in np.flatnonzero(round_weights[:, 0] > round_weights[:, -1]):
        lightest_first = np.argsort(totals, kind="stable")
        rounds[number, lightest_first] = rounds[number].copy()
        totals[lightest_first] += round_weights[number]
    larger_first = np.argsort((rounds[-1:] < 0).sum(axis=0), kind="stable")
    minibatches = [torch.from_numpy(numbers[numbers >= 0]) for numbers in rounds.T[larger_first]]
    return tuple(numbers.to(weights.device) for numbers in minibatches)


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
        loss_mask: Bool[Tensor, " N"],
        layout: ActionLayout,
        rng: torch.Generator,
    ) -> "SequenceBatch":
        """Gather whole sequences from a rollout and its targets."""
        flat_index = sequences.flat_index
        # Selecting all rows would copy them.
        loss_index = None if bool(loss_mask.all()) else loss_mask.nonzero().squeeze(1)
        index = flat_index if loss_index is None else flat_index.index_select(0, loss_index)
        return cls(
            observation=take_flat(rollout.observation, flat_index),
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
