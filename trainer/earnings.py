"""What the learner earns in the matches that are being played, in all and by component."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.environments.protocol import Environment, ItemisedEnvironment
from trainer.seats import Seats


class Earnings:
    """Sums over the running match of every environment; components where the environment names them.

    Args:
        environment: Whose rewards they are.
        seats: Which agents are the learner's.
    """

    def __init__(self, environment: Environment, seats: Seats) -> None:
        self._spec: EnvironmentSpec = environment.spec
        self._seats = seats
        self._itemised = environment if isinstance(environment, ItemisedEnvironment) else None
        self._names = self._itemised.component_names if self._itemised else ()
        self._shape = (environment.num_envs, seats.agents)
        rows, device = environment.num_envs, environment.device
        self._total = torch.zeros(rows, dtype=torch.float64, device=device)
        self._components = torch.zeros(rows, len(self._names), dtype=torch.float64, device=device)

    def add(self, reward: Float[Tensor, " R"]) -> None:
        """Take in a decision: the rewards of the learner's agents, and what the environment says they are made of."""
        self._total += reward.double().view(self._shape).sum(dim=1)
        if self._itemised:
            components = self._seats.learner.rewards(self._itemised.components)
            self._components += components.double().view(*self._shape, -1).sum(dim=1)

    def per_agent(self, row: int, *, away: bool) -> tuple[float, dict[str, float]]:
        """What an environment's match brought, and its components, on average over the learner's agents."""
        agents = self._spec.agents_per_side[away]
        components = (self._components[row] / agents).tolist()
        return float(self._total[row]) / agents, dict(zip(self._names, components, strict=True))

    def clear(self, rows: Bool[Tensor, " E"]) -> None:
        """Begin anew where a match has ended."""
        self._total.masked_fill_(rows, 0.0)
        self._components.masked_fill_(rows.unsqueeze(1), 0.0)
