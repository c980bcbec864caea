"""An optional second task: to predict from the core's features what the agent sees next.

Its layer belongs to the learner alone: players do not need it, so snapshots leave it out and saved states keep it.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.policies import ActorCritic, Runs
from arena.policies.sets import known
from trainer.distributed import ALONE, Ranks, average


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
        ranks: Ranks = ALONE,
    ) -> Float[Tensor, ""]:
        """Mean squared error over everything that can be predicted; 0 where nothing can.

        With several ranks it is scaled so that their mean, by decisions that carry loss, is that over all their parts.

        A run's last decision predicts nothing: an episode or a chunk ends there. Decisions at which the agent was
        inactive are in no run. Empty places of a set that the network reads as one are not predicted.

        Args:
            network: Normalises observations as it does for itself.
            features: What the core made of each decision.
            values: Observation of each decision, before normalisation.
            runs: How decisions follow each other.
            counts: Decisions that carry loss.
            ranks: Whose mean is meant; a collective call where there are several.
        """
        before, after = successive(runs)
        chosen = counts[before].nonzero().squeeze(1)
        before, after = before[chosen], after[chosen]
        seen = values.index_select(0, after)
        meant = known(seen, network.architecture.sets)
        predicted = torch.addmm(self.bias, features.index_select(0, before), self.weight.t())
        errors = (predicted - network.normalise(seen).where(meant, 0.0)).square().where(meant, 0.0)
        if ranks.count == 1:
            return errors.sum() / meant.sum().clamp(min=1)
        decisions = counts.sum().clamp(min=1).float()
        per_decision = average(ranks, meant.sum() / decisions, counts.sum().float())
        return errors.sum() / decisions / per_decision.clamp(min=torch.finfo(torch.float32).tiny)


def successive(runs: Runs) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Rows of all decisions that another one of their run follows, and rows of these others."""
    begins = runs.first.long()
    sizes = begins.diff()
    after = torch.arange(int(sizes[:1].sum()), int(sizes.sum()), device=begins.device)
    return after - sizes[:-1].repeat_interleave(sizes[1:]), after
