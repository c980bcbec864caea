"""Arrays that hold a batch of matches, in memory that several processes may share."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.environments.processes.match import Row, Sight
from arena.environments.spec import EnvironmentSpec, HeadKind

ACTION_TYPES = {HeadKind.GAUSSIAN: np.float32, HeadKind.BERNOULLI: np.bool_, HeadKind.CATEGORICAL: np.int64}
ALIGNMENT_BYTES = 64

GOING_ON, TERMINATED, TRUNCATED = range(3)
"""What `Buffers.ending` holds."""

Layout = Mapping[str, tuple[Any, tuple[int, ...]]]


class Buffers:
    """E matches, array by array. Whoever acts and whoever steps look at the same memory.

    Args:
        spec: Of the matches.
        num_envs: E.
        memory: Writable, of `size_bytes` bytes.

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

    def __init__(self, spec: EnvironmentSpec, num_envs: int, memory: memoryview) -> None:
        arrays: dict[str, NDArray[Any]] = {}
        offset = 0
        for name, (kind, shape) in _layout(spec, num_envs).items():
            array: NDArray[Any] = np.frombuffer(memory, kind, math.prod(shape), offset)
            arrays[name] = array.reshape(shape)
            offset += _aligned(array.nbytes)
        masked = [head.name for head in spec.heads if head.masked]
        self.num_envs = num_envs
        self.actions = {head.name: arrays[f"action {head.name}"] for head in spec.heads}
        self.seeds, self.next_seeds = arrays["seeds"], arrays["next_seeds"]
        self.seen, self.final = (
            Sight(arrays[f"{kind} values"], {name: arrays[f"{kind} mask {name}"] for name in masked}, arrays[kind])
            for kind in ("seen", "final")
        )
        self.reward, self.ending, self.score = arrays["reward"], arrays["ending"], arrays["score"]
        self.reason, self.decisions = arrays["reason"], arrays["decisions"]

    @staticmethod
    def size_bytes(spec: EnvironmentSpec, num_envs: int) -> int:
        """Memory that E matches take."""
        return sum(
            _aligned(math.prod(shape) * np.dtype(kind).itemsize) for kind, shape in _layout(spec, num_envs).values()
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
