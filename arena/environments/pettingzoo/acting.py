"""What agents may do, as action heads, and how their choices are read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from arena.environments.processes.match import BoolArray
from arena.environments.spec import ActionHead, HeadKind
from arena.errors import ArenaError

HEAD = "action"

Choices = Mapping[str, NDArray[Any]]
"""Actions of all agents, of every head (N, ...)."""


@dataclass(frozen=True)
class Factor:
    """One factor of an agent's own action space: what a head of it would be."""

    kind: HeadKind
    size: int


class Hands:
    """Reads one agent's actions.

    Args:
        agent: Its number.
        space: Its action space.
        heads: All heads.

    Attributes:
        options: For every masked head (K,) bool, which of its options this agent has at all.
        size: Options of the head where there is one categorical one; 0 otherwise.
        read: Turns the choices of all agents into this agent's action.
    """

    def __init__(self, agent: int, space: spaces.Space[Any], heads: Sequence[ActionHead]) -> None:
        factors = factors_of(space, str(agent))
        self.options: dict[str, BoolArray] = {
            head.name: np.arange(head.size) < factor.size
            for head, factor in zip(heads, factors, strict=True)
            if head.masked
        }
        self.size = factors[0].size if isinstance(space, spaces.Discrete) else 0
        self.read = _reader(agent, space, [head.name for head in heads])


def factors_of(space: spaces.Space[Any], agent: str) -> tuple[Factor, ...]:
    """The factors of an agent's actions.

    Raises:
        ArenaError: They are no heads of a fixed size and range.
    """
    match space:
        case spaces.Discrete():
            return (Factor(HeadKind.CATEGORICAL, int(space.n)),)
        case spaces.MultiDiscrete():
            return tuple(Factor(HeadKind.CATEGORICAL, int(count)) for count in space.nvec.ravel())
        case spaces.MultiBinary():
            return (Factor(HeadKind.BERNOULLI, int(np.prod(space.shape))),)
        case spaces.Box() if not np.issubdtype(space.dtype, np.floating):
            raise ArenaError(
                f"agent {agent} acts in a Box of {space.dtype}: choices of whole numbers are a MultiDiscrete space"
            )
        case spaces.Box() if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise ArenaError(
                f"agent {agent} acts in an unbounded Box (low {space.low.min():g}, high {space.high.max():g}): give it "
                "finite bounds, to which actions in [-1, 1] are scaled"
            )
        case spaces.Box():
            return (Factor(HeadKind.GAUSSIAN, int(np.prod(space.shape))),)
        case _:
            raise ArenaError(
                f"agent {agent} acts in a {type(space).__name__} space: make it Discrete, MultiDiscrete, MultiBinary "
                "or a bounded Box"
            )


def heads_for(factors: Mapping[str, Sequence[Factor]], *, masked: bool) -> tuple[ActionHead, ...]:
    """Heads that all agents share; where some have fewer options than others, a mask says which.

    Args:
        factors: Of every agent's actions.
        masked: Whether the game says which actions are legal.

    Raises:
        ArenaError: Agents act in unlike ways.
    """
    first, *others = factors.items()
    for agent, each in others:
        if not _alike(first[1], each):
            raise ArenaError(
                f"agents {first[0]} and {agent} act in spaces of unlike kinds ({_told(first[1])}, {_told(each)}): one "
                "policy plays either side, so give all agents the same kind"
            )
    if masked and (len(first[1]) > 1 or first[1][0].kind is not HeadKind.CATEGORICAL):
        raise ArenaError(f"the game masks actions of kind {_told(first[1])}: masks are taken of Discrete spaces alone")
    heads = []
    for number, column in enumerate(zip(*factors.values(), strict=True)):
        sizes = {factor.size for factor in column}
        name = HEAD if len(first[1]) == 1 else f"{HEAD}_{number}"
        heads.append(ActionHead(name, column[0].kind, max(sizes), masked=masked or len(sizes) > 1))
    return tuple(heads)


def bounds_of(space: spaces.Space[Any]) -> list[Any]:
    """What a policy has to know of a space beside its size, as JSON values: where choices begin, or the scale."""
    if isinstance(space, spaces.Box):
        return [space.low.ravel().tolist(), space.high.ravel().tolist()]
    return np.ravel(space.start).tolist() if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else []


def _alike(some: Sequence[Factor], others: Sequence[Factor]) -> bool:
    return len(some) == len(others) and all(
        one.kind is other.kind and (one.kind is HeadKind.CATEGORICAL or one.size == other.size)
        for one, other in zip(some, others, strict=True)
    )


def _told(factors: Sequence[Factor]) -> str:
    return " x ".join(f"{factor.kind} {factor.size}" for factor in factors)


def _reader(agent: int, space: spaces.Space[Any], names: Sequence[str]) -> Callable[[Choices], Any]:
    first = names[0]
    match space:
        case spaces.Discrete():
            start = int(space.start)
            return lambda choices: int(choices[first][agent]) + start
        case spaces.MultiDiscrete():
            return lambda choices: (
                np.array([choices[name][agent] for name in names], dtype=space.dtype).reshape(space.shape) + space.start
            )
        case spaces.MultiBinary():
            return lambda choices: choices[first][agent].astype(space.dtype).reshape(space.shape)
        case spaces.Box():
            middle, reach = (space.high + space.low) / 2.0, (space.high - space.low) / 2.0
            return lambda choices: np.clip(
                middle + reach * choices[first][agent].reshape(space.shape), space.low, space.high
            ).astype(space.dtype)
        case _:
            raise AssertionError(space)  # `factors_of` refuses all others
