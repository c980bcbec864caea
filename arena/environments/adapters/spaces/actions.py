"""Action spaces as action heads, and decoding of actions and action masks."""

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
"""Name of the only head of a single-part action."""

Choices = Mapping[str, NDArray[Any]]
"""Actions of all agents, (N, ...) for every head."""


@dataclass(frozen=True)
class Factor:
    """One factor of an agent's action space, which becomes a head.

    Attributes:
        name: Dotted path of keys, with a number if there are several factors; `HEAD` without keys.
        kind: Its kind.
        size: Its dimensions, switches or options.
    """

    name: str
    kind: HeadKind
    size: int


class ActionDecoder:
    """Decodes one agent's actions and action masks.

    Args:
        agent: Index of the agent.
        space: Its action space.
        heads: All heads.

    Attributes:
        options: (K,) bool for every masked head, true for the options that exist for this agent.
        read: Converts the heads' values of all agents to this agent's action.
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

    def legal(self, mask: Any) -> Mapping[str, BoolArray]:  # noqa: ANN401  as the space is
        """Return the action mask (K,) of every masked head.

        Args:
            mask: The game's mask, either flat (options and switches of all heads concatenated) or structured like the
                action space, with an array per part and None for unmasked parts.

        Raises:
            ArenaError: The mask does not match the space, or is additive for logits.
        """
        if isinstance(self._space, spaces.Discrete):  # fast path: called for every decision of most games
            return dict.fromkeys(self.options, self._pad(self._factors[0], _as_booleans(mask)))
        return self.options | {
            self._heads[factor.name].name: self._pad(factor, mask)
            for factor, mask in self._masks(mask)
            if mask is not None
        }

    def _masks(self, mask: Any) -> Iterator[tuple[Factor, BoolArray | None]]:  # noqa: ANN401
        maskable = [factor for factor in self._factors if factor.kind is not HeadKind.GAUSSIAN]
        flat = _flat_mask(mask)
        if flat is None:
            yield from zip(self._factors, _masks_of(self._space, mask), strict=True)
            return
        sizes = [factor.size for factor in maskable]
        if len(flat) != sum(sizes):
            raise GameError(f"a mask of {len(flat)} actions: all together there are {sum(sizes)}")
        yield from zip(maskable, np.split(flat, np.cumsum(sizes)[:-1]), strict=True)

    def _pad(self, factor: Factor, mask: BoolArray) -> BoolArray:
        """Pad a mask for options that exist only for other agents."""
        missing = self._heads[factor.name].size - factor.size
        if mask.shape != (factor.size,):
            raise GameError(f"a mask of {mask.size} actions: {factor.name} has {factor.size}")
        return np.pad(mask, (0, missing)) if missing else mask


def factors_of(space: spaces.Space[Any], agent: str) -> tuple[Factor, ...]:
    """Return the factors of an agent's action space.

    Raises:
        ArenaError: A part has no fixed size and range, or two factors have the same name.
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
    """Return the heads that all agents share; masks cover different numbers of options.

    Args:
        factors: Factors of every agent's action space.
        masked: Whether the game provides action masks for choices and switches.

    Raises:
        ArenaError: Agents have incompatible action spaces.
    """
    first, *others = factors.items()
    for agent, each in others:
        if not _compatible(first[1], each):
            raise GameError(
                f"agents {first[0]} and {agent} act in spaces of unlike kinds ({_describe_factors(first[1])}, "
                f"{_describe_factors(each)}): one policy plays either side, so give all agents the same kind"
            )
    heads = []
    for column in zip(*factors.values(), strict=True):
        sizes, kind = {factor.size for factor in column}, column[0].kind
        # Agents with fewer options share the head of the largest one, so the rest of its options must be masked.
        is_masked = (masked and kind is not HeadKind.GAUSSIAN) or len(sizes) > 1
        heads.append(ActionHead(column[0].name, kind, max(sizes), masked=is_masked))
    return tuple(heads)


