"""Who sits where: the learner's agents and, grouped by policy, the opponents' of every environment.

Agents of all environments are numbered e * N + i. A side lends its policy n rows per environment; where sides differ in
size, n is the larger one: the smaller side's spare rows look through its last agent's eyes, are never active, and what
they do is dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments import EnvironmentSpec, HeadKind
from arena.environments.protocol import Actions, Observation
from arena.policies import State
from trainer.opponents import Opponent


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
        rows: R, learning agents.
        learner: Their places.
    """

    def __init__(self, spec: EnvironmentSpec, num_envs: int, device: torch.device) -> None:
        self._spec, self._num_envs, self._device = spec, num_envs, device
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
        sides = torch.tensor(list(away.values()), device=self._device)
        self._away[list(away)] = sides
        self.learner = self._places(self._everywhere, self._away)

    def opponents(self, rows: Sequence[int]) -> Places:
        """Places on the other side of some environments."""
        chosen = torch.tensor(rows, dtype=torch.int64, device=self._device)
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
                device=self._device,
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


@dataclass
class _Group:
    """Environments that play the same opponent: one call acts for all of them."""

    opponent: Opponent
    rows: list[int]
    state: State


class Opponents:
    """The opponents of all environments, each row with a memory of its own."""

    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self._groups: dict[str, _Group] = {}
        self._arrange()

    def seat(self, seating: Mapping[int, Opponent]) -> None:
        """Give some environments their next opponent, with a fresh memory; all others keep theirs bit for bit.

        A row that meets its opponent again keeps its place: the opening of the episode resets its memory.
        """
        moving = {row for row, opponent in seating.items() if row not in self._rows_of(opponent.key)}
        for key in list(self._groups):
            self._leave(key, moving)
        newcomers: dict[str, list[int]] = {}
        for row in moving:
            newcomers.setdefault(seating[row].key, []).append(row)
        for rows in newcomers.values():
            self._join(seating[rows[0]], rows)
        self._arrange()

    def act(self, observation: Observation, starts: Bool[Tensor, " E"], rng: torch.Generator) -> dict[str, Tensor]:
        """Actions of all agents (E * N, ...): the opponents' in their places, zeros in the learner's."""
        actions = self._seats.empty_actions()
        opening = self._seats.per_agent(starts[self._environments]).split_with_sizes(self._sizes)
        seen = _split(self._places.view(observation), self._sizes)
        chosen = []
        for group, view, fresh in zip(self._groups.values(), seen, opening, strict=True):
            choice, group.state = group.opponent.policy.act(view, group.state, fresh, rng)
            chosen.append(choice)
        self._places.write(actions, {name: torch.cat([each[name] for each in chosen]) for name in actions})
        return actions

    def _rows_of(self, key: str) -> list[int]:
        group = self._groups.get(key)
        return group.rows if group else []

    def _leave(self, key: str, moving: set[int]) -> None:
        group = self._groups[key]
        kept = [place for place, row in enumerate(group.rows) if row not in moving]
        if len(kept) == len(group.rows):
            return
        if not kept:
            del self._groups[key]
            return
        self._keep(group, kept)

    def _join(self, opponent: Opponent, rows: list[int]) -> None:
        fresh = opponent.policy.initial_state(len(rows) * self._seats.agents)
        group = self._groups.get(opponent.key)
        if group is None:
            self._groups[opponent.key] = _Group(opponent, sorted(rows), fresh)
        else:
            group.rows = [*group.rows, *rows]
            group.state = _map_state(lambda *parts: torch.cat(parts), group.state, fresh)
            self._keep(group, sorted(range(len(group.rows)), key=group.rows.__getitem__))

    def _keep(self, group: _Group, kept: list[int]) -> None:
        """Keep some rows of a group, in this order."""
        group.rows = [group.rows[place] for place in kept]
        agents = torch.tensor(kept).unsqueeze(1) * self._seats.agents + torch.arange(self._seats.agents)
        group.state = _map_state(lambda part: part[agents.flatten().to(part.device)], group.state)

    def _arrange(self) -> None:
        """Line up the places of all groups, one group behind the other: one look and one write serve them all.

        Groups and their rows are in order, so that who draws which chance does not hang on who played before.
        """
        self._groups = dict(sorted(self._groups.items()))
        rows = [row for group in self._groups.values() for row in group.rows]
        self._places = self._seats.opponents(rows)
        self._environments = torch.tensor(rows, dtype=torch.int64, device=self._places.numbers.device)
        self._sizes = [len(group.rows) * self._seats.agents for group in self._groups.values()]


def _split(observation: Observation, sizes: list[int]) -> list[Observation]:
    """Cut an observation with leading axis R into runs of so many rows."""
    masks = {name: mask.split_with_sizes(sizes) for name, mask in observation.masks.items()}
    parts = zip(observation.values.split_with_sizes(sizes), observation.active.split_with_sizes(sizes), strict=True)
    return [
        Observation(values, {name: mask[place] for name, mask in masks.items()}, active)
        for place, (values, active) in enumerate(parts)
    ]


def _map_state(change: Callable[..., Tensor], *states: State) -> State:
    """Apply a function to the parts of states, keeping the kind of tuple."""
    parts = [change(*each) for each in zip(*states, strict=True)]
    kind = type(states[0])
    return kind._make(parts) if hasattr(kind, "_make") else tuple(parts)
