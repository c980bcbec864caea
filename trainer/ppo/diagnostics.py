"""Diagnostics of an update: gradients and saturation by action head, and drift of the recurrent state."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.spec import HeadKind
from arena.policies import ActorCritic
from trainer.ppo.sequences import split_into_sequences, take_flat
from trainer.rollout.buffer import RolloutBuffer

SATURATED_AT = 2.65
"""Raw continuous actions beyond +- this are squashed to more than 0.99: the tanh hardly passes gradient there."""


def head_gradients(network: ActorCritic, decided: Bool[Tensor, " heads"]) -> Float[Tensor, " heads"]:
    """Norm of the gradient of every head's own rows of the last layer.

    A head that `decided` nothing in the whole minibatch has no gradient, which is not the same as 0: NaN.
    """
    weight, bias = network.actor.weight.grad, network.actor.bias.grad
    if weight is None or bias is None:
        return torch.full_like(decided, torch.nan, dtype=torch.float32)
    squares = weight.square().sum(dim=1) + bias.square()
    of_heads = [squares[network.head_rows[part.head.name].rows].sum() for part in network.layout.parts]
    return torch.stack(of_heads).sqrt().masked_fill(~decided, torch.nan)


def continuous_heads(network: ActorCritic, rollout: RolloutBuffer) -> dict[str, float | None]:
    """Share of saturated actions, and mean standard deviation before squashing, of every gaussian head.

    Counted over the agents that acted; dimensions that did not matter count too, for they are drawn alike.
    """
    metrics: dict[str, float | None] = {}
    for part in network.layout.parts:
        if part.head.kind is HeadKind.GAUSSIAN and bool(rollout.active.any()):
            raw = rollout.raw_action[..., part.raw][rollout.active]
            metrics[f"heads/{part.head.name}/saturated"] = saturated(raw)
            metrics[f"heads/{part.head.name}/std"] = float(network.log_std[part.log_std].detach().exp().mean())
    return metrics


def saturated(raw: Float[Tensor, "n A"]) -> float:
    """Share of raw continuous actions that squashing holds at a limit."""
    return float((raw.abs() > SATURATED_AT).float().mean())


ROWS = 16
"""Rows that are looked at: enough for a mean, few enough to cost nothing beside an update."""


@torch.no_grad()
def state_drift(network: ActorCritic, rollout: RolloutBuffer) -> Float[Tensor, ""] | None:
    """Distance between the memory stored at the last chunk's start and what the present weights make of it.

    They go through the chunk before it from the state stored there. The distance is in norms of the stored memory; 0
    while the weights are those that acted. None for networks without memory and rollouts of a single chunk.
    """
    chunks, _, units = rollout.hidden.shape
    if chunks < 2 or units == 0:
        return None
    before, stored = _chunk(rollout.select_rows(slice(ROWS)), chunks - 2), rollout.hidden[-1, :ROWS]
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


def _chunk(rollout: RolloutBuffer, number: int) -> _Chunk:
    steps = slice(number * rollout.bptt_horizon, (number + 1) * rollout.bptt_horizon)
    decisions = (rollout.observation[steps], rollout.episode_start[steps], rollout.active[steps])
    return _Chunk(*decisions, rollout.hidden[number : number + 1], rollout.cell[number : number + 1])


def _hidden_after(network: ActorCritic, chunk: _Chunk) -> Float[Tensor, "R H"]:
    """Memory behind a chunk: what the last decision left, unless an episode has begun since, or nothing was decided."""
    times = torch.arange(1, len(chunk.active) + 1, device=chunk.active.device).unsqueeze(1)
    acted, opened = ((times * flags).amax(dim=0) for flags in (chunk.active, chunk.episode_start))
    hidden = chunk.hidden[0].masked_fill((opened > 0).unsqueeze(1), 0.0)
    sequences = split_into_sequences(chunk.episode_start, chunk.active, chunk.hidden, chunk.cell)
    if not len(sequences):
        return hidden
    output = network.hidden_states(take_flat(chunk.observation, sequences.flat_index), sequences.state, sequences.runs)
    last = (chunk.active & (times == acted) & (acted >= opened)).flatten()[sequences.flat_index]
    return hidden.index_copy(0, sequences.flat_index[last] % len(hidden), output[last])