def require_no_addend(least: float) -> None:
    """Reject an additive mask (0 for legal actions), which would be read inverted as booleans.

    Args:
        least: Minimum of the mask.

    Raises:
        ArenaError: It is negative or NaN.
    """
    if not least >= 0.0:
        raise GameError(
            f"a mask that holds {least:g}: 1 is legal and 0 is not; convert an additive mask with mask == 0"
        )


def bounds_of(space: spaces.Space[Any]) -> list[Any]:
    """Return the bounds of a space as JSON values: the start of choices, or low and high."""
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


def _compatible(some: Sequence[Factor], others: Sequence[Factor]) -> bool:
    return len(some) == len(others) and all(
        (one.name, one.kind) == (other.name, other.kind)
        and (one.kind is HeadKind.CATEGORICAL or one.size == other.size)
        for one, other in zip(some, others, strict=True)
    )


def _describe_factors(factors: Sequence[Factor]) -> str:
    return " x ".join(f"{factor.kind} {factor.size}" for factor in factors)


def _as_booleans(mask: Any) -> BoolArray:  # noqa: ANN401  any mask
    values = np.asarray(mask)
    if values.dtype.kind in "if" and values.itemsize > 1 and values.size:  # bytes, the usual type, cannot be additive
        require_no_addend(float(values.min()))
    return values.astype(np.bool_, copy=False)


def _flat_mask(mask: Any) -> BoolArray | None:  # noqa: ANN401
    """Return a flat mask; None for a structured one."""
    if isinstance(mask, Mapping) or (isinstance(mask, tuple | list) and not all(np.isscalar(each) for each in mask)):
        return None
    row = np.asarray(mask)
    return None if row.ndim != 1 else _as_booleans(row)


def _masks_of(space: spaces.Space[Any], mask: Any) -> Iterator[BoolArray | None]:  # noqa: ANN401
    """Yield a mask for every factor, in order; None for unmasked factors.

    Raises:
        ArenaError: The mask is not structured like the space.
    """
    match space:
        case spaces.Dict():
            inside: Mapping[Any, Any] = {} if mask is None else mask
            if not isinstance(inside, Mapping) or inside.keys() - set(space):
                raise GameError(f"the mask {mask!r}: its keys are {', '.join(map(str, space))}")
            for key, inner in space.items():
                yield from _masks_of(inner, inside.get(key))
        case spaces.Tuple():
            for inner, each in zip(space, _as_parts(mask, len(space)), strict=True):
                yield from _masks_of(inner, each)
        case spaces.MultiDiscrete():
            yield from _masks_of_choices(space, mask)
        case spaces.Box() if mask is not None:
            raise GameError(f"the mask {mask!r} of a Box: leave it None, for none of its dimensions is illegal")
        case _:
            yield None if mask is None else _as_booleans(mask).reshape(-1)


def _masks_of_choices(space: spaces.MultiDiscrete, mask: Any) -> Iterator[BoolArray | None]:  # noqa: ANN401
    counts = space.nvec.ravel().tolist()
    flat = None if mask is None else _flat_mask(mask)
    if flat is not None and len(flat) == sum(counts):
        yield from np.split(flat, np.cumsum(counts)[:-1])
        return
    for each in _as_parts(mask, len(counts)):
        yield None if each is None else _as_booleans(each).reshape(-1)


def _as_parts(mask: Any, count: int) -> Sequence[Any]:  # noqa: ANN401
    if mask is None:
        return [None] * count
    if len(mask) != count:
        raise GameError(f"a mask of {len(mask)} parts: its space has {count}")
    parts: Sequence[Any] = mask
    return parts


def _reader(agent: int, space: spaces.Space[Any], names: Iterator[str]) -> Callable[[Choices], Any]:
    """Return a function that reads an agent's action in a space from its heads, in the order of its factors."""
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
            # Policies act in [-1, 1]; the clip removes rounding errors at the bounds, which games may reject.
            middle, reach = (space.high + space.low) / 2.0, (space.high - space.low) / 2.0
            return lambda choices: np.clip(
                middle + reach * choices[name][agent].reshape(space.shape), space.low, space.high
            ).astype(space.dtype)
        case _:
            raise AssertionError(space)  # `factors_of` rejects all other spaces
