"""A trained network that draws nothing."""

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.policies.cores import RecurrentState
from arena.policies.network import NetworkPolicy
from arena.policies.protocol import Policy, State


class GreedyPolicy:
    """Does what its network holds for most likely: the best option, the switch as it mostly is, the mean.

    Attributes:
        network: In evaluation mode.
    """

    def __init__(self, policy: NetworkPolicy) -> None:
        self.network = policy.network

    def initial_state(self, rows: int) -> RecurrentState:
        """Zeros."""
        return self.network.initial_state(rows)

    @torch.inference_mode()
    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Choose without chance; see `Policy.act`."""
        output = self.network.step(observation.values, RecurrentState(*state), episode_start, observation.active)
        layout = self.network.layout
        certain = torch.zeros_like(output.parameters)
        scale = layout.noise_scale(self.network.log_std)
        raw = layout.choose(output.parameters, certain, scale, layout.pack_masks(observation))
        return layout.to_actions(raw), output.state


def greedy(policy: Policy) -> Policy:
    """A network without its chance; every other policy as it is."""
    return GreedyPolicy(policy) if isinstance(policy, NetworkPolicy) else policy
