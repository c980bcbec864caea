"""Opponent actors: one scripted policy per group, or learned policies of one architecture stacked in one ensemble.

`batch.py` stores their recurrent states.
"""

from collections import OrderedDict
from collections.abc import Sequence, Set
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.base import Observation
from arena.policies import ActorCritic, NetworkPolicy, Policy, RecurrentState, State
from arena.policies.ensemble.ensemble import NativeBinding, PolicyEnsemble, RowAssignment, stacking_key
from arena.policies.ensemble.native_step import ObservationView
from arena.policies.onnx.policy import OnnxBatch, OnnxPolicy
from trainer.opponents.agent_index import AgentRows, JointActions
from trainer.opponents.pool import SELF, Opponent

INITIAL_SLOTS = 16
"""Slots of a new ensemble; they double as more are needed."""

UNASSIGNED = -1
"""In place of a slot: the environment has joined the group, but has no opponent yet."""


class ScriptedActor:
    """One policy that acts for all rows of its group."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def initial_state(self, rows: int) -> State:
        """See `Policy.initial_state`."""
        return self._policy.initial_state(rows)

    def move(self, source: NDArray[np.int64], rows_each: int) -> None:
        """Set the environments: each takes the opponent of an earlier position, or awaits `assign` where that is -1.

        Here and in `assign`, each environment has `rows_each` consecutive rows, and all rows have the same policy.
        """

    def assign(self, positions: NDArray[np.int64], opponents: Sequence[Opponent], rows_each: int) -> None:
        """Set the opponents at some positions among the environments; the others keep theirs."""

    def refresh_weights(self) -> None:
        """Do nothing: there are no weights."""

    def act(
        self, rows: AgentRows, view: ObservationView, state: State, rng: torch.Generator, actions: JointActions
    ) -> State:
        """Choose the rows' actions and return the next recurrent state.

        Args:
            rows: Agents of the rows.
            view: Their observation; rows whose episode starts are reset before they act.
            state: Recurrent state of the rows.
            rng: Source of the action noise.
            actions: Actions of all agents, where those of the rows are set.
        """
        observation, episode_start = _copy_rows(rows, view)
        chosen, next_state = self._policy.act(observation, state, episode_start, rng)
        rows.scatter_actions(chosen, actions.heads_for(rows))
        return next_state


class StackedActor:
    """Learned opponents of one architecture, each in one slot of an ensemble, with LRU eviction.

    Slots double until they reach the limit. After that, the opponent that was assigned least recently is evicted.
    Slots double beyond the limit only if more opponents play at once than fit.

    Args:
        network: Network of any of the opponents.
        agents_per_env: N.
        device: Device of the weights and the rows.
        limit_bytes: Memory of the slots, unless the current opponents need more.
    """

    def __init__(self, network: ActorCritic, agents_per_env: int, device: torch.device, limit_bytes: int) -> None:
        self._ensemble = PolicyEnsemble(network.architecture, INITIAL_SLOTS, device)
        self._agents_per_env = agents_per_env
        self._binding = self._bind(torch.zeros(0, dtype=torch.int64))
        self._max_slots = limit_bytes // self._ensemble.slot_bytes
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._slot_of_env = np.zeros(0, np.int64)
        self._live: Opponent | None = None

    @property
    def keys(self) -> list[str]:
        """Opponents in slots, least recently assigned first."""
        return list(self._slots)

    @property
    def size_bytes(self) -> int:
        """Memory of all slots."""
        return self._ensemble.slots * self._ensemble.slot_bytes

    def initial_state(self, rows: int) -> State:
        """Zeros."""
        return self._ensemble.initial_state(rows)

    def move(self, source: NDArray[np.int64], rows_each: int) -> None:
        """See `ScriptedActor.move`."""
        self._slot_of_env = np.append(self._slot_of_env, UNASSIGNED)[source]
        self._bind_rows(rows_each)

    def assign(self, positions: NDArray[np.int64], opponents: Sequence[Opponent], rows_each: int) -> None:
        """See `ScriptedActor.assign`. The rows' recurrent state stays until their next episode start."""
        keys = [opponent.key for opponent in opponents]
        current = dict(zip(keys, opponents, strict=True))
        self._slot_of_env[positions] = UNASSIGNED
        playing = np.bincount(self._slot_of_env + 1, minlength=1)[1:]
        busy = {*np.flatnonzero(playing).tolist(), *(self._slots[key] for key in current if key in self._slots)}
        for key, opponent in current.items():
            if key not in self._slots:
                self._slots[key] = self._free_slot(busy)
                busy.add(self._slots[key])
                self._copy_weights(opponent)
            # The order of the dictionary is the order of eviction.
            self._slots.move_to_end(key)
        # The live weights keep their slot between matches against it, so they must be refreshed then, too.
        self._live = current.get(SELF, self._live)
        self._slot_of_env[positions] = [self._slots[key] for key in keys]
        self._bind_rows(rows_each)

    def refresh_weights(self) -> None:
        """Copy the learner's live weights to their slot."""
        if self._live is not None and SELF in self._slots:
            self._copy_weights(self._live)

    def act(
        self, rows: AgentRows, view: ObservationView, state: State, rng: torch.Generator, actions: JointActions
    ) -> State:
        """See `ScriptedActor.act`."""
        match self._binding:
            case NativeBinding() as native:
                heads = actions.heads_for(rows)
                return self._ensemble.step_native(view, RecurrentState(*state), native, rng, heads)
            case RowAssignment() as assignment:
                observation, episode_start = _copy_rows(rows, view)
                raw, next_state = self._ensemble.sample(observation, state, episode_start, assignment, rng)
                actions.put_raw(rows, raw)
                return next_state

    def _bind_rows(self, rows_each: int) -> None:
        if UNASSIGNED not in self._slot_of_env:
            self._binding = self._bind(torch.from_numpy(self._slot_of_env.repeat(rows_each)))

    def _bind(self, slot_of_row: Int[Tensor, " R"]) -> NativeBinding | RowAssignment:
        return self._ensemble.bind(slot_of_row, self._agents_per_env) or self._ensemble.assign_rows(slot_of_row)

    def _copy_weights(self, opponent: Opponent) -> None:
        self._ensemble.put(self._slots[opponent.key], _network(opponent))

    def _free_slot(self, busy: Set[int]) -> int:
        """Return an unused slot, evicting an opponent that is not playing if the limit is reached."""
        slots = self._ensemble.slots
        if len(self._slots) == slots < self._max_slots:
            self._ensemble.reserve(min(2 * slots, self._max_slots))
        elif len(self._slots) == slots:
            for key, slot in self._slots.items():
                if slot not in busy:
                    return self._slots.pop(key)
            self._ensemble.reserve(2 * slots)
        return len(self._slots)


