"""Agent index: which agents of a vectorised environment belong to the learner and which to its opponents.

Agents of all environments are numbered e * N + i. A policy that plays one side has n rows per environment, where n is
the size of the larger side. The smaller side is padded: its spare rows observe the same as its last agent, are never
active, and their actions are dropped. In a self-play environment the learner has both sides. The away sides of these
environments follow after the first n rows of every environment.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from arena.environments import EnvironmentSpec, HeadKind
from arena.environments.base import Actions, Observation
from arena.policies.ensemble.native_step import ObservationView
from arena.policies.nn.distributions import ActionLayout

ACTION_TYPES = {HeadKind.GAUSSIAN: torch.float32, HeadKind.BERNOULLI: torch.bool, HeadKind.CATEGORICAL: torch.int64}
"""Dtype of an environment's actions by kind of head."""


@dataclass(frozen=True)
class AgentRows:
    """Rows of one policy: the agents that it acts for.

    Attributes:
        environments: Environment of each row.
        agents: Number e * N + i of each row's agent.
        present: False for spare rows.
        present_indices: Indices of the rows that are not spare; None if there are no spare rows.
    """

    environments: Int[Tensor, " r"]
    agents: Int[Tensor, " r"]
    present: Bool[Tensor, " r"]
    present_indices: Int[Tensor, " agents"] | None

    def view(self, observation: Observation, episode_start: Bool[Tensor, " E"]) -> ObservationView:
        """View of the environments' observation by these rows, without a copy."""
        return ObservationView(observation, episode_start, self.agents, self.present)

    def observe(self, observation: Observation) -> Observation:
        """Copy of these rows' observations, with leading axis r."""
        return Observation(
            self.gather(observation.values), self._gather_masks(observation), self.gather_active(observation)
        )

    def _gather_masks(self, observation: Observation) -> dict[str, Bool[Tensor, "r _"]]:
        """Select these rows' masks, of all heads together."""
        masks = observation.masks
        if not masks:
            return {}
        selected = self.gather(torch.cat(list(masks.values()), dim=-1))
        return dict(zip(masks, torch.split(selected, [mask.shape[-1] for mask in masks.values()], dim=-1), strict=True))

    def gather(
        self, per_agent: Shaped[Tensor, "E N ..."], out: Shaped[Tensor, "r ..."] | None = None
    ) -> Shaped[Tensor, "r ..."]:
        """Select these rows from a tensor with one entry per agent."""
        return torch.index_select(per_agent.flatten(0, 1), 0, self.agents, out=out)

    def gather_active(self, observation: Observation, out: Bool[Tensor, " r"] | None = None) -> Bool[Tensor, " r"]:
        """Select which rows act; spare rows never do."""
        active = self.gather(observation.active, out)
        return active if self.present_indices is None else active.logical_and_(self.present)

    def gather_rewards(
        self, rewards: Float[Tensor, "E N ..."], out: Float[Tensor, "r ..."] | None = None
    ) -> Float[Tensor, "r ..."]:
        """Select these rows' rewards; those of spare rows are 0."""
        selected = self.gather(rewards, out)
        if self.present_indices is None:
            return selected
        return selected.masked_fill_(~self.present.view(-1, *[1] * (selected.ndim - 1)), 0.0)

    def scatter_actions(self, actions: Actions, out: Actions) -> None:
        """Write these rows' actions (r, ...) into those of all agents (E * N, ...)."""
        for name, action in actions.items():
            self.scatter(action, out[name])

    def scatter(self, per_row: Shaped[Tensor, "r ..."], out: Shaped[Tensor, "agents ..."]) -> None:
        """Write one entry per row into those of all agents (E * N, ...); those of spare rows are dropped."""
        if self.present_indices is None:
            out.index_copy_(0, self.agents, per_row)
        else:
            out.index_copy_(0, self.agents[self.present_indices], per_row[self.present_indices])


