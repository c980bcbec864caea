"""External agent as a policy: only acting agents are queried, each with its own memory, and faults are recorded."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import Tensor

from arena.agents.base import Batch, ExternalAgent
from arena.agents.decode_actions import Choices, choose
from arena.agents.errors import ExternalPolicyError
from arena.environments.base import Actions, Observation
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind
from arena.policies.protocol import State


class AgentMemory(NamedTuple):
    """State of R agents.

    Attributes:
        memory: (R,) memory returned by the agent. None if there is none.
        faults: (R,) true if the last action was invalid.
    """

    memory: NDArray[np.object_]
    faults: Bool[Tensor, " R"]


def ignore_faults(fault: str) -> None:
    """Ignore an invalid action."""


def first_faults(print_line: Callable[[str], None], most: int = 3) -> Callable[[str], None]:
    """Return a callback that prints the first invalid actions, each of which forfeits a match."""
    printed = 0

    def print_fault(fault: str) -> None:
        nonlocal printed
        printed += 1
        if printed <= most:
            print_line(f"forfeit: {fault}" + ("; further ones are not printed" if printed == most else ""))

    return print_fault


class ExternalPolicy:
    """Policy that queries an external agent, for acting agents only.

    Args:
        spec: The game.
        actor: The external agent, closed by `close`.
        name: Name in messages.
        on_fault: Called with every invalid action.
    """

    def __init__(
        self, spec: EnvironmentSpec, actor: ExternalAgent, name: str, on_fault: Callable[[str], None] = ignore_faults
    ) -> None:
        self._heads, self._actor, self._on_fault = spec.heads, actor, on_fault
        self.name = name

    @property
    def identity(self) -> str | None:
        """Stable identity of the agent; None if unknown."""
        return self._actor.identity

    def initial_state(self, rows: int) -> State:
        """Return the initial state of `rows` agents."""
        return _as_state(AgentMemory(np.full(rows, None, dtype=object), torch.zeros(rows, dtype=torch.bool)))

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Query the external agent for the acting agents (see `Policy.act`).

        Raises:
            ExternalPolicyError: The agent ended, timed out, or returned an unreadable answer.
        """
        memory = as_agent_memory(state).memory.copy()
        memory[episode_start.numpy()] = None
        faults = torch.zeros(len(memory), dtype=torch.bool)
        actions = self._idle(observation)
        acting = observation.active.nonzero().flatten()
        if len(acting):
            batch = _batch(observation.rows(acting), memory[acting.numpy()])
            choices, memories = self._query(batch, rng)
            for name, chosen in choices.actions.items():
                actions[name][acting] = chosen
            for index, fault in choices.faults.items():
                faults[acting[index]] = True
                self._on_fault(f"{self.name}: {fault}")
            if len(memories):
                memory[acting.numpy()] = _column(memories)
        return actions, _as_state(AgentMemory(memory, faults))

    def close(self) -> None:
        """Close the external agent."""
        self._actor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _query(self, batch: Batch, rng: torch.Generator) -> tuple[Choices, Sequence[Any]]:
        """Return the actions of a batch and the memory of each agent, or no memory."""
        try:
            reply = self._actor.act(batch)
            _require_whole_memory(reply.memory, len(batch))
            return choose(self._heads, reply.actions, batch, rng), reply.memory
        except ExternalPolicyError as error:
            raise ExternalPolicyError(f"{self.name}: {error}") from error

    def _idle(self, observation: Observation) -> dict[str, Tensor]:
        """Return legal actions for agents that are not queried, because a match with a result may continue."""
        return {head.name: _idle_action(head, observation) for head in self._heads}


def _idle_action(head: ActionHead, observation: Observation) -> Tensor:
    rows = len(observation.active)
    if head.kind is HeadKind.CATEGORICAL:
        first = observation.masks[head.name].int().argmax(dim=1) if head.masked else torch.zeros(rows)
        return first.to(torch.int64)
    return torch.zeros((rows, head.size), dtype=torch.bool if head.kind is HeadKind.BERNOULLI else torch.float32)


def as_agent_memory(state: State) -> AgentMemory:
    """Return the state of an `ExternalPolicy` with its actual type."""
    return cast(AgentMemory, state)


def _as_state(memory: AgentMemory) -> State:
    return cast(State, memory)  # opaque to other modules; not all of it is tensors


def _batch(observation: Observation, memory: NDArray[np.object_]) -> Batch:
    masks = {name: mask.numpy() for name, mask in observation.masks.items()}
    return Batch(observation.values.float().numpy(), masks, tuple(memory))


def _require_whole_memory(memory: Sequence[Any], agents: int) -> None:
    if len(memory) not in (0, agents):
        raise ExternalPolicyError(
            f"it returned memory for {len(memory)} of {agents} agents: return one item per agent, or None"
        )


def _column(items: Sequence[Any]) -> NDArray[np.object_]:
    """Return a column of objects, even if the items are arrays."""
    column = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        column[index] = item
    return column
