"""Episode returns: the learner's sum of rewards in every running match, in total and by reward component."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.environments.base import Environment, ItemisedEnvironment, supports
from trainer.opponents.agent_index import AgentIndex


class EpisodeReturns:
    """Undiscounted returns of E running matches; by component if the environment itemises its rewards.

    In self-play they are those of the home side.

    Args:
        environment: Source of the rewards.
        agents: Sides of the learner and its opponents.

    Attributes:
        names: Names of the reward components.
    """

    def __init__(self, environment: Environment, agents: AgentIndex) -> None:
        self._spec: EnvironmentSpec = environment.spec
        self._agents = agents
        self._itemised = environment if supports(environment, ItemisedEnvironment) else None
        self.names = self._itemised.component_names if self._itemised else ()
        shape = (environment.num_envs, agents.agents_per_side, 1 + len(self.names))
        self._sums: Float[Tensor, "E n _"] = torch.zeros(shape, dtype=torch.float64, device=environment.device)
        self._total, self._components = self._sums.flatten(0, 1).tensor_split([1], dim=1)

    def add(self, reward: Float[Tensor, " R"]) -> None:
        """Add one step's rewards of the learner's rows, and their components."""
        rows = self._agents.single_side_rows
        # Without the away rows of self-play, which come after these: a match has the return of one side.
        self._total += reward[:rows, None]
        if self._itemised:
            self._components += self._agents.learner.gather_rewards(self._itemised.components)[:rows]

    @property
    def sums(self) -> Float[Tensor, "E _"]:
        """Returns summed over the learner's side: the total, then each component."""
        return self._sums.sum(dim=1)

    def mean_per_agent(self, sums: Float[np.ndarray, "m _"], away: Bool[np.ndarray, " m"]) -> Float[np.ndarray, "m _"]:
        """Return and components of m matches, averaged over the agents of the learner's side.

        Args:
            sums: The matches' rows of `sums`, on the host.
            away: Whether the learner played the away side.
        """
        agents = np.array(self._spec.agents_per_side)[away.astype(np.int64)]
        means: Float[np.ndarray, "m _"] = sums / agents[:, np.newaxis]
        return means

    def reset(self, ended: Bool[Tensor, " E"]) -> None:
        """Set the returns of ended matches to zero."""
        self._sums.masked_fill_(ended.view(-1, 1, 1), 0.0)
