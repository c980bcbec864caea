"""A minibatch, gathered from a rollout: everything that its loss hangs on but the weights."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from arena.policies import RecurrentState, Runs
from arena.policies.distributions import ActionLayout
from trainer.chunks import Segments
from trainer.rollout import Rollout


@dataclass(frozen=True)
class Targets:
    """What an update learns from, beside the rollout.

    Attributes:
        advantage: Normalised advantage of each action.
        value: Return of each decision, in the critic's units.
        valid: Decisions that count.
    """

    advantage: Float[Tensor, "T R"]
    value: Float[Tensor, "T R"]
    valid: Bool[Tensor, "T R"]


@dataclass(frozen=True)
class Samples:
    """N decisions that go through the core, and what is needed of the n among them that carry loss.

    Attributes:
        seen: Observations, before normalisation.
        state: State before each run.
        runs: How the N decisions follow each other.
        counts: Which of them carry loss.
        chosen: Where these n are among the N; None where that is all.
        index: Position t * R + r of each of the n in the rollout.
        noise: Chance for the estimate of their entropy.
        mask: As in the rollout, as are `raw`, `log_prob` and `old_value`.
        advantage: As in the targets, as is `target`.
    """

    seen: Float[Tensor, "N D"]
    state: RecurrentState
    runs: Runs
    counts: Bool[Tensor, " N"]
    chosen: Int[Tensor, " n"] | None
    index: Int[Tensor, " n"]
    noise: Float[Tensor, "n G"]
    mask: Bool[Tensor, "n M"]
    raw: Float[Tensor, "n A"]
    log_prob: Float[Tensor, "n heads"]
    old_value: Float[Tensor, " n"]
    advantage: Float[Tensor, " n"]
    target: Float[Tensor, " n"]

    @classmethod
    def gather(
        cls,
        rollout: Rollout,
        targets: Targets,
        segments: Segments,
        counts: Bool[Tensor, " N"],
        layout: ActionLayout,
        rng: torch.Generator,
    ) -> "Samples":
        """What whole segments hold, with the decisions that carry loss."""
        rows = segments.rows
        chosen = None if bool(counts.all()) else counts.nonzero().squeeze(1)
        index = rows if chosen is None else rows.index_select(0, chosen)
        return cls(
            seen=at(rollout.observation, rows),
            state=segments.state,
            runs=segments.runs,
            counts=counts,
            chosen=chosen,
            index=index,
            noise=layout.draw_entropy_noise((len(index),), rng),
            mask=at(rollout.mask, index),
            raw=at(rollout.raw, index),
            log_prob=at(rollout.log_prob, index),
            old_value=at(rollout.value, index),
            advantage=at(targets.advantage, index),
            target=at(targets.value, index),
        )


def at(field: Shaped[Tensor, "T R ..."], rows: Int[Tensor, " N"]) -> Shaped[Tensor, "N ..."]:
    """What stands at N positions t * R + r."""
    return field.flatten(0, 1).index_select(0, rows)
