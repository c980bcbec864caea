"""Opponents' recurrent state and batched acting: one state per row, reset at the row's own episode start.

`OpponentBatch.act` passes `episode_start` to the policies, which reset the state of exactly these rows before they act.
`OpponentBatch.assign` gives a fresh state to an environment whose new opponent belongs to another group.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.protocol import Observation
from arena.policies import State
from trainer.opponents.actors import OpponentActor, group_key, make_actor
from trainer.opponents.agent_index import AgentIndex, AgentRows
from trainer.opponents.pool import Opponent


@dataclass
class _Group:
    """Environments whose opponents act in one call.

    Attributes:
        actor: Acts for all of them.
        opponents: Opponent by environment, in ascending order of the environments.
        state: Recurrent state of their rows.
        rows: The agents behind these rows.
    """

    actor: OpponentActor
    opponents: dict[int, Opponent]
    state: State
    rows: AgentRows


class OpponentBatch:
    """The opponents of all environments, each with its own recurrent state.

    Args:
        agents: Sides of the learner and its opponents.
        device_cache_bytes: Weights that stay on the device for opponents that are not playing.
    """

    def __init__(self, agents: AgentIndex, device_cache_bytes: int) -> None:
        self._agents, self._device_cache_bytes = agents, device_cache_bytes
        self._groups: dict[str, _Group] = {}
        self._current: dict[int, Opponent] = {}

    def assign(self, assigned: Mapping[int, Opponent], side_changed: Set[int] = frozenset()) -> None:
        """Replace the opponents of some environments; the others keep their opponent and, bit for bit, its state.

        An environment that joins a group starts with a fresh state. One that stays in its group keeps its rows, and
        the start of its next episode resets their state.

        Args:
            assigned: Opponent by environment.
            side_changed: Environments where the opponent's side changes.
        """
        if not side_changed and all(self._current.get(row) is opponent for row, opponent in assigned.items()):
            return
        self._current |= assigned
        groups: dict[str, dict[int, Opponent]] = {}
        for row, opponent in sorted(assigned.items()):
            groups.setdefault(group_key(opponent), {})[row] = opponent
        for name in list(self._groups):
            self._remove(name, {row for row in assigned if row not in groups.get(name, {})})
        for name, opponents in groups.items():
            self._add(name, opponents)
        self._update_rows()

    def refresh_weights(self) -> None:
        """Copy the learner's live weights to the actors that use them."""
        for group in self._groups.values():
            group.actor.refresh_weights()

    def act(
        self, observation: Observation, episode_start: Bool[Tensor, " E"], rng: torch.Generator
    ) -> dict[str, Tensor]:
        """Return actions of all agents (E * N, ...), with zeros for the learner's, and advance the recurrent state."""
        actions = self._agents.empty_actions()
        for group in self._groups.values():
            view = group.rows.view(observation, episode_start)
            group.state = group.actor.act(group.rows, view, group.state, rng, actions)
        return actions

    def _remove(self, name: str, environments: set[int]) -> None:
        group = self._groups[name]
        remaining = [index for index, row in enumerate(group.opponents) if row not in environments]
        if not remaining:
            del self._groups[name]
        elif len(remaining) < len(group.opponents):
            self._select(group, remaining)
            self._assign_actor(group)

    def _add(self, name: str, opponents: dict[int, Opponent]) -> None:
        group = self._groups.get(name)
        if group is None:
            representative, agents = next(iter(opponents.values())), self._agents
            actor = make_actor(representative, agents.agents_per_env, agents.device, self._device_cache_bytes)
            group = self._groups[name] = _Group(actor, {}, actor.initial_state(0), agents.opponent_rows([]))
        added = len(opponents.keys() - group.opponents.keys())
        group.opponents |= opponents
        if added:
            fresh = group.actor.initial_state(added * self._agents.agents_per_side)
            group.state = _map_state(lambda *parts: torch.cat(parts), group.state, fresh)
            self._select(group, sorted(range(len(group.opponents)), key=list(group.opponents).__getitem__))
        self._assign_actor(group)

    def _assign_actor(self, group: _Group) -> None:
        group.actor.assign(list(group.opponents.values()), self._agents.agents_per_side)

    def _select(self, group: _Group, indices: Sequence[int]) -> None:
        """Reduce a group to some of its environments, in the given order."""
        environments = list(group.opponents)
        group.opponents = {environments[index]: group.opponents[environments[index]] for index in indices}
        n = self._agents.agents_per_side
        rows = (torch.tensor(indices).unsqueeze(1) * n + torch.arange(n)).flatten()
        group.state = _map_state(lambda part: part[rows.to(part.device)], group.state)

    def _update_rows(self) -> None:
        # Sorted, so that the random numbers of a row do not depend on the opponents of earlier matches.
        self._groups = dict(sorted(self._groups.items()))
        for group in self._groups.values():
            group.rows = self._agents.opponent_rows(list(group.opponents))


def _map_state(change: Callable[..., Tensor], *states: State) -> State:
    """Apply a function to each part of one or more states; returns the same type of tuple."""
    parts = [change(*each) for each in zip(*states, strict=True)]
    state_type = type(states[0])
    return state_type._make(parts) if hasattr(state_type, "_make") else tuple(parts)
