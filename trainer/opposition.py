"""The opponents of all environments, in groups that act in one call."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.policies import State
from trainer.opponents import Opponent
from trainer.seats import Seats
from trainer.stacks import Actor, group_of, make_actor


@dataclass
class _Group:
    """Environments whose opponents act in one call.

    Attributes:
        actor: Acts for them.
        opponents: By environment, in ascending order.
        state: Memory of each of their agents.
    """

    actor: Actor
    opponents: dict[int, Opponent]
    state: State

    def act(self, seen: Observation, opening: Bool[Tensor, " R"], rng: torch.Generator) -> Actions:
        """What they do; they remember what they saw."""
        actions, self.state = self.actor.act(seen, self.state, opening, rng)
        return actions


class Opponents:
    """The opponents of all environments, each row with a memory of its own.

    Args:
        seats: Where the learner sits; opponents sit on the other side.
        device_cache_bytes: Most bytes of weights that stay on the device for more opponents than are playing.
    """

    def __init__(self, seats: Seats, device_cache_bytes: int) -> None:
        self._seats, self._device_cache_bytes = seats, device_cache_bytes
        self._groups: dict[str, _Group] = {}
        self._seated: dict[int, Opponent] = {}
        self._shown = seats.per_seat()
        self._arrange()

    def seat(self, seating: Mapping[int, Opponent], moved: Set[int] = frozenset()) -> None:
        """Give some environments their next opponent; all others keep theirs, and its memory bit for bit.

        An environment that comes into a group gets a fresh memory. One that stays in its group keeps its place: the
        opening of its next episode clears its memory.

        Args:
            seating: Opponents by environment.
            moved: Environments where they sit on the other side now.
        """
        if not moved and all(self._seated.get(row) is opponent for row, opponent in seating.items()):
            return
        self._seated |= seating
        groups: dict[str, dict[int, Opponent]] = {}
        for row, opponent in sorted(seating.items()):
            groups.setdefault(group_of(opponent), {})[row] = opponent
        for name in list(self._groups):
            self._leave(name, {row for row in seating if row not in groups.get(name, {})})
        for name, opponents in groups.items():
            self._join(name, opponents)
        self._arrange()

    def refresh(self) -> None:
        """Take over what has become of the learner's live weights."""
        for group in self._groups.values():
            group.actor.refresh()

    def act(self, observation: Observation, starts: Bool[Tensor, " E"], rng: torch.Generator) -> dict[str, Tensor]:
        """Actions of all agents (E * N, ...): the opponents' in their places, zeros in the learner's."""
        actions = self._seats.empty_actions()
        if not self._groups:
            return actions
        opening, seen = starts.index_select(0, self._environment_of_row), self._places.view(observation)
        self._shown.index_add_(0, self._places.numbers, seen.values.sum(dim=1))
        self._places.write(actions, self._act(seen, opening, rng))
        return actions

    def take_misled(self) -> Bool[Tensor, " agents"]:
        """Which agents, (E * N,), were shown something that is not finite since the last time; their sums say so."""
        misled = ~torch.isfinite(self._shown)
        self._shown.zero_()
        return misled

    def _act(self, seen: Observation, opening: Bool[Tensor, " R"], rng: torch.Generator) -> Actions:
        """Actions of all opponents, one group behind the other."""
        groups = list(self._groups.values())
        if len(groups) == 1:  # there is nothing to cut up, nor to join
            return groups[0].act(seen, opening, rng)
        parts = zip(groups, _split(seen, self._sizes), opening.split_with_sizes(self._sizes), strict=True)
        chosen = [group.act(view, fresh, rng) for group, view, fresh in parts]
        return {name: torch.cat([each[name] for each in chosen]) for name in chosen[0]}

    def _leave(self, name: str, leaving: set[int]) -> None:
        group = self._groups[name]
        kept = [place for place, row in enumerate(group.opponents) if row not in leaving]
        if not kept:
            del self._groups[name]
        elif len(kept) < len(group.opponents):
            self._keep(group, kept)
            self._seat(group)

    def _join(self, name: str, opponents: dict[int, Opponent]) -> None:
        group = self._groups.get(name)
        if group is None:
            actor = make_actor(next(iter(opponents.values())), self._seats.device, self._device_cache_bytes)
            group = self._groups[name] = _Group(actor, {}, actor.initial_state(0))
        newcomers = len(opponents.keys() - group.opponents.keys())
        group.opponents |= opponents
        if newcomers:
            fresh = group.actor.initial_state(newcomers * self._seats.agents)
            group.state = _map_state(lambda *parts: torch.cat(parts), group.state, fresh)
            self._keep(group, sorted(range(len(group.opponents)), key=list(group.opponents).__getitem__))
        self._seat(group)

    def _seat(self, group: _Group) -> None:
        group.actor.seat(list(group.opponents.values()), self._seats.agents)

    def _keep(self, group: _Group, kept: Sequence[int]) -> None:
        """Keep some rows of a group, in this order."""
        rows = list(group.opponents)
        group.opponents = {rows[place]: group.opponents[rows[place]] for place in kept}
        agents = torch.tensor(kept).unsqueeze(1) * self._seats.agents + torch.arange(self._seats.agents)
        group.state = _map_state(lambda part: part[agents.flatten().to(part.device)], group.state)

    def _arrange(self) -> None:
        """Line up the places of all groups, one group behind the other: one look and one write serve them all.

        Groups and their rows are in order, so that who draws which chance does not hang on who played before.
        """
        self._groups = dict(sorted(self._groups.items()))
        rows = [row for group in self._groups.values() for row in group.opponents]
        self._places = self._seats.opponents(rows)
        environments = torch.tensor(rows, dtype=torch.int64).repeat_interleave(self._seats.agents)
        self._environment_of_row = environments.to(self._seats.device)
        self._sizes = [len(group.opponents) * self._seats.agents for group in self._groups.values()]


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
