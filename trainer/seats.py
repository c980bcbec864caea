"""Who sits where: the learner's agents and the opponents' of every environment.

Agents of all environments are numbered e * N + i. A side lends its policy n rows per environment; where sides differ in
size, n is the larger one: the smaller side's spare rows look through its last agent's eyes, are never active, and what
they do is dropped. In environments of self-play both sides are the learner's: the away side of each comes after the
rows of all environments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from arena.environments import EnvironmentSpec, HeadKind
from arena.environments.protocol import Actions, Observation
from arena.policies.deciding import Look

ACTION_TYPES = {HeadKind.GAUSSIAN: torch.float32, HeadKind.BERNOULLI: torch.bool, HeadKind.CATEGORICAL: torch.int64}
"""What an environment takes of each kind of head."""


@dataclass(frozen=True)
class Places:
    """Agents that one policy acts for.

    Attributes:
        environments: Environment of each row.
        numbers: Number of the agent behind each row.
        present: Rows that are agents and not spare.
        filled: Places of those rows; None where all are.
    """

    environments: Int[Tensor, " r"]
    numbers: Int[Tensor, " r"]
    present: Bool[Tensor, " r"]
    filled: Int[Tensor, " agents"] | None

    def look(self, observation: Observation, opened: Bool[Tensor, " E"]) -> Look:
        """What these agents look at."""
        return Look(observation, opened, self.numbers, self.present)

    def view(self, observation: Observation) -> Observation:
        """What these agents perceive, with leading axis r."""
        return Observation(
            values=self.pick(observation.values),
            masks={name: self.pick(mask) for name, mask in observation.masks.items()},
            active=self.active(observation),
        )

    def pick(
        self, per_agent: Shaped[Tensor, "E N ..."], into: Shaped[Tensor, "r ..."] | None = None
    ) -> Shaped[Tensor, "r ..."]:
        """What is these agents' of something that every agent has; it is written there where `into` is given."""
        return torch.index_select(per_agent.flatten(0, 1), 0, self.numbers, out=into)

    def active(self, observation: Observation, into: Bool[Tensor, " r"] | None = None) -> Bool[Tensor, " r"]:
        """Which of these agents act."""
        active = self.pick(observation.active, into)
        return active if self.filled is None else active.logical_and_(self.present)

    def rewards(
        self, rewards: Float[Tensor, "E N ..."], into: Float[Tensor, "r ..."] | None = None
    ) -> Float[Tensor, "r ..."]:
        """What these agents earned."""
        earned = self.pick(rewards, into)
        if self.filled is None:
            return earned
        return earned.masked_fill_(~self.present.view(-1, *[1] * (earned.ndim - 1)), 0.0)

    def write(self, into: Actions, actions: Actions) -> None:
        """Write what these agents do among the actions of all agents (E * N, ...)."""
        for name, action in actions.items():
            if self.filled is None:
                into[name].index_copy_(0, self.numbers, action)
            else:
                into[name].index_copy_(0, self.numbers[self.filled], action[self.filled])


class Seats:
    """Which sides of each environment are the learner's.

    Args:
        spec: Of the environments.
        num_envs: E.
        device: Where their tensors live.
        self_play: Environments in which both are; there nobody is to be placed.

    Attributes:
        agents: n, rows of a side.
        everybody: N, agents of an environment.
        first: Rows of the first side of every environment; they come before all others.
        rows: R, learning agents.
        learner: Their places.
        environment_of_row: (R,) whose environment each is in.
    """

    def __init__(
        self, spec: EnvironmentSpec, num_envs: int, device: torch.device, self_play: Sequence[int] = ()
    ) -> None:
        self._spec, self._num_envs, self.device = spec, num_envs, device
        self.agents, self.everybody = max(spec.agents_per_side), spec.num_agents
        sides = [range(spec.num_agents)[spec.side(away)] for away in (False, True)]
        agents, kinds = num_envs * spec.num_agents, ACTION_TYPES
        self._action_shapes = {
            head.name: ((agents,) if head.kind is HeadKind.CATEGORICAL else (agents, head.size), kinds[head.kind])
            for head in spec.heads
        }
        self._slots = torch.tensor([[side[min(i, len(side) - 1)] for i in range(self.agents)] for side in sides])
        self._filled = torch.tensor([[i < len(side) for i in range(self.agents)] for side in sides])
        self._uneven = len(set(spec.agents_per_side)) > 1
        self._environments = torch.tensor([*range(num_envs), *self_play])
        self._away = torch.tensor([False] * num_envs + [True] * len(self_play))
        self.first = num_envs * self.agents
        self.rows = len(self._environments) * self.agents
        self.learner = self._places(self._environments, self._away)
        self.environment_of_row = self.learner.environments

    def place(self, away: Mapping[int, bool]) -> set[int]:
        """Seat the learner in some environments, on the away side or at home; those where it was on the other."""
        before = self._away.tolist()
        moved = {environment for environment, side in away.items() if before[environment] != side}
        for environment in moved:
            self._away[environment] = away[environment]
        if moved:
            self.learner = self._places(self._environments, self._away)
        return moved

    def opponents(self, rows: Sequence[int]) -> Places:
        """Places on the other side of some environments."""
        chosen = torch.tensor(rows, dtype=torch.int64)
        return self._places(chosen, ~self._away[chosen])

    def rows_of(self, environments: Sequence[int]) -> Int[Tensor, " r"]:
        """The learner's rows in some environments."""
        playing = set(environments)
        seats = [seat for seat, environment in enumerate(self._environments.tolist()) if environment in playing]
        return torch.tensor([seat * self.agents + i for seat in seats for i in range(self.agents)], device=self.device)

    def per_agent(
        self, per_environment: Bool[Tensor, " e"], into: Bool[Tensor, " r"] | None = None
    ) -> Bool[Tensor, " r"]:
        """A flag of environments for the learner's rows; it is written there where `into` is given."""
        return torch.index_select(per_environment, 0, self.environment_of_row, out=into)

    def empty_actions(self) -> dict[str, Tensor]:
        """Actions of all agents (E * N, ...), to be written into."""
        return {
            name: torch.zeros(shape, dtype=kind, device=self.device)
            for name, (shape, kind) in self._action_shapes.items()
        }

    def unflatten(self, actions: Actions) -> dict[str, Tensor]:
        """Actions with leading axes (E, N)."""
        agents = self._spec.num_agents
        return {name: each.view(self._num_envs, agents, *each.shape[1:]) for name, each in actions.items()}

    def _places(self, rows: Int[Tensor, " e"], away: Bool[Tensor, " e"]) -> Places:
        """Worked out on the host, which knows who sits where, so that nobody waits for a device."""
        side = away.long()
        numbers = (rows.unsqueeze(1) * self._spec.num_agents + self._slots[side]).flatten()
        present = self._filled[side].flatten()
        filled = present.nonzero().squeeze(1) if self._uneven else None
        return Places(
            environments=rows.repeat_interleave(self.agents).to(self.device),
            numbers=numbers.to(self.device),
            present=present.to(self.device),
            filled=None if filled is None else filled.to(self.device),
        )
