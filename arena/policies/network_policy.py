"""A trained network as a policy."""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.policies.nn.actor_critic import ActorCritic
from arena.policies.nn.packed_runs import RecurrentState
from arena.policies.protocol import State


class NetworkPolicy:
    """A policy that samples actions from a frozen network.

    Attributes:
        network: In evaluation mode.
        environment: Name of the environment it plays.
        signature: Signature of the environment it was trained in.
    """

    def __init__(self, network: ActorCritic, environment: str, signature: str) -> None:
        self.network = network.eval()
        self.environment = environment
        self.signature = signature

    def initial_state(self, rows: int) -> RecurrentState:
        """Return an all-zero state."""
        return self.network.initial_state(rows)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Sample actions; see `Policy.act`."""
        return act_with(
            lambda parameters, mask: self.network.distribution(parameters, mask).sample(rng),
            self.network,
            observation,
            state,
            episode_start,
        )


@torch.inference_mode()
def act_with(
    select_action: Callable[[Tensor, Tensor], Tensor],
    network: ActorCritic,
    observation: Observation,
    state: State,
    episode_start: Bool[Tensor, " R"],
) -> tuple[Actions, State]:
    """Act for R rows with a network and a rule that selects actions; see `Policy.act`.

    Args:
        select_action: Maps distribution parameters (R, P) and packed masks (R, M) to raw actions (R, A).
        network: In evaluation mode.
        observation: Observations of the rows.
        state: Recurrent state of the rows.
        episode_start: Rows whose observation opens an episode.
    """
    output = network.step(observation.values, RecurrentState(*state), episode_start, observation.active)
    raw = select_action(output.parameters, network.layout.pack_masks(observation))
    return network.layout.to_actions(raw), output.state
