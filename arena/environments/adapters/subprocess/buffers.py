"""Arrays that hold a batch of matches, in memory that several processes may share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.adapters.match import FloatArray, ObservationBuffer, Row
from arena.environments.spec import EnvironmentSpec, HeadKind

ACTION_TYPES = {HeadKind.GAUSSIAN: np.float32, HeadKind.BERNOULLI: np.bool_, HeadKind.CATEGORICAL: np.int64}
ALIGNMENT_BYTES = 64

GOING_ON, TERMINATED, TRUNCATED = range(3)
"""What `Buffers.ending` holds."""

Layout = Mapping[str, tuple[Any, tuple[int, ...]]]


@dataclass(frozen=True)
class Buffers:
    """E matches, array by array. Whoever acts and whoever steps look at the same memory.

    Attributes:
        actions: For every head, (E, N) or (E, N, K).
        seeds: (E,) int64, by which a row is opened.
        next_seeds: (E,) int64, by which it is opened once its match has ended.
        seen: What agents perceive.
        final: What they perceived last where a match has ended.
        reward: (E, N) float32.
        ending: (E,) uint8, GOING_ON, TERMINATED or TRUNCATED.
        score: (E,) float64, home's; 0.5 where a match goes on.
        reason: (E,) int64.
        decisions: (E,) int64, length of the match so far, the one that has just ended included.
    """

    actions: Mapping[str, NDArray[Any]]
    seeds: NDArray[np.int64]
    next_seeds: NDArray[np.int64]
    seen: ObservationBuffer
    final: ObservationBuffer
    reward: FloatArray
    ending: NDArray[np.uint8]
    score: NDArray[np.float64]
    reason: NDArray[np.int64]
    decisions: NDArray[np.int64]

    @classmethod
    def over(cls, spec: EnvironmentSpec, num_envs: int, memory: memoryview) -> "Buffers":
        """E matches in memory that is writable and has `size_bytes` bytes."""
        arrays: dict[str, NDArray[Any]] = {}
        offset = 0
        for name, (kind, shape) in _layout(spec, num_envs).items():
            array: NDArray[Any] = np.frombuffer(memory, kind, math.prod(shape), offset)
            arrays[name] = array.reshape(shape)
            offset += _aligned(array.nbytes)
        masked = [head.name for head in spec.heads if head.masked]
        seen, final = (
            ObservationBuffer(
                arrays[f"{kind} values"], {name: arrays[f"{kind} mask {name}"] for name in masked}, arrays[kind]
            )
            for kind in ("seen", "final")
        )
        plain = ("seeds", "next_seeds", "reward", "ending", "score", "reason", "decisions")
        actions = {head.name: arrays[f"action {head.name}"] for head in spec.heads}
        return cls(actions=actions, seen=seen, final=final, **{name: arrays[name] for name in plain})

    @property
    def num_envs(self) -> int:
        """E."""
        return len(self.seeds)

    @staticmethod
    def size_bytes(spec: EnvironmentSpec, num_envs: int) -> int:
        """Memory that E matches take."""
        return sum(
            _aligned(math.prod(shape) * np.dtype(kind).itemsize) for kind, shape in _layout(spec, num_envs).values()
        )

    def part(self, rows: slice) -> "Buffers":
        """Some of the matches, in the same memory."""
        return Buffers(
            actions={name: array[rows] for name, array in self.actions.items()},
            seeds=self.seeds[rows],
            next_seeds=self.next_seeds[rows],
            seen=self.seen.part(rows),
            final=self.final.part(rows),
            reward=self.reward[rows],
            ending=self.ending[rows],
            score=self.score[rows],
            reason=self.reason[rows],
            decisions=self.decisions[rows],
        )

    def row(self, number: int) -> Row:
        """One match's place."""
        return Row(
            actions={name: array[number] for name, array in self.actions.items()},
            seen=self.seen.part(number),
            final=self.final.part(number),
            reward=self.reward[number],
        )


def _layout(spec: EnvironmentSpec, num_envs: int) -> Layout:
    """Type and shape of every array, in their order."""
    rows, agents = (num_envs,), (num_envs, spec.num_agents)
    layout: dict[str, tuple[Any, tuple[int, ...]]] = {
        "seeds": (np.int64, rows),
        "next_seeds": (np.int64, rows),
        "score": (np.float64, rows),
        "reason": (np.int64, rows),
        "decisions": (np.int64, rows),
        "ending": (np.uint8, rows),
        "reward": (np.float32, agents),
    }
    for head in spec.heads:
        shape = agents if head.kind is HeadKind.CATEGORICAL else (*agents, head.size)
        layout[f"action {head.name}"] = (ACTION_TYPES[head.kind], shape)
    for kind in ("seen", "final"):
        layout[f"{kind} values"] = (np.float32, (*agents, spec.observation_size))
        layout[kind] = (np.bool_, agents)
        for head in spec.heads:
            if head.masked:
                layout[f"{kind} mask {head.name}"] = (np.bool_, (*agents, head.size))
    return layout


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
