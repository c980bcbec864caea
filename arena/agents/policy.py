"""An actor as a policy of the arena: who acts is asked, each with its own memory; what is not allowed is noted."""

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
        memory: (R,) what the actor gave each to remember; None where nothing.
        faults: (R,) whose last action was not allowed.
    """

    memory: NDArray[np.object_]
    faults: Bool[Tensor, " R"]


def ignore_faults(fault: str) -> None:
    """Tell nobody what was not allowed."""


def first_faults(say: Callable[[str], None], most: int = 3) -> Callable[[str], None]:
    """What tells a person the first so many things that were not allowed: each has lost a match."""
    told = 0

    def tell(fault: str) -> None:
        nonlocal told
        told += 1
        if told <= most:
            say(f"forfeit: {fault}" + ("; further ones are not printed" if told == most else ""))

    return tell


class ExternalPolicy:
    """Plays what an actor answers. Only agents that act are shown to it.

    Args:
        spec: The game.
        actor: Answers; closed by `close`.
        name: How messages call it.
        on_fault: Told what was not allowed, each time.
    """

    def __init__(
        self, spec: EnvironmentSpec, actor: ExternalAgent, name: str, on_fault: Callable[[str], None] = ignore_faults
    ) -> None:
        self._heads, self._actor, self._on_fault = spec.heads, actor, on_fault
        self.name = name

    @property
    def identity(self) -> str | None:
        """By what the same policy is known again; None where nothing says it."""
        return self._actor.identity

    def initial_state(self, rows: int) -> State:
        """State of `rows` agents that have seen nothing."""
        return _as_state(AgentMemory(np.full(rows, None, dtype=object), torch.zeros(rows, dtype=torch.bool)))

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Ask the actor for those who act; see `Policy.act`.

        Raises:
            ExternalPolicyError: It ended, was late, or gave no answer that can be read.
        """
        memory = as_remembered(state).memory.copy()
        memory[episode_start.numpy()] = None
        faults = torch.zeros(len(memory), dtype=torch.bool)
        actions = self._idle(observation)
        acting = observation.active.nonzero().flatten()
        if len(acting):
            batch = _batch(observation.rows(acting), memory[acting.numpy()])
            choices, kept = self._ask(batch, rng)
            for name, chosen in choices.actions.items():
                actions[name][acting] = chosen
            for place, fault in choices.faults.items():
                faults[acting[place]] = True
                self._on_fault(f"{self.name}: {fault}")
            if len(kept):
                memory[acting.numpy()] = _column(kept)
        return actions, _as_state(AgentMemory(memory, faults))

    def close(self) -> None:
        """Let go of the actor."""
        self._actor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, batch: Batch, rng: torch.Generator) -> tuple[Choices, Sequence[Any]]:
        """What a batch of agents does, and what each is given to remember: nothing, or one thing each."""
        try:
            reply = self._actor.act(batch)
            _require_whole_memory(reply.memory, len(batch))
            return choose(self._heads, reply.actions, batch, rng), reply.memory
        except ExternalPolicyError as error:
            raise ExternalPolicyError(f"{self.name}: {error}") from error

    def _idle(self, observation: Observation) -> dict[str, Tensor]:
        """Actions of agents that nobody asks for: allowed, for a match may go on that has its result."""
        return {head.name: _idle_action(head, observation) for head in self._heads}


def _idle_action(head: ActionHead, observation: Observation) -> Tensor:
    rows = len(observation.active)
    if head.kind is HeadKind.CATEGORICAL:
        first = observation.masks[head.name].int().argmax(dim=1) if head.masked else torch.zeros(rows)
        return first.to(torch.int64)
    return torch.zeros((rows, head.size), dtype=torch.bool if head.kind is HeadKind.BERNOULLI else torch.float32)


def as_remembered(state: State) -> AgentMemory:
    """Return the state of an `ExternalPolicy` as what it is."""
    return cast(AgentMemory, state)


def _as_state(remembered: AgentMemory) -> State:
    return cast(State, remembered)  # nobody but this module looks into it, and it is not all tensors


def _batch(observation: Observation, memory: NDArray[np.object_]) -> Batch:
    masks = {name: mask.numpy() for name, mask in observation.masks.items()}
    return Batch(observation.values.float().numpy(), masks, tuple(memory))


def _require_whole_memory(memory: Sequence[Any], agents: int) -> None:
    if len(memory) not in (0, agents):
        raise ExternalPolicyError(
            f"it returned memory for {len(memory)} of {agents} agents: return one item per agent, or None"
        )


def _column(things: Sequence[Any]) -> NDArray[np.object_]:
    """Return things as a column of objects, also where each is an array."""
    column = np.empty(len(things), dtype=object)
    for place, thing in enumerate(things):
        column[place] = thing
    return column
