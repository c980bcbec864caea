"""Greedy play: a trained network without sampling."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.policies.network_policy import NetworkPolicy, act_with
from arena.policies.nn.packed_runs import RecurrentState
from arena.policies.protocol import Policy, State


class GreedyPolicy:
    """Takes the mode of the network's distribution: the most likely option or switch, or the mean.

    Not a subclass of `NetworkPolicy`, because those are batched into ensembles that sample.

    Attributes:
        network: In evaluation mode.
    """

    def __init__(self, policy: NetworkPolicy) -> None:
        self.network = policy.network

    def initial_state(self, rows: int) -> RecurrentState:
        """Return an all-zero state."""
        return self.network.initial_state(rows)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Choose the most likely actions; see `Policy.act`."""
        return act_with(self._most_likely, self.network, observation, state, episode_start)

    def _most_likely(self, parameters: Float[Tensor, "R P"], mask: Bool[Tensor, "R M"]) -> Float[Tensor, "R A"]:
        layout, no_noise = self.network.layout, torch.zeros_like(parameters)
        return layout.sample_with_noise(parameters, no_noise, layout.noise_scale(self.network.log_std), mask)


def greedy(policy: Policy) -> Policy:
    """Return the greedy version of a network policy; every other policy is returned unchanged."""
    return GreedyPolicy(policy) if isinstance(policy, NetworkPolicy) else policy
