"""An optional second task: to predict from the core's features what the agent sees next.

Its layer belongs to the learner alone: players do not need it, so snapshots leave it out and saved states keep it.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.policies import ActorCritic, Runs


class NextObservation(nn.Module):
    """A linear layer from the core's features to the next observation, in the network's units."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        architecture, device = network.architecture, network.observation_mean.device
        self.weight = nn.Parameter(
            torch.zeros(architecture.observation_size, architecture.recurrent_size, device=device)
        )
        self.bias = nn.Parameter(torch.zeros(architecture.observation_size, device=device))

    def error(
        self,
        network: ActorCritic,
        features: Float[Tensor, "N H"],
        values: Float[Tensor, "N D"],
        runs: Runs,
        counts: Bool[Tensor, " N"],
    ) -> Float[Tensor, ""]:
        """Sum of squared errors over all `places`.

        A run's last decision predicts nothing: an episode or a chunk ends there. Decisions at which the agent was
        inactive are in no run. Empty places of a set that the network reads as one are not predicted, nor are choices.

        Args:
            network: Normalises observations as it does for itself.
            features: What the core made of each decision.
            values: Observation of each decision, before normalisation.
            runs: How decisions follow each other.
            counts: Decisions that carry loss: these predict.
        """
        before, after = _pairs(runs, counts)
        seen = values.index_select(0, after)
        meant = network.meant(seen)
        predicted = torch.addmm(self.bias, features.index_select(0, before), self.weight.t())
        return (predicted - network.normalise(seen).where(meant, 0.0)).square().where(meant, 0.0).sum()

    def places(
        self, network: ActorCritic, values: Float[Tensor, "N D"], runs: Runs, counts: Bool[Tensor, " N"]
    ) -> Float[Tensor, ""]:
        """How many numbers are predicted; arguments as those of `error`."""
        _, after = _pairs(runs, counts)
        return network.meant(values.index_select(0, after)).sum().float()


def _pairs(runs: Runs, counts: Bool[Tensor, " N"]) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Rows of the decisions that predict, and of those that they predict."""
    before, after = successive(runs)
    chosen = counts[before].nonzero().squeeze(1)
    return before[chosen], after[chosen]


def successive(runs: Runs) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Rows of all decisions that another one of their run follows, and rows of these others."""
    begins = runs.first.long()
    sizes = begins.diff()
    after = torch.arange(int(sizes[:1].sum()), int(sizes.sum()), device=begins.device)
    return after - sizes[:-1].repeat_interleave(sizes[1:]), after
