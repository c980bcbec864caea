"""Exponential moving average (EMA) of a network's weights, which is published instead of the trained weights.

In self-play, weights cycle around a good policy and rarely reach it. Their average is closer to it.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from arena.policies import ActorCritic
from arena.policies.checkpoint import load_strictly

GROWTH = 9.0
"""Updates in which the averaging window grows by one update, until it reaches the horizon."""


class WeightEMA:
    """Exponential moving average of a network's weights, with a window that grows at the start of training.

        mean[0] = weights[0]
        mean[n] = mean[n-1] + rate[n] (weights[n] - mean[n-1]),   rate[n] = max(1 / (1 + horizon), 9 / (9 + n))

    The second rate averages over about the last ninth of all updates, so that the first weights are soon forgotten.
    Observation statistics are not averaged: they are copied from the trained network.

    Args:
        network: Network to average; the average starts at its weights.
        horizon: Length of the full averaging window in updates, >= 0.

    Sources: Polyak averaging, as KataGo publishes its networks, for the first rate; Shamir and Zhang, "Stochastic
    Gradient Descent for Non-smooth Optimization" (2013), section 4, with eta 8, for the second.
    """

    def __init__(self, network: ActorCritic, horizon: float) -> None:
        self._min_rate = 1.0 / (1.0 + horizon)
        self.reset(network)

    @property
    def network(self) -> ActorCritic:
        """Network with the averaged weights."""
        return cast(ActorCritic, self._model.module)

    def reset(self, network: ActorCritic) -> None:
        """Restart the average at a network's current weights."""
        self._model = AveragedModel(network, multi_avg_fn=self._update_means)
        self.update(network)

    def update(self, network: ActorCritic) -> None:
        """Add a network's current weights to the average."""
        self._model.update_parameters(network)

    @torch.no_grad()
    def distance(self, network: ActorCritic) -> float:
        """Return the distance |weights - mean| / |weights|."""
        weights, mean = (nn.utils.parameters_to_vector(each.parameters()) for each in (network, self.network))
        return float(torch.linalg.vector_norm(weights - mean) / torch.linalg.vector_norm(weights))

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of the average by name, for a saved state."""
        return self._model.state_dict()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the result of `tensors`.

        Raises:
            CheckpointError: The tensors do not fit the network.
        """
        load_strictly(self._model, tensors, "the saved state")

    def _update_means(self, means: Sequence[Tensor], weights: Sequence[Tensor], update: Tensor | int) -> None:
        """Move the means towards the weights; updates are counted from 1."""
        rate = max(self._min_rate, GROWTH / (GROWTH + float(update)))
        for mean, weight in zip(means, weights, strict=True):
            mean.lerp_(weight, rate)
