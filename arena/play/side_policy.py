"""Policies of one side of many parallel matches, possibly different in each row."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.agents.policy import ExternalPolicy, as_agent_memory
from arena.environments.base import Actions, Observation
from arena.policies.ensemble.ensemble import PolicyEnsemble, stacking_key
from arena.policies.network_policy import NetworkPolicy
from arena.policies.nn.actor_critic import ActorCritic
from arena.policies.onnx.policy import OnnxBatch, OnnxPolicy
from arena.policies.protocol import Policy, State


class SidePolicies:
    """Policies of a side of E matches, with a state per agent: row e * n + i is agent i of match e.

    Networks of the same architecture act in one call, even with different weights, and so do ONNX models. They must not
    be trained any further. Every other policy acts for its own rows.

    Args:
        policies: (E,) policy of each match; a policy may play in several.
        agents: n, agents of the side.

    Attributes:
        external: Whether any policy is external and may return invalid actions.
    """

    def __init__(self, policies: Sequence[Policy], agents: int) -> None:
        self._shape = (len(policies), agents)
        groups: dict[Hashable, list[int]] = {}
        for match, policy in enumerate(policies):
            groups.setdefault(_group(policy), []).append(match)
        self._parts = [
            _PolicyGroup([policies[match] for match in matches], matches, agents) for matches in groups.values()
        ]
        self.external = any(isinstance(policy, ExternalPolicy) for policy in policies)

    def act(
        self,
        observation: Observation,
        episode_start: Bool[Tensor, " E"],
        rng: torch.Generator,
        queried: Bool[Tensor, " E"] | None = None,
    ) -> Actions:
        """Return the actions of the side, leading axes (E, n).

        Args:
            observation: Observation of the side, leading axis E * n.
            episode_start: Matches whose observation starts an episode.
            rng: Random generator; the policy of the first match samples first.
            queried: Matches for which external agents are queried. None for all.
        """
        starts = episode_start.repeat_interleave(self._shape[1])
        query_mask = (
            observation.active if queried is None else observation.active & queried.repeat_interleave(self._shape[1])
        )
        if len(self._parts) == 1:
            actions = self._parts[0].act(observation, starts, query_mask, rng)
        else:
            actions = _gathered(
                [(part.rows, part.act_alone(observation, starts, query_mask, rng)) for part in self._parts]
            )
        return {name: action.reshape(*self._shape, *action.shape[1:]) for name, action in actions.items()}

    @property
    def faults(self) -> Bool[Tensor, " E"]:
        """Matches in which an agent's last action was invalid; only external agents return such actions."""
        faults = torch.zeros(self._shape[0] * self._shape[1], dtype=torch.bool)
        for part in self._parts:
            faults[part.rows] = part.faults
        return faults.reshape(self._shape).any(dim=1)


class _PolicyGroup:
    """Rows that act in one call."""

    def __init__(self, policies: Sequence[Policy], matches: Sequence[int], agents: int) -> None:
        first = torch.tensor(matches).unsqueeze(1) * agents
        self.rows: Int[Tensor, " R"] = (first + torch.arange(agents)).flatten()
        self._policy = _merged(policies, agents)
        self._state: State = self._policy.initial_state(len(self.rows))

    def act(
        self, observation: Observation, starts: Bool[Tensor, " R"], query_mask: Bool[Tensor, " R"], rng: torch.Generator
    ) -> Actions:
        """Act for all rows; an external agent is queried only for the rows in `query_mask`."""
        if isinstance(self._policy, ExternalPolicy):
            observation = replace(observation, active=query_mask)
        actions, self._state = self._policy.act(observation, self._state, starts, rng)
        return actions

    @property
    def faults(self) -> Bool[Tensor, " R"] | bool:
        """Rows whose last action was invalid."""
        return as_agent_memory(self._state).faults if isinstance(self._policy, ExternalPolicy) else False

    def act_alone(
        self, observation: Observation, starts: Bool[Tensor, " A"], query_mask: Bool[Tensor, " A"], rng: torch.Generator
    ) -> Actions:
        """Act for this group's rows of the whole side."""
        return self.act(observation.rows(self.rows), starts[self.rows], query_mask[self.rows], rng)


class _Stack:
    """Networks of one architecture as one policy, with `rows_each` consecutive rows per network."""

    def __init__(self, networks: Sequence[ActorCritic], rows_each: int) -> None:
        slots = {id(network): network for network in networks}
        device = networks[0].observation_mean.device
        self._stack = PolicyEnsemble(networks[0].architecture, len(slots), device)
        for slot, network in enumerate(slots.values()):
            self._stack.put(slot, network)
        slot_of = {key: slot for slot, key in enumerate(slots)}
        slot_of_row = torch.tensor([slot_of[id(network)] for network in networks]).repeat_interleave(rows_each)
        self._seated = self._stack.assign_rows(slot_of_row)

    def initial_state(self, rows: int) -> State:
        """See `Policy.initial_state`."""
        return self._stack.initial_state(rows)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """See `Policy.act`."""
        return self._stack.act(observation, state, episode_start, self._seated, rng)


def _group(policy: Policy) -> Hashable:
    """Return the key of policies that act in one call: the architecture, the kind of model, or the policy itself."""
    match policy:
        case NetworkPolicy():
            return stacking_key(policy.network.architecture)
        case OnnxPolicy():
            return policy.kind
        case _:
            return id(policy)


def _merged(policies: Sequence[Policy], rows_each: int) -> Policy:
    """Return the policies of one group as one, with `rows_each` consecutive rows per policy."""
    networks = [policy.network for policy in policies if isinstance(policy, NetworkPolicy)]
    models = [policy for policy in policies if isinstance(policy, OnnxPolicy)]
    if networks:
        return _Stack(networks, rows_each)
    return OnnxBatch(models, rows_each) if models else policies[0]


def _gathered(parts: Sequence[tuple[Int[Tensor, " R"], Actions]]) -> Actions:
    """Merge the actions of all groups in row order."""
    order = torch.cat([rows for rows, _ in parts]).argsort()
    return {name: torch.cat([actions[name] for _, actions in parts])[order] for name in parts[0][1]}
