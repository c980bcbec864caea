"""Who acts for opponents: scripted ones each for their own rows, learned ones of one kind all in one call."""

import functools
from collections import OrderedDict
from collections.abc import Container, Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from arena.environments.protocol import Actions
from arena.policies import ActorCritic, Architecture, NetworkPolicy, Policy, RecurrentState, State
from arena.policies.deciding import Look
from arena.policies.stacked import Arrangement, Errand, StackedPolicies, kind_of
from trainer.opponents import SELF, Opponent
from trainer.seats import Places

FIRST_SLOTS = 16
"""Slots of a new stack; they double as more are needed."""


@runtime_checkable
class Actor(Protocol):
    """Acts for a group of rows, whoever they play."""

    def initial_state(self, rows: int) -> State:
        """State of rows that have seen nothing."""
        ...

    def seat(self, opponents: Sequence[Opponent], rows_each: int) -> None:
        """Say whom the rows play from now on: so many neighbouring rows each of them."""
        ...

    def refresh(self) -> None:
        """Take over what has become of the learner's live weights."""
        ...

    def act(self, places: Places, look: Look, state: State, rng: torch.Generator, do: Actions) -> State:
        """Perceive, decide, and write what rows do among the actions of all agents (E * N, ...).

        Args:
            places: Of the rows.
            look: What they look at.
            state: Memory of the rows.
            rng: Chance.
            do: Actions of all agents, to be written into.
        """
        ...


class Soloist:
    """One policy that acts for all rows of its group."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def initial_state(self, rows: int) -> State:
        """See `Policy.initial_state`."""
        return self._policy.initial_state(rows)

    def seat(self, opponents: Sequence[Opponent], rows_each: int) -> None:
        """All rows play the same."""

    def refresh(self) -> None:
        """It has no weights."""

    def act(self, places: Places, look: Look, state: State, rng: torch.Generator, do: Actions) -> State:
        """See `Actor.act`."""
        seen, opening = places.view(look.observation), look.opened.index_select(0, places.environments)
        actions, after = self._policy.act(seen, state, opening, rng)
        places.write(do, actions)
        return after


class Stack:
    """Learned opponents of one kind, each in a slot. Who is not seated any more keeps its slot until another needs it.

    Slots double up to the limit; from there on whoever was seated longest ago makes room. Only where more opponents
    are seated at once than fit do slots double beyond it.

    Args:
        network: Any of them.
        agents: N, of an environment.
        device: Where they act.
        limit_bytes: Most bytes of slots that are there for more than the seated.
    """

    def __init__(self, network: ActorCritic, agents: int, device: torch.device, limit_bytes: int) -> None:
        self._stack, self._agents = StackedPolicies(network.architecture, FIRST_SLOTS, device), agents
        self._seated = self._seat_rows(torch.zeros(0, dtype=torch.int64))
        self._most_slots = limit_bytes // self._stack.slot_bytes
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._live: Opponent | None = None

    @property
    def keys(self) -> list[str]:
        """Opponents in slots, from the one that was seated longest ago."""
        return list(self._slots)

    @property
    def size_bytes(self) -> int:
        """Memory of all slots."""
        return self._stack.slots * self._stack.slot_bytes

    def initial_state(self, rows: int) -> State:
        """Zeros."""
        return self._stack.initial_state(rows)

    def seat(self, opponents: Sequence[Opponent], rows_each: int) -> None:
        """See `Actor.seat`. Rows keep their memory; the opening of an episode clears it."""
        seated = {opponent.key: opponent for opponent in opponents}
        for key, opponent in seated.items():
            if key not in self._slots:
                self._slots[key] = self._make_room(seated)
                self._put(opponent)
            self._slots.move_to_end(key)
        self._live = seated.get(SELF, self._live)
        slots = torch.tensor([self._slots[opponent.key] for opponent in opponents])
        self._seated = self._seat_rows(slots.repeat_interleave(rows_each))

    def refresh(self) -> None:
        """Put the learner's live weights into their slot again."""
        if self._live is not None and SELF in self._slots:
            self._put(self._live)

    def act(self, places: Places, look: Look, state: State, rng: torch.Generator, do: Actions) -> State:
        """See `Actor.act`."""
        match self._seated:
            case Errand() as errand:
                return self._stack.decide(look, RecurrentState(*state), errand, rng, do)
            case Arrangement() as arrangement:
                seen, opening = places.view(look.observation), look.opened.index_select(0, places.environments)
                actions, after = self._stack.act(seen, state, opening, arrangement, rng)
                places.write(do, actions)
                return after

    def _seat_rows(self, slot_of_row: Int[Tensor, " R"]) -> Errand | Arrangement:
        return self._stack.errand(slot_of_row, self._agents) or self._stack.arrange(slot_of_row)

    def _put(self, opponent: Opponent) -> None:
        self._stack.put(self._slots[opponent.key], _network(opponent))

    def _make_room(self, seated: Container[str]) -> int:
        """A slot that nobody needs; slots are filled in order."""
        slots = self._stack.slots
        if len(self._slots) == slots < self._most_slots:
            self._stack.reserve(min(2 * slots, self._most_slots))
        elif len(self._slots) == slots:
            for key in self._slots:
                if key not in seated:
                    return self._slots.pop(key)
            self._stack.reserve(2 * slots)
        return len(self._slots)


def group_of(opponent: Opponent) -> str:
    """Opponents of one group act together: learned ones of one kind, or the rows of one scripted player."""
    policy = opponent.policy
    return _kind(policy.network.architecture) if isinstance(policy, NetworkPolicy) else opponent.key


@functools.lru_cache(maxsize=64)  # asked for whenever somebody is seated
def _kind(architecture: Architecture) -> str:
    return repr(kind_of(architecture))


def make_actor(opponent: Opponent, agents: int, device: torch.device, limit_bytes: int) -> Actor:
    """Who acts for the group that an opponent is in, in environments of so many agents."""
    if isinstance(opponent.policy, NetworkPolicy):
        return Stack(opponent.policy.network, agents, device, limit_bytes)
    return Soloist(opponent.policy)


def _network(opponent: Opponent) -> ActorCritic:
    if not isinstance(opponent.policy, NetworkPolicy):
        raise TypeError(f"{opponent.name} has no network to stack")
    return opponent.policy.network
