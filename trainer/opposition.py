"""The opponents of all environments, in groups that act in one call."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.protocol import Observation
from arena.policies import State
from trainer.opponents import Opponent
from trainer.seats import Places, Seats
from trainer.stacks import Actor, group_of, make_actor


@dataclass
class _Group:
    """Environments whose opponents act in one call.

    Attributes:
        actor: Acts for them.
        opponents: By environment, in ascending order.
        state: Memory of each of their agents.
        places: Of these agents.
    """

    actor: Actor
    opponents: dict[int, Opponent]
    state: State
    places: Places


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
        for group in self._groups.values():
            places = group.places
            look = places.look(observation, starts)
            group.state = group.actor.act(places, look, group.state, rng, actions)
        return actions

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
            anybody, seats = next(iter(opponents.values())), self._seats
            actor = make_actor(anybody, seats.everybody, seats.device, self._device_cache_bytes)
            group = self._groups[name] = _Group(actor, {}, actor.initial_state(0), seats.opponents([]))
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
        """Find the places of all groups.

        Groups and their rows are in order, so that who draws which chance does not hang on who played before.
        """
        self._groups = dict(sorted(self._groups.items()))
        for group in self._groups.values():
            group.places = self._seats.opponents(list(group.opponents))


def _map_state(change: Callable[..., Tensor], *states: State) -> State:
    """Apply a function to the parts of states, keeping the kind of tuple."""
    parts = [change(*each) for each in zip(*states, strict=True)]
    kind = type(states[0])
    return kind._make(parts) if hasattr(kind, "_make") else tuple(parts)
