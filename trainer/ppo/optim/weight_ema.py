"""The running mean of a network's weights: what is published while other weights are trained.

Weights that self-play moves circle around a good policy and are rarely there. Their mean over a while is nearer.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from arena.policies import ActorCritic
from arena.policies.checkpoint import load_strictly

GROWTH = 9.0
"""Updates in which the mean's length grows by one, until it has its full length."""


class WeightEMA:
    """Exponential moving average of a network's weights, update by update, as long as it has had updates for.

        mean[0] = weights[0]
        mean[n] = mean[n-1] + rate[n] (weights[n] - mean[n-1]),   rate[n] = max(1 / (1 + horizon), 9 / (9 + n))

    By the second rate the mean is over about the last ninth of all updates, so that first weights are soon forgotten.
    Statistics of observations are not averaged: they are those of the weights that are trained.

    Args:
        network: Whose weights are averaged; the mean begins with them.
        horizon: Updates that it is over in the end, >= 0.

    Source: the first rate is that of Polyak averages as KataGo publishes them, the second polynomial-decay averaging of
    Shamir and Zhang 2013, section 4, with eta 8.
    """

    def __init__(self, network: ActorCritic, horizon: float) -> None:
        self._least_rate = 1.0 / (1.0 + horizon)
        self.begin(network)

    @property
    def network(self) -> ActorCritic:
        """Has the mean for weights."""
        return cast(ActorCritic, self._model.module)

    def begin(self, network: ActorCritic) -> None:
        """Forget the mean, and begin with the present weights."""
        self._model = AveragedModel(network, multi_avg_fn=self._approach)
        self.take(network)

    def take(self, network: ActorCritic) -> None:
        """Take the present weights in."""
        self._model.update_parameters(network)

    @torch.no_grad()
    def distance(self, network: ActorCritic) -> float:
        """Norm of what present weights and the mean differ by, in that of the weights."""
        weights, mean = (nn.utils.parameters_to_vector(each.parameters()) for each in (network, self.network))
        return float(torch.linalg.vector_norm(weights - mean) / torch.linalg.vector_norm(weights))

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to continue, by name."""
        return self._model.state_dict()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` gave.

        Raises:
            CheckpointError: They do not fit the network.
        """
        load_strictly(self._model, tensors, "the saved state")

    def _approach(self, means: Sequence[Tensor], weights: Sequence[Tensor], update: Tensor | int) -> None:
        """Move means towards the weights after an update, counted from 1."""
        rate = max(self._least_rate, GROWTH / (GROWTH + float(update)))
        for mean, weight in zip(means, weights, strict=True):
            mean.lerp_(weight, rate)
