"""How stale the memory in a rollout has become while the weights moved."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.policies import ActorCritic
from trainer.chunks import cut
from trainer.rollout import Rollout
from trainer.samples import at

ROWS = 16
"""Rows that are looked at: enough for a mean, few enough to cost nothing beside an update."""


@torch.no_grad()
def state_drift(network: ActorCritic, rollout: Rollout) -> Float[Tensor, ""] | None:
    """Distance between the memory stored at the last chunk's start and what the present weights make of it.

    They go through the chunk before it from the state stored there. The distance is in norms of the stored memory; 0
    while the weights are those that acted. None for networks without memory and rollouts of a single chunk.
    """
    chunks, _, units = rollout.hidden.shape
    if chunks < 2 or units == 0:
        return None
    before, stored = _chunk(rollout.rows(slice(ROWS)), chunks - 2), rollout.hidden[-1, :ROWS]
    moved, size = (torch.linalg.vector_norm(each) for each in (_hidden_after(network, before) - stored, stored))
    drift: Tensor = moved / size.clamp(min=torch.finfo(stored.dtype).tiny)
    return drift


class _Chunk(NamedTuple):
    """L decisions of some rows."""

    observation: Float[Tensor, "L R D"]
    episode_start: Bool[Tensor, "L R"]
    active: Bool[Tensor, "L R"]
    hidden: Float[Tensor, "1 R H"]
    cell: Float[Tensor, "1 R H"]


def _chunk(rollout: Rollout, number: int) -> _Chunk:
    steps = slice(number * rollout.chunk, (number + 1) * rollout.chunk)
    decisions = (rollout.observation[steps], rollout.episode_start[steps], rollout.active[steps])
    return _Chunk(*decisions, rollout.hidden[number : number + 1], rollout.cell[number : number + 1])


def _hidden_after(network: ActorCritic, chunk: _Chunk) -> Float[Tensor, "R H"]:
    """Memory behind a chunk: what the last decision left, unless an episode has begun since, or nothing was decided."""
    times = torch.arange(1, len(chunk.active) + 1, device=chunk.active.device).unsqueeze(1)
    acted, opened = ((times * flags).amax(dim=0) for flags in (chunk.active, chunk.episode_start))
    hidden = chunk.hidden[0].masked_fill((opened > 0).unsqueeze(1), 0.0)
    segments = cut(chunk.episode_start, chunk.active, chunk.hidden, chunk.cell)
    if not len(segments):
        return hidden
    output = network.remember(at(chunk.observation, segments.rows), segments.state, segments.runs)
    last = (chunk.active & (times == acted) & (acted >= opened)).flatten()[segments.rows]
    return hidden.index_copy(0, segments.rows[last] % len(hidden), output[last])
