"""Policies in ONNX models: loading one for a game, and acting with many in one call."""

import io
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.spec import EnvironmentSpec, HeadKind
from arena.errors import CheckpointError, OnnxModelError
from arena.onnx.model import LOGITS, read_model
from arena.policies.nn.distributions import MAX_TANH, ActionLayout, HeadSlices
from arena.policies.onnx.session import OnnxSession
from arena.policies.playability import observation_bounds
from arena.policies.protocol import State

logger = logging.getLogger(__name__)

CERTAIN = 1e30
"""Magnitude of a logit that noise never outweighs."""


class OnnxPolicy:
    """A policy that samples from the logits of a frozen ONNX model, or takes its actions.

    A masked action is never played: a masked option is replaced by a legal one, and a masked switch stays off.

    Attributes:
        layout: Layout of the action heads.
        kind: Equal for policies that can act in one `OnnxBatch`: heads, their outputs, and types and shapes of inputs.

    Raises:
        OnnxModelError: The model does not answer each head once.
    """

    def __init__(self, session: OnnxSession, spec: EnvironmentSpec) -> None:
        self.session, self.layout = session, ActionLayout(spec.heads)
        self._start = tuple(session.memory.values())
        shapes = tuple(part.shape for part in self._start)
        self.kind = repr((spec.heads, session.heads, session.input_types, shapes))
        self._answers = [(part, _answer_of(part, session.heads)) for part in self.layout.parts]
        self._sizes = [_answer_size(part, name) for part, name in self._answers]
        self._has_failed = False

    def initial_state(self, rows: int) -> State:
        """Return an all-zero state."""
        return tuple(torch.from_numpy(np.zeros((rows, *part.shape), part.dtype)) for part in self._start)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Sample actions; see `Policy.act`."""
        return OnnxBatch([self], len(observation.active)).act(observation, state, episode_start, rng)

    def answer(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the outputs of the heads and the next memory for B agents; see `OnnxSession.prepare`.

        Raises:
            OnnxModelError: The model fails, or an output has another shape.
        """
        found = self.session.run(inputs)
        for (_, name), size, output in zip(self._answers, self._sizes, found, strict=False):
            if output.shape != (len(inputs[0]), *size) or output.dtype.kind not in "biuf":
                raise OnnxModelError(
                    f"output {name!r} is {output.dtype} of shape {output.shape}",
                    f"return numbers of shape {('B', *size)}".replace("'", ""),
                )
        return found

    def answer_or_zeros(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return `answer`, or zeros and the same memory if the model fails: it must not end the matches of others."""
        try:
            return self.answer(inputs)
        except OnnxModelError as error:
            if not self._has_failed:
                logger.warning("a model fails, and its logits and actions are taken as zeros: %s", error)
            self._has_failed = True
            zeros = [np.zeros((len(inputs[0]), *size), np.float32) for size in self._sizes]
            return [*zeros, *inputs[len(inputs) - len(self._start) :]]

    def parameters(self, outputs: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Return distribution parameters (B, P) from the outputs of the heads; a given action is certain."""
        parameters = np.empty((len(outputs[0]), self.layout.parameter_size), np.float32)
        for (part, name), output in zip(self._answers, outputs, strict=False):
            parameters[:, part.parameters] = _parameters(part, name, output)
        return parameters


class OnnxBatch:
    """ONNX policies of one kind as one policy: rows are gathered and sampled together, and each model runs once.

    Args:
        policies: Policy of each group of rows; a policy may have several groups.
        rows_each: Consecutive rows of each group.
    """

    def __init__(self, policies: Sequence[OnnxPolicy], rows_each: int) -> None:
        self._policies = list({id(policy): policy for policy in policies}.values())
        slots = {id(policy): slot for slot, policy in enumerate(self._policies)}
        slot_of_row = np.repeat([slots[id(policy)] for policy in policies], rows_each)
        self._order = np.argsort(slot_of_row, kind="stable")
        self._slot_of_row, self._layout = slot_of_row, self._policies[0].layout
        gaussian = [part.parameters for part in self._layout.parts if part.head.kind is HeadKind.GAUSSIAN]
        self._scale = torch.ones(self._layout.parameter_size)
        for columns in gaussian:
            self._scale[columns] = 0.0  # a model gives continuous actions and not their distribution

    def initial_state(self, rows: int) -> State:
        """See `Policy.initial_state`."""
        return self._policies[0].initial_state(rows)

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Sample actions; see `Policy.act`. Models run for active rows only, on the CPU."""
        starts, device = episode_start.cpu(), observation.values.device
        after = tuple(part.masked_fill(starts.view(-1, *[1] * (part.ndim - 1)), 0) for part in state)
        parameters = self._parameters(observation, [part.numpy() for part in after])
        # Drawn for all rows, so that a row's noise does not depend on which others act.
        noise = self._layout.draw_noise((len(starts),), rng)
        scale, mask = self._scale.to(device).expand_as(noise), self._layout.pack_masks(observation)
        raw = self._layout.sample_with_noise(parameters.to(device), noise, scale, mask)
        return self._layout.to_actions(raw), after

    def _parameters(self, observation: Observation, memory: Sequence[NDArray[Any]]) -> Float[Tensor, "R P"]:
        """Return the distribution parameters of all rows, and advance the memory of active ones in place."""
        active = observation.active.cpu().numpy()
        rows = self._order[active[self._order]]  # the rows of a policy are adjacent
        ends = np.searchsorted(self._slot_of_row[rows], range(len(self._policies)), side="right").tolist()
        values = observation.values.float().cpu().numpy()[rows]
        masks = {name: mask.cpu().numpy()[rows] for name, mask in observation.masks.items()}
        first = self._policies[0]
        inputs = first.session.prepare(values, masks, [part[rows] for part in memory])
        outputs, start = [], 0
        for policy, end in zip(self._policies, ends, strict=True):
            if end > start:
                outputs.append(policy.answer_or_zeros([each[start:end] for each in inputs]))
            start = end
        merged = [np.concatenate(parts) for parts in zip(*outputs, strict=True)]
        for part, after in zip(memory, merged[len(self._layout.parts) :], strict=bool(outputs)):
            part[rows] = after
        parameters = first.parameters(merged) if outputs else np.empty((0, self._layout.parameter_size), np.float32)
        everything = np.zeros((len(active), parameters.shape[1]), np.float32)
        # Finite, so that an illegal option stays below every legal one.
        everything[rows] = np.nan_to_num(parameters, nan=0.0, posinf=CERTAIN, neginf=-CERTAIN)
        return torch.from_numpy(everything)


def decode_model(spec: EnvironmentSpec, data: bytes, *, source: str = "checkpoint") -> OnnxPolicy:
    """Load a policy for use in a given environment from the bytes of an ONNX file.

    Raises:
        MissingPackageError: onnxruntime is not installed.
        CheckpointError: The model breaks a rule, is for another environment, does not fit the spec, or fails or returns
            NaN for the lowest or highest observation that the environment declares.
    """
    try:
        _require_environment(read_model(io.BytesIO(data), len(data)).metadata, spec)
        policy = OnnxPolicy(OnnxSession(data, spec), spec)
        _rehearse(policy, spec)
    except OnnxModelError as error:
        raise CheckpointError(f"{source} cannot be played: {error}") from error
    return policy


def _require_environment(metadata: Mapping[str, str], spec: EnvironmentSpec) -> None:
    signature = metadata.get("signature", spec.signature)
    if signature != spec.signature:
        raise OnnxModelError(
            f"it was made for signature {signature}, but {spec.name} has {spec.signature}",
            f"give a model of {spec.name}",
        )


def _rehearse(policy: OnnxPolicy, spec: EnvironmentSpec) -> None:
    """Check the outputs of a batch and of one agent, at an episode's start and one decision later."""
    bounds = observation_bounds(spec).numpy()
    for observation in (np.concatenate((np.zeros_like(bounds[:1]), bounds)), bounds[:1]):
        masks = {head.name: np.ones((len(observation), head.size), np.bool_) for head in spec.heads if head.masked}
        memory: list[NDArray[Any]] = [part.numpy() for part in policy.initial_state(len(observation))]
        for _ in range(2):
            outputs = policy.answer(policy.session.prepare(observation, masks, memory))
            memory = outputs[len(spec.heads) :]
            for numbers in outputs:
                if numbers.dtype.kind == "f" and (np.isnan(numbers) | (numbers == np.inf)).any():
                    raise OnnxModelError(
                        "it computes NaN or infinity from an observation within the declared bounds",
                        "take a checkpoint of an earlier step",
                    )


def _answer_of(part: HeadSlices, outputs: Sequence[str]) -> str:
    """Return the output that answers a head."""
    head = part.head
    names = [head.name] if head.kind is HeadKind.GAUSSIAN else [head.name, f"{head.name}{LOGITS}"]
    given = [name for name in names if name in outputs]
    if len(given) != 1:
        raise OnnxModelError(
            f"action head {head.name!r} is answered {len(given)} times by the outputs {sorted(outputs)}",
            f"return one of {names}",
        )
    return given[0]


def _answer_size(part: HeadSlices, name: str) -> tuple[int, ...]:
    """Return the shape of an output without the agent axis."""
    return () if part.head.kind is HeadKind.CATEGORICAL and name == part.head.name else (part.head.size,)


def _parameters(part: HeadSlices, name: str, answer: NDArray[Any]) -> NDArray[Any]:
    """Return the columns of one head."""
    head = part.head
    if name != head.name:
        return answer
    if head.kind is HeadKind.GAUSSIAN:
        inverse: NDArray[np.floating] = np.arctanh(answer.astype(np.float32).clip(-MAX_TANH, MAX_TANH))
        return inverse
    if head.kind is HeadKind.BERNOULLI:
        return np.where(answer > 0.5, CERTAIN, -CERTAIN)
    columns = np.zeros((len(answer), head.size))
    # A cast of NaN or infinity to an integer is undefined.
    option = np.nan_to_num(answer.astype(np.float64)).clip(0, head.size - 1).astype(np.int64)
    columns[np.arange(len(answer)), option] = CERTAIN
    return columns
