"""Opponents' recurrent state and batched acting: one state per row, reset at the row's own episode start.

`OpponentBatch.act` passes `episode_start` to the policies, which reset the state of exactly these rows before they act:
`reset_rows` in `arena/policies/nn/packed_runs.py`, or the native step on a CPU.
`OpponentBatch.assign` gives a fresh state to an environment whose new opponent belongs to another group.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments.base import Observation
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
        joining: dict[str, dict[int, Opponent]] = {}
        for row, opponent in assigned.items():
            joining.setdefault(group_key(opponent), {})[row] = opponent
        for name in {*self._groups, *joining}:
            before = self._groups[name].opponents if name in self._groups else {}
            own = joining.get(name, {})
            leaving = before.keys() & assigned.keys() - own.keys()
            if own or leaving:
                opponents = before | own
                for row in leaving:
                    del opponents[row]
                self._regroup(name, opponents)
        # Sorted, so that the random numbers of a row do not depend on the opponents of earlier matches.
        self._groups = dict(sorted(self._groups.items()))
        for group in self._groups.values():
            group.rows = self._agents.opponent_rows(list(group.opponents))

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

    def _regroup(self, name: str, opponents: dict[int, Opponent]) -> None:
        """Set the environments of a group: those that were in it before keep their state, others get a fresh one."""
        group = self._groups.pop(name, None)
        if not opponents:
            return
        agents = self._agents
        if group is None:
            representative = next(iter(opponents.values()))
            actor = make_actor(representative, agents.agents_per_env, agents.device, self._device_cache_bytes)
            group = _Group(actor, {}, actor.initial_state(0), agents.opponent_rows([]))
        if opponents.keys() != group.opponents.keys():
            opponents = dict(sorted(opponents.items()))
            staying = group.opponents.keys() & opponents.keys()
            source, target = (self._rows_in(each, staying) for each in (group.opponents, opponents))
            group.state = _map_state(
                # New rows start from zeros, and staying rows move with their state, bit for bit.
                lambda new, old: new.index_copy(0, target.to(new.device), old[source.to(old.device)]),
                group.actor.initial_state(len(opponents) * agents.agents_per_side),
                group.state,
            )
        group.opponents = opponents
        group.actor.assign(list(opponents.values()), agents.agents_per_side)
        self._groups[name] = group

    def _rows_in(self, environments: Iterable[int], chosen: Set[int]) -> Int[Tensor, " r"]:
        """Return the rows of the chosen environments in a group of environments."""
        indices = np.array([index for index, each in enumerate(environments) if each in chosen], dtype=np.int64)
        n = self._agents.agents_per_side
        return torch.from_numpy((indices[:, np.newaxis] * n + np.arange(n)).ravel())


def _map_state(change: Callable[..., Tensor], *states: State) -> State:
    """Apply a function to each part of one or more states; returns the same type of tuple."""
    parts = [change(*each) for each in zip(*states, strict=True)]
    state_type = type(states[0])
    return state_type._make(parts) if hasattr(state_type, "_make") else tuple(parts)
