"""Decoding of an external agent's answer: validation, action masks, and sampling from logits.

A head is answered by an action, under its name, or by logits, under its name and `_logits`:

    categorical    NAME (B,) whole numbers in [0, K)           NAME_logits (B, K)
    bernoulli      NAME (B, K) true and false, or 1 and 0      NAME_logits (B, K)
    gaussian       NAME (B, K) in [-1, 1], clipped to it       -

An unreadable answer is an error. A readable but invalid action, such as a masked option or NaN, is a fault of the agent
and is replaced by a legal action.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from arena.agents.base import Actions, Batch
from arena.agents.errors import ExternalPolicyError
from arena.environments.spec import ActionHead, HeadKind
from arena.onnx.model import LOGITS

_NUMBERS = "biuf"  # kinds of numpy types: booleans, integers, floats


@dataclass(frozen=True)
class Choices:
    """Decoded actions of B agents.

    Attributes:
        actions: Action of every head, in the environment's format.
        faults: Invalid actions, by the agent's index in the batch.
    """

    actions: Mapping[str, Tensor]
    faults: Mapping[int, str]


@dataclass
class _Head:
    """Answer of one head during decoding.

    Attributes:
        head: The head.
        values: The answer.
        allowed: (B, K) action mask.
        faults: Invalid actions, by the agent's index.
    """

    head: ActionHead
    values: NDArray[np.float64]
    allowed: Bool[np.ndarray, "B K"]
    faults: dict[int, str] = field(default_factory=dict)

    def add_fault(self, wrong: ArrayLike, reason: Callable[[int], str]) -> None:
        """Record a fault of every agent in `wrong` (B,) that has none yet."""
        for index in np.flatnonzero(wrong).tolist():
            self.faults.setdefault(index, reason(index))


def choose(heads: Sequence[ActionHead], answered: Actions, batch: Batch, rng: torch.Generator) -> Choices:
    """Decode an answer into actions.

    Args:
        heads: Action heads of the game.
        answered: Answer by head name, or by head name and `_logits`.
        batch: The batch that was answered.
        rng: Generator for sampling from logits.

    Raises:
        ExternalPolicyError: A head is missing, unknown, of the wrong shape, or not numeric.
    """
    _require_names(heads, answered)
    actions: dict[str, Tensor] = {}
    faults: dict[int, str] = {}
    for head in heads:
        drawn = head.name not in answered
        name = f"{head.name}{LOGITS}" if drawn else head.name
        size = () if head.kind is HeadKind.CATEGORICAL and not drawn else (head.size,)
        values = _numbers(name, answered[name], (len(batch), *size))
        allowed = batch.masks[head.name] if head.masked else np.ones((len(batch), head.size), dtype=np.bool_)
        answer = _Head(head, values, allowed)
        actions[head.name] = _sampled(answer, rng) if drawn else _given_actions(answer)
        faults = answer.faults | faults
    return Choices(actions, faults)


def _require_names(heads: Sequence[ActionHead], answered: Actions) -> None:
    matched: set[str] = set()
    for head in heads:
        names = {head.name} if head.kind is HeadKind.GAUSSIAN else {head.name, f"{head.name}{LOGITS}"}
        given = names & answered.keys()
        if len(given) != 1:
            count_text = "twice" if given else "not"
            raise ExternalPolicyError(
                f"action head {head.name!r} is answered {count_text} in {sorted(answered)}: give one of {sorted(names)}"
            )
        matched |= given
    if unknown := sorted(answered.keys() - matched):
        raise ExternalPolicyError(f"answer {unknown} is of no action head: give {[head.name for head in heads]}")


def _numbers(name: str, value: object, shape: tuple[int, ...]) -> NDArray[np.float64]:
    try:
        values = np.asarray(value)
    except ValueError:  # ragged rows
        values = np.asarray(None)
    if values.dtype.kind not in _NUMBERS:
        raise ExternalPolicyError(f"answer {name!r} is not an array of numbers: it must have the shape {shape}")
    if values.shape != shape:
        raise ExternalPolicyError(f"answer {name!r} has shape {values.shape}: it must have {shape}, a row for an agent")
    return values.astype(np.float64)


def _given_actions(answer: _Head) -> Tensor:
    """Return the given actions, with invalid ones replaced."""
    head, values = answer.head, answer.values
    finite = np.isfinite(values)
    answer.add_fault(~finite.reshape(len(finite), -1).all(axis=1), lambda _: f"{head.name} is not a number")
    values = np.where(finite, values, 0.0)
    if head.kind is HeadKind.GAUSSIAN:
        return torch.from_numpy(values.clip(-1.0, 1.0).astype(np.float32))
    if head.kind is HeadKind.BERNOULLI:
        answer.add_fault(~np.isin(values, (0.0, 1.0)).all(axis=1), lambda _: f"{head.name} has switches not 0 or 1")
        return torch.from_numpy((values == 1.0) & answer.allowed)
    return _options(answer, values)


def _options(answer: _Head, values: NDArray[np.float64]) -> Tensor:
    head, options = answer.head, answer.head.size
    within = (values == np.floor(values)) & (values >= 0) & (values < options)
    answer.add_fault(~within, lambda index: f"{head.name} is {values[index]:g}, no option of 0 to {options - 1}")
    option = np.where(within, values, 0.0).astype(np.int64)
    free = answer.allowed.any(axis=1)
    barred = free & ~answer.allowed[np.arange(option.size), option]
    answer.add_fault(
        barred,
        lambda index: f"{head.name} is {option[index]}, an illegal option; legal: {_listed(answer.allowed[index])}",
    )
    return torch.from_numpy(np.where(barred, answer.allowed.argmax(axis=1), option))


def _sampled(answer: _Head, rng: torch.Generator) -> Tensor:
    """Sample actions from logits among the legal options."""
    head = answer.head
    logits, allowed = torch.from_numpy(answer.values), torch.from_numpy(np.ascontiguousarray(answer.allowed))
    invalid = torch.isnan(logits) | (logits == torch.inf)
    answer.add_fault(invalid.any(dim=1).numpy(), lambda _: f"{head.name}{LOGITS} are not numbers")
    logits = logits.masked_fill(invalid, 0.0)
    if head.kind is HeadKind.BERNOULLI:
        return (torch.rand(logits.shape, generator=rng, dtype=logits.dtype) < logits.sigmoid()) & allowed
    open_to_all = ~allowed.any(dim=1, keepdim=True)
    masked = logits.masked_fill(~(allowed | open_to_all), -torch.inf)
    none_possible = (masked == -torch.inf).all(dim=1)
    answer.add_fault(none_possible.numpy(), lambda _: f"{head.name}{LOGITS} rule out all legal options")
    fallback = torch.zeros_like(masked).masked_fill(~(allowed | open_to_all), -torch.inf)
    return _sample(torch.where(none_possible.unsqueeze(1), fallback, masked), rng)


def _sample(logits: Float[Tensor, "B K"], rng: torch.Generator) -> Tensor:
    return torch.multinomial(logits.softmax(dim=1), 1, generator=rng).squeeze(1)


def _listed(allowed: NDArray[np.bool_], most: int = 8) -> str:
    options = np.flatnonzero(allowed).tolist()
    named = ", ".join(map(str, options[:most]))
    return named if len(options) <= most else f"{named}, ..."