class JointActions:
    """Actions of all agents (E * N, ...), collected from the policies that act for them.

    Raw actions of networks are converted together: on a device, the launches of a conversion take longer than its work.

    Args:
        layout: Layout of the environments' heads.
        zeros: Makes zero actions by head.
        zero_raw: Makes zero raw actions.
    """

    def __init__(
        self, layout: ActionLayout, zeros: Callable[[], dict[str, Tensor]], zero_raw: Callable[[], Tensor]
    ) -> None:
        self._layout, self._zeros, self._zero_raw = layout, zeros, zero_raw
        self._heads: dict[str, Tensor] = {}
        self._raw: Tensor | None = None
        self._direct: list[AgentRows] = []

    def put_raw(self, rows: AgentRows, raw: Float[Tensor, "r A"]) -> None:
        """Set the raw actions of some rows."""
        if self._raw is None:
            self._raw = self._zero_raw()
        rows.scatter(raw, self._raw)

    def heads_for(self, rows: AgentRows) -> dict[str, Tensor]:
        """Return the actions by head, for a policy that writes those of its rows itself."""
        self._heads = self._heads or self._zeros()
        self._direct.append(rows)
        return self._heads

    def by_head(self) -> dict[str, Tensor]:
        """Return the actions by head; zeros for agents without an action."""
        if self._raw is None:
            return self._heads or self._zeros()
        actions = dict(self._layout.to_actions(self._raw))
        for rows in self._direct:
            for name, action in actions.items():
                rows.scatter(self._heads[name].index_select(0, rows.agents), action)
        return actions


