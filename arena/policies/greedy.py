"""A trained network that draws nothing."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.policies.cores import RecurrentState
from arena.policies.network import NetworkPolicy, act_by
from arena.policies.protocol import Policy, State


class GreedyPolicy:
    """Does what its network holds for most likely: the best option, the switch as it mostly is, the mean.

    It is no `NetworkPolicy`: those may be played together, and draw then.

    Attributes:
        network: In evaluation mode.
    """

    def __init__(self, policy: NetworkPolicy) -> None:
        self.network = policy.network

    def initial_state(self, rows: int) -> RecurrentState:
        """Zeros."""
        return self.network.initial_state(rows)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Choose without chance; see `Policy.act`."""
        return act_by(self._likeliest, self.network, observation, state, episode_start)

    def _likeliest(self, parameters: Float[Tensor, "R P"], mask: Bool[Tensor, "R M"]) -> Float[Tensor, "R A"]:
        layout, certain = self.network.layout, torch.zeros_like(parameters)
        return layout.choose(parameters, certain, layout.noise_scale(self.network.log_std), mask)


def greedy(policy: Policy) -> Policy:
    """A network without its chance; every other policy as it is."""
    return GreedyPolicy(policy) if isinstance(policy, NetworkPolicy) else policy
