"""What the learner earns in the matches that are being played, in all and by component."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.environments.protocol import Environment, ItemisedEnvironment
from trainer.seats import Seats


class Earnings:
    """Sums over the running match of every environment; components where the environment names them.

    In self-play they are those of the home side.

    Args:
        environment: Whose rewards they are.
        seats: Which agents are the learner's.

    Attributes:
        names: Of the components.
    """

    def __init__(self, environment: Environment, seats: Seats) -> None:
        self._spec: EnvironmentSpec = environment.spec
        self._seats = seats
        self._itemised = environment if isinstance(environment, ItemisedEnvironment) else None
        self.names = self._itemised.component_names if self._itemised else ()
        shape = (environment.num_envs, seats.agents, 1 + len(self.names))
        self._earned: Float[Tensor, "E n _"] = torch.zeros(shape, dtype=torch.float64, device=environment.device)
        self._total, self._components = self._earned.flatten(0, 1).tensor_split([1], dim=1)

    def add(self, reward: Float[Tensor, " R"]) -> None:
        """Take in a decision: the rewards of the learner's agents, and what the environment says they are made of."""
        self._total += reward[: self._seats.first, None]
        if self._itemised:
            self._components += self._seats.learner.rewards(self._itemised.components)[: self._seats.first]

    @property
    def sums(self) -> Float[Tensor, "E _"]:
        """Rewards of the learner's side of every environment, all together and then by component."""
        return self._earned.sum(dim=1)

    def per_agent(self, sums: Sequence[float], *, away: bool) -> tuple[float, dict[str, float]]:
        """What an environment's match brought, and its components, on average over the agents of the learner's side.

        Args:
            sums: The environment's row of `sums`, on the host.
            away: The side that the learner played.
        """
        total, *components = (each / self._spec.agents_per_side[away] for each in sums)
        return total, dict(zip(self.names, components, strict=True))

    def clear(self, rows: Bool[Tensor, " E"]) -> None:
        """Begin anew where a match has ended."""
        self._earned.masked_fill_(rows.view(-1, 1, 1), 0.0)
