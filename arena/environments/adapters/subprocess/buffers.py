"""Arrays of a batch of matches, in memory that several processes can share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.adapters.match import FloatArray, ObservationBuffer, Row
from arena.environments.spec import EnvironmentSpec, HeadKind

ACTION_TYPES = {HeadKind.GAUSSIAN: np.float32, HeadKind.BERNOULLI: np.bool_, HeadKind.CATEGORICAL: np.int64}
ALIGNMENT_BYTES = 64  # a cache line, so that no two fields share one

GOING_ON, TERMINATED, TRUNCATED = range(3)
"""Values of `Buffers.ending`."""

Layout = Mapping[str, tuple[Any, tuple[int, ...]]]


@dataclass(frozen=True)
class Buffers:
    """Arrays of E matches, shared by the caller and the workers.

    Attributes:
        actions: Actions of each head, (E, N) or (E, N, K).
        seeds: (E,) int64 seeds of the current matches.
        next_seeds: (E,) int64 seeds of the matches after the current ones.
        seen: Observations.
        final: Final observations of matches that have ended.
        reward: (E, N) float32.
        ending: (E,) uint8, GOING_ON, TERMINATED or TRUNCATED.
        score: (E,) float64 score of home; 0.5 while a match continues.
        reason: (E,) int64.
        decisions: (E,) int64 length of the match so far, including one that has just ended.
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
        """Map E matches onto writable memory of `size_bytes` bytes."""
        arrays: dict[str, NDArray[Any]] = {}
        offset = 0
        for name, (kind, shape) in _layout(spec, num_envs).items():
            array: NDArray[Any] = np.frombuffer(memory, kind, math.prod(shape), offset)
            arrays[name] = array.reshape(shape)
            # Each array starts at a cache line, so that processes do not share the lines of two arrays.
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
        """E, the number of matches."""
        return len(self.seeds)

    @staticmethod
    def size_bytes(spec: EnvironmentSpec, num_envs: int) -> int:
        """Return the memory size of E matches."""
        return sum(
            _aligned(math.prod(shape) * np.dtype(kind).itemsize) for kind, shape in _layout(spec, num_envs).values()
        )

    def part(self, rows: slice) -> "Buffers":
        """Return a view of some of the matches."""
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
        """Return a view of one match."""
        return Row(
            actions={name: array[number] for name, array in self.actions.items()},
            seen=self.seen.part(number),
            final=self.final.part(number),
            reward=self.reward[number],
        )


def _layout(spec: EnvironmentSpec, num_envs: int) -> Layout:
    """Return type and shape of every array, in order."""
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
