"""Diagnostics of an update: gradient norm and saturation per action head, and drift of the recurrent state."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.spec import HeadKind
from arena.policies import ActorCritic
from trainer.ppo.sequences import split_into_sequences, take_flat
from trainer.rollout.buffer import RolloutBuffer

SATURATED_AT = 2.65
"""Raw continuous actions beyond +- this have |tanh| > 0.99, where tanh passes almost no gradient."""


def head_gradients(network: ActorCritic, has_samples: Bool[Tensor, " heads"]) -> Float[Tensor, " heads"]:
    """Gradient norm of each head's rows of the actor's output layer.

    NaN for a head without samples in the minibatch: it has no gradient, which is not the same as gradient 0.
    """
    weight, bias = network.actor.weight.grad, network.actor.bias.grad
    if weight is None or bias is None:
        return torch.full_like(has_samples, torch.nan, dtype=torch.float32)
    rows = [network.head_rows[part.head.name].rows for part in network.layout.parts]
    norms = torch.stack(torch._foreach_norm([each[place] for each in (weight, bias) for place in rows]))
    per_head: Tensor = torch.linalg.vector_norm(norms.view(2, -1), dim=0)
    return per_head.masked_fill(~has_samples, torch.nan)


def continuous_heads(network: ActorCritic, rollout: RolloutBuffer) -> dict[str, float | None]:
    """Share of saturated actions, and mean standard deviation before squashing, of each gaussian head.

    Over the actions of active agents, including masked dimensions, which are sampled alike.
    """
    log_std, names, values = network.log_std.detach(), [], []
    for part in network.layout.parts:
        if part.head.kind is HeadKind.GAUSSIAN:
            names += [f"heads/{part.head.name}/saturated", f"heads/{part.head.name}/std"]
            values += [saturated(rollout.raw_action[..., part.raw], rollout.active), log_std[part.log_std].exp().mean()]
    found = torch.stack(values).tolist() if values else []
    return {} if any(map(math.isnan, found)) else dict(zip(names, found, strict=True))


def saturated(raw: Float[Tensor, "... A"], active: Bool[Tensor, "..."]) -> Float[Tensor, ""]:
    """Share of active agents' raw continuous actions that tanh saturates; NaN without an active agent."""
    is_saturated = (raw.abs() > SATURATED_AT) & active.unsqueeze(-1)
    return is_saturated.sum() / (active.sum() * raw.shape[-1])


MAX_ROWS = 16
"""Rows that the drift is measured on: enough for a mean, and cheap next to an update."""


@torch.no_grad()
def state_drift(network: ActorCritic, rollout: RolloutBuffer) -> Float[Tensor, ""] | None:
    """Recurrent state drift: relative distance between stored hidden states and those under the current weights.

        |h' - h| / |h|

    Here h is stored at the start of the last chunk. h' results from the chunk before it, from the state stored at that
    chunk's start. 0 under the weights that acted. None for feedforward networks, or if a rollout is a single chunk.

    Source: Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (2019), section 3.
    """
    chunks, _, units = rollout.hidden.shape
    if chunks < 2 or units == 0:
        return None
    stored = rollout.hidden[-1, :MAX_ROWS]
    recomputed = _hidden_after_chunk(network, rollout.select_rows(slice(MAX_ROWS)), chunks - 2)
    distance, norm = (torch.linalg.vector_norm(each) for each in (recomputed - stored, stored))
    # A state of zeros that is recomputed exactly has a drift of 0, not of 0 / 0.
    drift: Tensor = distance / norm.clamp(min=torch.finfo(stored.dtype).tiny)
    return drift


def _hidden_after_chunk(network: ActorCritic, rollout: RolloutBuffer, chunk: int) -> Float[Tensor, "R H"]:
    """Return the hidden state after a chunk; 0 if an episode has started since the agent's last action."""
    steps = slice(chunk * rollout.bptt_horizon, (chunk + 1) * rollout.bptt_horizon)
    active, episode_start = rollout.active[steps], rollout.episode_start[steps]
    before, cell = rollout.hidden[chunk : chunk + 1], rollout.cell[chunk : chunk + 1]
    times = torch.arange(1, len(active) + 1, device=active.device).unsqueeze(1)
    last_action, last_start = ((times * flags).amax(dim=0) for flags in (active, episode_start))
    # A row without a decision since its episode began still has the zero state.
    hidden = before[0].masked_fill((last_start > 0).unsqueeze(1), 0.0)
    sequences = split_into_sequences(episode_start, active, before, cell)
    if not len(sequences):
        return hidden
    index = sequences.flat_index
    output = network.hidden_states(take_flat(rollout.observation[steps], index), sequences.state, sequences.runs)
    is_last = (active & (times == last_action) & (last_action >= last_start)).flatten()[index]
    # All other outputs go to a row behind the last: a boolean index would wait for the device.
    row = torch.where(is_last, index % len(hidden), len(hidden))
    return torch.cat([hidden, hidden[:1]]).index_copy(0, row, output)[:-1]
