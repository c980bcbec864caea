"""What agents may do, as action heads, and how their choices are read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from arena.environments.adapters.match import BoolArray
from arena.environments.spec import ActionHead, HeadKind
from arena.errors import GameError

HEAD = "action"
"""What the only head of an action of one part is called."""

Choices = Mapping[str, NDArray[Any]]
"""Actions of all agents, of every head (N, ...)."""


@dataclass(frozen=True)
class Factor:
    """One factor of an agent's own action space: what a head of it would be.

    Attributes:
        name: Keys that lead to it with dots between them, and its number where there are several; `HEAD` for no key.
        kind: Its kind.
        size: Its dimensions, switches or options.
    """

    name: str
    kind: HeadKind
    size: int


class ActionDecoder:
    """Reads one agent's actions, and which of them are legal.

    Args:
        agent: Its number.
        space: Its action space.
        heads: All heads.

    Attributes:
        options: For every masked head (K,) bool, which of its options this agent has at all.
        read: Turns the choices of all agents into this agent's action.
    """

    def __init__(self, agent: int, space: spaces.Space[Any], heads: Sequence[ActionHead]) -> None:
        self._space, self._factors = space, factors_of(space, str(agent))
        self._heads = {factor.name: head for head, factor in zip(heads, self._factors, strict=True) if head.masked}
        self.options: dict[str, BoolArray] = {
            head.name: np.arange(head.size) < factor.size
            for head, factor in zip(heads, self._factors, strict=True)
            if head.masked
        }
        self.read = _reader(agent, space, iter([head.name for head in heads]))

    def legal(self, told: Any) -> Mapping[str, BoolArray]:  # noqa: ANN401  as the space is
        """What an agent may choose, of every masked head (K,).

        Args:
            told: The game's mask, in one of two forms: options and switches of all heads one after the other, or as
                the action space is made, with an array for each part and None for what is not masked.

        Raises:
            ArenaError: The mask does not fit the space, or is one that is added to logits; the message begins with what
                it is.
        """
        if isinstance(self._space, spaces.Discrete):  # asked for in every decision of most games
            return dict.fromkeys(self.options, self._wide(self._factors[0], _truths(told)))
        return self.options | {
            self._heads[factor.name].name: self._wide(factor, mask)
            for factor, mask in self._masks(told)
            if mask is not None
        }

    def _masks(self, told: Any) -> Iterator[tuple[Factor, BoolArray | None]]:  # noqa: ANN401
        maskable = [factor for factor in self._factors if factor.kind is not HeadKind.GAUSSIAN]
        flat = _flat(told)
        if flat is None:
            yield from zip(self._factors, _masks_of(self._space, told), strict=True)
            return
        sizes = [factor.size for factor in maskable]
        if len(flat) != sum(sizes):
            raise GameError(f"a mask of {len(flat)} actions: all together there are {sum(sizes)}")
        yield from zip(maskable, np.split(flat, np.cumsum(sizes)[:-1]), strict=True)

    def _wide(self, factor: Factor, mask: BoolArray) -> BoolArray:
        """A mask with places for what only others have."""
        missing = self._heads[factor.name].size - factor.size
        if mask.shape != (factor.size,):
            raise GameError(f"a mask of {mask.size} actions: {factor.name} has {factor.size}")
        return np.pad(mask, (0, missing)) if missing else mask


def factors_of(space: spaces.Space[Any], agent: str) -> tuple[Factor, ...]:
    """The factors of an agent's actions.

    Raises:
        ArenaError: They are no heads of a fixed size and range, or two of them have one name.
    """
    factors = tuple(_factors(space, "", agent))
    names = [factor.name for factor in factors]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GameError(
            f"agent {agent} has several actions that would be called {', '.join(sorted(twice))}: name the keys of its "
            "Dict space otherwise"
        )
    return factors


def heads_for(factors: Mapping[str, Sequence[Factor]], *, masked: bool) -> tuple[ActionHead, ...]:
    """Heads that all agents share; where some have fewer options than others, a mask says which.

    Args:
        factors: Of every agent's actions.
        masked: Whether the game says which actions are legal: of choices and switches, not of a Box.

    Raises:
        ArenaError: Agents act in unlike ways.
    """
    first, *others = factors.items()
    for agent, each in others:
        if not _alike(first[1], each):
            raise GameError(
                f"agents {first[0]} and {agent} act in spaces of unlike kinds ({_told(first[1])}, {_told(each)}): one "
                "policy plays either side, so give all agents the same kind"
            )
    heads = []
    for column in zip(*factors.values(), strict=True):
        sizes, kind = {factor.size for factor in column}, column[0].kind
        is_masked = (masked and kind is not HeadKind.GAUSSIAN) or len(sizes) > 1
        heads.append(ActionHead(column[0].name, kind, max(sizes), masked=is_masked))
    return tuple(heads)


def require_no_addend(least: float) -> None:
    """Refuse a mask that was made to be added to logits, 0 where an action is legal: read as truths it is upside down.

    Args:
        least: The least of its numbers.

    Raises:
        ArenaError: It is below 0, or no number; the message begins with what the mask is.
    """
    if not least >= 0.0:
        raise GameError(
            f"a mask that holds {least:g}: 1 stands for what is legal and 0 for what is not; of one that is added to "
            "logits give mask == 0"
        )


def bounds_of(space: spaces.Space[Any]) -> list[Any]:
    """What a policy has to know of a space beside its size, as JSON values: where choices begin, or the scale."""
    match space:
        case spaces.Box():
            return [space.low.ravel().tolist(), space.high.ravel().tolist()]
        case spaces.Discrete() | spaces.MultiDiscrete():
            bounds: list[Any] = np.ravel(space.start).tolist()
            return bounds
        case spaces.Dict():
            return [bounds_of(inner) for inner in space.values()]
        case spaces.Tuple():
            return [bounds_of(inner) for inner in space]
        case _:
            return []


def _factors(space: spaces.Space[Any], name: str, agent: str) -> Iterator[Factor]:
    own = name or HEAD
    match space:
        case spaces.Dict():
            for key, inner in space.items():
                yield from _factors(inner, f"{name}.{key}" if name else str(key), agent)
        case spaces.Tuple():
            for number, inner in enumerate(space):
                yield from _factors(inner, f"{own}_{number}", agent)
        case spaces.Discrete():
            yield Factor(own, HeadKind.CATEGORICAL, int(space.n))
        case spaces.MultiDiscrete():
            counts = space.nvec.ravel().tolist()
            for number, count in enumerate(counts):
                yield Factor(own if len(counts) == 1 else f"{own}_{number}", HeadKind.CATEGORICAL, int(count))
        case spaces.MultiBinary():
            yield Factor(own, HeadKind.BERNOULLI, int(np.prod(space.shape)))
        case spaces.Box():
            yield Factor(own, HeadKind.GAUSSIAN, _dimensions(space, agent))
        case _:
            raise GameError(
                f"agent {agent} acts in a {type(space).__name__} space{f' at {name}' if name else ''}: make it "
                "Discrete, MultiDiscrete, MultiBinary or a bounded Box, or a Dict or Tuple of these"
            )


def _dimensions(space: spaces.Box, agent: str) -> int:
    if not np.issubdtype(space.dtype, np.floating):
        raise GameError(
            f"agent {agent} acts in a Box of {space.dtype}: choices of whole numbers are a MultiDiscrete space"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise GameError(
            f"agent {agent} acts in an unbounded Box (low {space.low.min():g}, high {space.high.max():g}): give it "
            "finite bounds, to which actions in [-1, 1] are scaled"
        )
    return int(np.prod(space.shape))


def _alike(some: Sequence[Factor], others: Sequence[Factor]) -> bool:
    return len(some) == len(others) and all(
        (one.name, one.kind) == (other.name, other.kind)
        and (one.kind is HeadKind.CATEGORICAL or one.size == other.size)
        for one, other in zip(some, others, strict=True)
    )


def _told(factors: Sequence[Factor]) -> str:
    return " x ".join(f"{factor.kind} {factor.size}" for factor in factors)


def _truths(told: Any) -> BoolArray:  # noqa: ANN401  whatever numbers or truth values a game gives
    mask = np.asarray(told)
    if mask.dtype.kind in "if" and mask.itemsize > 1 and mask.size:  # most masks are of bytes, which nobody adds
        require_no_addend(float(mask.min()))
    return mask.astype(np.bool_, copy=False)


def _flat(told: Any) -> BoolArray | None:  # noqa: ANN401
    """A mask that is one row of numbers; None for one that is made as a space is."""
    if isinstance(told, Mapping) or (isinstance(told, tuple | list) and not all(np.isscalar(each) for each in told)):
        return None
    row = np.asarray(told)
    return None if row.ndim != 1 else _truths(row)


def _masks_of(space: spaces.Space[Any], told: Any) -> Iterator[BoolArray | None]:  # noqa: ANN401
    """A mask for every factor, in their order; None for what is not masked.

    Raises:
        ArenaError: The mask is not made as the space is.
    """
    match space:
        case spaces.Dict():
            inside: Mapping[Any, Any] = {} if told is None else told
            if not isinstance(inside, Mapping) or inside.keys() - set(space):
                raise GameError(f"the mask {told!r}: its keys are {', '.join(map(str, space))}")
            for key, inner in space.items():
                yield from _masks_of(inner, inside.get(key))
        case spaces.Tuple():
            for inner, each in zip(space, _as_many(told, len(space)), strict=True):
                yield from _masks_of(inner, each)
        case spaces.MultiDiscrete():
            yield from _masks_of_choices(space, told)
        case spaces.Box() if told is not None:
            raise GameError(f"the mask {told!r} of a Box: leave it None, for none of its dimensions is illegal")
        case _:
            yield None if told is None else _truths(told).reshape(-1)


def _masks_of_choices(space: spaces.MultiDiscrete, told: Any) -> Iterator[BoolArray | None]:  # noqa: ANN401
    counts = space.nvec.ravel().tolist()
    flat = None if told is None else _flat(told)
    if flat is not None and len(flat) == sum(counts):
        yield from np.split(flat, np.cumsum(counts)[:-1])
        return
    for each in _as_many(told, len(counts)):
        yield None if each is None else _truths(each).reshape(-1)


def _as_many(told: Any, count: int) -> Sequence[Any]:  # noqa: ANN401
    if told is None:
        return [None] * count
    if len(told) != count:
        raise GameError(f"a mask of {len(told)} parts: its space has {count}")
    parts: Sequence[Any] = told
    return parts


def _reader(agent: int, space: spaces.Space[Any], names: Iterator[str]) -> Callable[[Choices], Any]:
    """What reads an agent's action of a space from its heads, whose names come in the order of its factors."""
    match space:
        case spaces.Dict():
            inside = {key: _reader(agent, inner, names) for key, inner in space.items()}
            return lambda choices: {key: read(choices) for key, read in inside.items()}
        case spaces.Tuple():
            parts = [_reader(agent, inner, names) for inner in space]
            return lambda choices: tuple(read(choices) for read in parts)
        case spaces.MultiDiscrete():
            own = [next(names) for _ in range(space.nvec.size)]
            return lambda choices: (
                np.array([choices[name][agent] for name in own], dtype=space.dtype).reshape(space.shape) + space.start
            )
        case _:
            return _single_reader(agent, space, next(names))


def _single_reader(agent: int, space: spaces.Space[Any], name: str) -> Callable[[Choices], Any]:
    match space:
        case spaces.Discrete():
            start = int(space.start)
            return lambda choices: int(choices[name][agent]) + start
        case spaces.MultiBinary():
            return lambda choices: choices[name][agent].astype(space.dtype).reshape(space.shape)
        case spaces.Box():
            middle, reach = (space.high + space.low) / 2.0, (space.high - space.low) / 2.0
            return lambda choices: np.clip(
                middle + reach * choices[name][agent].reshape(space.shape), space.low, space.high
            ).astype(space.dtype)
        case _:
            raise AssertionError(space)  # `factors_of` refuses all others
