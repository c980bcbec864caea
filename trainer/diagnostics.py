"""What each action head does: how hard it is pushed, how wide it draws, and how often it stands at its limits."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.spec import HeadKind
from arena.policies import ActorCritic
from trainer.rollout import Rollout

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
    of_heads = [squares[network.actor_parts[part.head.name].rows].sum() for part in network.layout.parts]
    return torch.stack(of_heads).sqrt().masked_fill(~decided, torch.nan)


def continuous_heads(network: ActorCritic, rollout: Rollout) -> dict[str, float | None]:
    """Share of saturated actions, and mean standard deviation before squashing, of every gaussian head.

    Counted over the agents that acted; dimensions that did not matter count too, for they are drawn alike.
    """
    metrics: dict[str, float | None] = {}
    for part in network.layout.parts:
        if part.head.kind is HeadKind.GAUSSIAN and bool(rollout.active.any()):
            raw = rollout.raw[..., part.raw][rollout.active]
            metrics[f"heads/{part.head.name}/saturated"] = saturated(raw)
            metrics[f"heads/{part.head.name}/std"] = float(network.log_std[part.log_std].detach().exp().mean())
    return metrics


def saturated(raw: Float[Tensor, "n A"]) -> float:
    """Share of raw continuous actions that squashing holds at a limit."""
    return float((raw.abs() > SATURATED_AT).float().mean())
