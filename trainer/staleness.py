"""How stale the memory in a rollout has become while the weights moved."""

import torch
from jaxtyping import Float
from torch import Tensor

from arena.policies import ActorCritic, RecurrentState
from trainer.rollout import Rollout

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
    length = len(rollout.reward) // chunks
    state = RecurrentState(rollout.hidden[-2, :ROWS], rollout.cell[-2, :ROWS])
    for t in range((chunks - 2) * length, (chunks - 1) * length):
        seen, start, active = rollout.observation[t, :ROWS], rollout.episode_start[t, :ROWS], rollout.active[t, :ROWS]
        state = network.step(seen, state, start, active).state
    stored = rollout.hidden[-1, :ROWS]
    moved, size = (torch.linalg.vector_norm(each) for each in (state.hidden - stored, stored))
    drift: Tensor = moved / size.clamp(min=torch.finfo(stored.dtype).tiny)
    return drift
