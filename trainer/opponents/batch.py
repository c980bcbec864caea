"""Opponents' recurrent state and batched acting: one state per row, reset at the row's own episode start.

`OpponentBatch.act` passes `episode_start` to the policies, which reset the state of exactly these rows before they act:
`reset_rows` in `arena/policies/nn/packed_runs.py`, or the native step on a CPU.
`OpponentBatch.assign` gives a fresh state to an environment whose new opponent belongs to another group.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.base import Observation
from arena.policies import State
from trainer.opponents.actors import OpponentActor, group_key, make_actor
from trainer.opponents.agent_index import AgentIndex, AgentRows, JointActions
from trainer.opponents.pool import Opponent


@dataclass
class _Group:
    """Environments whose opponents act in one call.

    Attributes:
        actor: Acts for all of them.
        environments: Its environments, in ascending order.
        state: Recurrent state of their rows.
        rows: The agents behind these rows.
    """

    actor: OpponentActor
    environments: NDArray[np.int64]
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
        # Once per opponent: thousands of environments may finish a match in one step.
        names = {key: group_key(each) for key, each in {each.key: each for each in assigned.values()}.items()}
        joining: dict[str, dict[int, Opponent]] = {}
        for row, opponent in assigned.items():
            joining.setdefault(names[opponent.key], {})[row] = opponent
        rows = np.fromiter(assigned, np.int64, len(assigned))
        for name in {*self._groups, *joining}:
            self._regroup(name, rows, dict(sorted(joining.get(name, {}).items())), side_changed)
        # Sorted, so that the random numbers of a row do not depend on the opponents of earlier matches.
        self._groups = dict(sorted(self._groups.items()))

    def refresh_weights(self) -> None:
        """Copy the learner's live weights to the actors that use them."""
        for group in self._groups.values():
            group.actor.refresh_weights()

    def act(self, observation: Observation, episode_start: Bool[Tensor, " E"], rng: torch.Generator) -> JointActions:
        """Return actions of all agents, with zeros for the learner's, and advance the recurrent state."""
        actions = self._agents.collect_actions()
        for group in self._groups.values():
            view = group.rows.view(observation, episode_start)
            group.state = group.actor.act(group.rows, view, group.state, rng, actions)
        return actions

    def _regroup(
        self, name: str, assigned: NDArray[np.int64], joining: Mapping[int, Opponent], side_changed: Set[int]
    ) -> None:
        """Update a group after a change of some environments.

        Args:
            name: Key of the group.
            assigned: All environments with a new opponent.
            joining: Those whose new opponent belongs to this group, in ascending order.
            side_changed: Environments where the opponent's side changed.
        """
        group, agents = self._groups.pop(name, None), self._agents
        own = np.fromiter(joining, np.int64, len(joining))
        before = np.zeros(0, np.int64) if group is None else group.environments
        environments = agents.replace_environments(before, leaving=assigned, joining=own)
        if not len(environments):
            return
        if group is None:
            representative = next(iter(joining.values()))
            actor = make_actor(representative, agents.agents_per_env, agents.device, self._device_cache_bytes)
            group = _Group(actor, before, actor.initial_state(0), agents.opponent_rows([]))
        if not np.array_equal(environments, before):
            self._move_environments(group, environments)
        elif side_changed:
            group.rows = agents.with_sides(group.rows, environments, side_changed)
        if joining:
            group.actor.assign(np.searchsorted(environments, own), list(joining.values()), agents.agents_per_side)
        self._groups[name] = group

    def _move_environments(self, group: _Group, environments: NDArray[np.int64]) -> None:
        """Set the environments of a group: those that were in it before keep their state, others get a fresh one."""
        agents, before = self._agents, group.environments
        _, source, target = np.intersect1d(before, environments, assume_unique=True, return_indices=True)
        old_rows, new_rows = (torch.from_numpy(agents.row_indices(each)) for each in (source, target))
        group.state = _map_state(
            # New rows start from zeros, and staying rows move with their state, bit for bit.
            lambda new, old: new.index_copy(0, new_rows.to(new.device), old[old_rows.to(old.device)]),
            group.actor.initial_state(len(environments) * agents.agents_per_side),
            group.state,
        )
        previous = np.full(len(environments), -1)
        previous[target] = source
        group.actor.move(previous, agents.agents_per_side)
        group.environments, group.rows = environments, agents.opponent_rows(environments)


def _map_state(change: Callable[..., Tensor], *states: State) -> State:
    """Apply a function to each part of one or more states; returns the same type of tuple."""
    parts = [change(*each) for each in zip(*states, strict=True)]
    state_type = type(states[0])
    return state_type._make(parts) if hasattr(state_type, "_make") else tuple(parts)
