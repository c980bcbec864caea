"""Fused native step: read observations, evaluate the network, sample and write actions."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.policies.nn.packed_runs import RecurrentState


class StepBuffers(NamedTuple):
    """Buffers for one decision of R rows, written by the native step.

    Attributes:
        observation: Observation of the row's agent.
        mask: Packed action masks.
        raw: Raw action in the layout of `ActionLayout`.
        active: Whether the agent acts.
        episode_start: Whether the observation starts an episode.
    """

    observation: Float[Tensor, "R D"]
    mask: Bool[Tensor, "R M"]
    raw: Float[Tensor, "R A"]
    active: Bool[Tensor, " R"]
    episode_start: Bool[Tensor, " R"]


class ObservationView(NamedTuple):
    """Observations of E environments with N agents each, and the agents of the R rows.

    Attributes:
        observation: Observation of all agents; leading axes (E, N).
        episode_start: Environments whose observation starts an episode.
        agent_index: Flat index e * N + i of every row's agent.
        present: Whether the row acts for its agent. Other rows are spare: they see its observation and never act.
    """

    observation: Observation
    episode_start: Bool[Tensor, " E"]
    agent_index: Int[Tensor, " R"]
    present: Bool[Tensor, " R"]


class ActionNoise(NamedTuple):
    """Noise of one decision per row, and its scale per slot; see `ActionLayout.sample_with_noise`."""

    noise: Float[Tensor, "R P"]
    scale: Float[Tensor, "K P"]


class NetworkOutputs(NamedTuple):
    """Output buffers: parameters and value (R, P + 1), and the state after the decision."""

    outputs: Float[Tensor, "R _"]
    state: RecurrentState


NativeStep = Callable[[ObservationView, RecurrentState, ActionNoise, StepBuffers, NetworkOutputs, Actions], None]
"""One decision of R rows, from observations to actions.

It fills buffers and outputs, and writes actions into those of all agents (E * N, ...). Actions of inactive rows are
undefined.
"""