class OnnxActor(ScriptedActor):
    """Opponents in ONNX models of one kind, which are sampled together."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._policies: list[Policy | None] = []

    def move(self, source: NDArray[np.int64], rows_each: int) -> None:
        """See `ScriptedActor.move`."""
        before = [*self._policies, None]
        self._policies = [before[index] for index in source]
        self._make_batch(rows_each)

    def assign(self, positions: NDArray[np.int64], opponents: Sequence[Opponent], rows_each: int) -> None:
        """See `ScriptedActor.assign`. The rows' memory stays until their next episode start."""
        for position, opponent in zip(positions.tolist(), opponents, strict=True):
            self._policies[position] = opponent.policy
        self._make_batch(rows_each)

    def _make_batch(self, rows_each: int) -> None:
        if None not in self._policies:
            policies = [policy for policy in self._policies if isinstance(policy, OnnxPolicy)]
            self._policy = OnnxBatch(policies, rows_each)


OpponentActor = ScriptedActor | StackedActor
"""Acts for a group of environments in one call."""


def group_key(opponent: Opponent) -> str:
    """Key of the group that the opponent acts in: its architecture or kind of model if learned, else its own key."""
    match opponent.policy:
        case NetworkPolicy() as policy:
            return _architecture_key(policy.network)
        case OnnxPolicy() as policy:
            return policy.kind
        case _:
            return opponent.key


def _architecture_key(network: ActorCritic) -> str:
    # Needed at every match start. By the network, because the hash of an architecture is slow, too.
    if network not in _ARCHITECTURE_KEYS:
        _ARCHITECTURE_KEYS[network] = repr(stacking_key(network.architecture))
    return _ARCHITECTURE_KEYS[network]


_ARCHITECTURE_KEYS: WeakKeyDictionary[ActorCritic, str] = WeakKeyDictionary()


def make_actor(opponent: Opponent, agents_per_env: int, device: torch.device, limit_bytes: int) -> OpponentActor:
    """Create the actor of the group that the opponent belongs to."""
    if isinstance(opponent.policy, NetworkPolicy):
        return StackedActor(opponent.policy.network, agents_per_env, device, limit_bytes)
    if isinstance(opponent.policy, OnnxPolicy):
        return OnnxActor(opponent.policy)
    return ScriptedActor(opponent.policy)


def _copy_rows(rows: AgentRows, view: ObservationView) -> tuple[Observation, Bool[Tensor, " r"]]:
    return rows.observe(view.observation), view.episode_start.index_select(0, rows.environments)


def _network(opponent: Opponent) -> ActorCritic:
    if not isinstance(opponent.policy, NetworkPolicy):
        raise TypeError(f"{opponent.name} has no network to stack")
    return opponent.policy.network
