"""Who sits where: the learner's agents and the opponents' of every environment.

Agents of all environments are numbered e * N + i. A side lends its policy n rows per environment; where sides differ in
size, n is the larger one: the smaller side's spare rows look through its last agent's eyes, are never active, and what
they do is dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments import EnvironmentSpec, HeadKind
from arena.environments.protocol import Actions, Observation


@dataclass(frozen=True)
class Places:
    """Agents that one policy acts for.

    Attributes:
        numbers: Number of the agent behind each row.
        present: Rows that are agents and not spare; None where all are.
    """

    numbers: Int[Tensor, " r"]
    present: Bool[Tensor, " r"] | None

    def view(self, observation: Observation) -> Observation:
        """What these agents perceive, with leading axis r."""
        active = observation.active.flatten(0, 1)[self.numbers]
        return Observation(
            values=observation.values.flatten(0, 1)[self.numbers],
            masks={name: mask.flatten(0, 1)[self.numbers] for name, mask in observation.masks.items()},
            active=active if self.present is None else active & self.present,
        )

    def rewards(self, rewards: Float[Tensor, "E N ..."]) -> Float[Tensor, "r ..."]:
        """What these agents earned."""
        earned = rewards.flatten(0, 1)[self.numbers]
        if self.present is None:
            return earned
        return earned.where(self.present.view(-1, *[1] * (earned.ndim - 1)), 0.0)

    def write(self, into: Actions, actions: Actions) -> None:
        """Write what these agents do among the actions of all agents (E * N, ...)."""
        for name, action in actions.items():
            if self.present is None:
                into[name].index_copy_(0, self.numbers, action)
            else:
                into[name].index_copy_(0, self.numbers[self.present], action[self.present])


class Seats:
    """Which side of each environment is the learner's.

    Attributes:
        device: Where the environments' tensors live.
        rows: R, learning agents.
        learner: Their places.
    """

    def __init__(self, spec: EnvironmentSpec, num_envs: int, device: torch.device) -> None:
        self._spec, self._num_envs, self.device = spec, num_envs, device
        self.agents = max(spec.agents_per_side)
        self.rows = num_envs * self.agents
        sides = [range(spec.num_agents)[spec.side(away)] for away in (False, True)]
        slots = [[side[min(i, len(side) - 1)] for i in range(self.agents)] for side in sides]
        filled = [[i < len(side) for i in range(self.agents)] for side in sides]
        self._slots = torch.tensor(slots, device=device)
        self._filled = torch.tensor(filled, device=device)
        self._uneven = len(set(spec.agents_per_side)) > 1
        self._away = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self._everywhere = torch.arange(num_envs, device=device)
        self.learner = self._places(self._everywhere, self._away)

    def place(self, away: Mapping[int, bool]) -> None:
        """Seat the learner in some environments, on the away side or at home."""
        sides = torch.tensor(list(away.values()), device=self.device)
        self._away[list(away)] = sides
        self.learner = self._places(self._everywhere, self._away)

    def opponents(self, rows: Sequence[int]) -> Places:
        """Places on the other side of some environments."""
        chosen = torch.tensor(rows, dtype=torch.int64, device=self.device)
        return self._places(chosen, ~self._away[chosen])

    def per_agent(self, per_environment: Bool[Tensor, " e"]) -> Bool[Tensor, " r"]:
        """Repeat a flag of environments for their rows."""
        return per_environment if self.agents == 1 else per_environment.repeat_interleave(self.agents)

    def empty_actions(self) -> dict[str, Tensor]:
        """Actions of all agents (E * N, ...), to be written into."""
        size = self._num_envs * self._spec.num_agents
        kinds = {HeadKind.GAUSSIAN: torch.float32, HeadKind.BERNOULLI: torch.bool, HeadKind.CATEGORICAL: torch.int64}
        return {
            head.name: torch.zeros(
                (size,) if head.kind is HeadKind.CATEGORICAL else (size, head.size),
                dtype=kinds[head.kind],
                device=self.device,
            )
            for head in self._spec.heads
        }

    def unflatten(self, actions: Actions) -> dict[str, Tensor]:
        """Actions with leading axes (E, N)."""
        agents = self._spec.num_agents
        return {name: each.view(self._num_envs, agents, *each.shape[1:]) for name, each in actions.items()}

    def _places(self, rows: Int[Tensor, " e"], away: Bool[Tensor, " e"]) -> Places:
        side = away.long()
        numbers = (rows.unsqueeze(1) * self._spec.num_agents + self._slots[side]).flatten()
        return Places(numbers, self._filled[side].flatten() if self._uneven else None)