class AgentIndex:
    """Assignment of both sides of E environments to the learner and its opponents.

    Args:
        spec: Specification of the environments.
        num_envs: E.
        device: Device of the environments' tensors.
        self_play: Environments where the learner has both sides. They have no opponent rows.

    Attributes:
        agents_per_side: n, rows of one side.
        agents_per_env: N, agents of one environment.
        single_side_rows: E * n, the learner's rows without the away sides of self-play, which come after them.
        rows: R, the learner's rows.
        learner: The learner's rows.
        environment_of_row: Environment (R,) of each of the learner's rows.
    """

    def __init__(
        self, spec: EnvironmentSpec, num_envs: int, device: torch.device, self_play: Sequence[int] = ()
    ) -> None:
        self._spec, self._num_envs, self.device = spec, num_envs, device
        self._layout = ActionLayout(spec.heads)
        self.agents_per_side, self.agents_per_env = max(spec.agents_per_side), spec.num_agents
        sides = [range(spec.num_agents)[spec.side(away)] for away in (False, True)]
        agents, dtypes, slots = num_envs * spec.num_agents, ACTION_TYPES, range(self.agents_per_side)
        self._action_shapes = {
            head.name: ((agents,) if head.kind is HeadKind.CATEGORICAL else (agents, head.size), dtypes[head.kind])
            for head in spec.heads
        }
        self._agent_of_slot = np.array([[side[min(i, len(side) - 1)] for i in slots] for side in sides])
        self._slot_present = np.array([[i < len(side) for i in slots] for side in sides])
        self._uneven = len(set(spec.agents_per_side)) > 1
        self._environments = np.array([*range(num_envs), *self_play])
        self._away = np.array([False] * num_envs + [True] * len(self_play))
        self.single_side_rows = num_envs * self.agents_per_side
        self.rows = len(self._environments) * self.agents_per_side
        self.learner = self._agent_rows(self._environments, self._away)
        self.environment_of_row = self.learner.environments

    def assign_sides(self, away: Mapping[int, bool]) -> set[int]:
        """Set the learner's side of some environments and return those where it changed."""
        environments = np.fromiter(away, np.int64, len(away))
        sides = np.fromiter(away.values(), np.bool_, len(away))
        changed = environments[self._away[environments] != sides]
        self._away[environments] = sides
        if len(changed):
            self.learner = self._with_sides(self.learner, self._environments, self._away, changed)
        return set(changed.tolist())

    def opponent_rows(self, environments: Sequence[int] | NDArray[np.int64]) -> AgentRows:
        """Rows of the opponents' side of some environments."""
        chosen = np.asarray(environments, dtype=np.int64)
        return self._agent_rows(chosen, ~self._away[chosen])

    def with_sides(self, rows: AgentRows, environments: NDArray[np.int64], changed: Set[int]) -> AgentRows:
        """Return the opponents' rows of environments in ascending order after some environments changed sides."""
        is_changed = self._mask([*changed])
        return self._with_sides(rows, environments, ~self._away[environments], np.flatnonzero(is_changed[environments]))

    def replace_environments(
        self, before: NDArray[np.int64], *, leaving: NDArray[np.int64], joining: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return a set of environments in ascending order, after some have left it and then some have joined it."""
        members = self._mask(before)
        members[leaving] = False
        members[joining] = True
        return np.flatnonzero(members)

    def learner_rows(self, environments: Sequence[int]) -> Int[Tensor, " r"]:
        """Indices of the learner's rows in some environments."""
        sides = np.flatnonzero(np.isin(self._environments, np.array(environments, dtype=np.int64)))
        return torch.from_numpy(self.row_indices(sides)).to(self.device)

    def row_indices(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Indices of the rows of positions with `agents_per_side` rows each."""
        n = self.agents_per_side
        return (positions[:, np.newaxis] * n + np.arange(n)).ravel()

    def expand_to_rows(
        self, per_environment: Bool[Tensor, " e"], out: Bool[Tensor, " r"] | None = None
    ) -> Bool[Tensor, " r"]:
        """Repeat a flag per environment for each of the learner's rows."""
        return torch.index_select(per_environment, 0, self.environment_of_row, out=out)

    def collect_actions(self) -> JointActions:
        """Return a new, empty set of all agents' actions."""
        return JointActions(self._layout, self._zero_actions, self._zero_raw)

    def _zero_actions(self) -> dict[str, Tensor]:
        return {
            name: torch.zeros(shape, dtype=dtype, device=self.device)
            for name, (shape, dtype) in self._action_shapes.items()
        }

    def _zero_raw(self) -> Tensor:
        return torch.zeros(self._num_envs * self._spec.num_agents, self._layout.raw_size, device=self.device)

    def unflatten(self, actions: Actions) -> dict[str, Tensor]:
        """Reshape actions from (E * N, ...) to (E, N, ...)."""
        agents = self._spec.num_agents
        return {name: each.view(self._num_envs, agents, *each.shape[1:]) for name, each in actions.items()}

    def _agent_rows(self, environments: NDArray[np.int64], away: NDArray[np.bool_]) -> AgentRows:
        # Computed on the host, because `nonzero` on a GPU would wait for the device.
        present = self._slot_present[away.astype(np.int64)].ravel()
        return AgentRows(
            environments=self._to_device(environments.repeat(self.agents_per_side)),
            agents=self._to_device(self._agents_of(environments, away)),
            present=self._to_device(present),
            present_indices=self._to_device(np.flatnonzero(present)) if self._uneven else None,
        )

    def _with_sides(
        self,
        rows: AgentRows,
        environments: NDArray[np.int64],
        away: NDArray[np.bool_],
        changed: NDArray[np.int64],
    ) -> AgentRows:
        """Set the sides of some positions within `environments`; uploads their rows only, and changes `rows`."""
        # Sides of unlike sizes have other spare rows, so everything is computed again.
        if self._uneven:
            return self._agent_rows(environments, away)
        agents = self._agents_of(environments[changed], away[changed])
        places = self._to_device(np.stack([self.row_indices(changed), agents]))
        rows.agents.index_copy_(0, *places)
        return rows

    def _agents_of(self, environments: NDArray[np.int64], away: NDArray[np.bool_]) -> NDArray[np.int64]:
        first = environments[:, np.newaxis] * self._spec.num_agents
        agents: NDArray[np.int64] = (first + self._agent_of_slot[away.astype(np.int64)]).ravel()
        return agents

    def _mask(self, environments: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(self._num_envs, dtype=np.bool_)
        mask[environments] = True
        return mask

    def _to_device(self, values: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(values).to(self.device)
