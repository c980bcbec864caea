"""Batched inference for policies of one architecture, and for a single live network."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.errors import ArenaError, CallOrderError, InputError
from arena.policies.ensemble.frozen_layers import Step
from arena.policies.ensemble.loop_backend import LoopBackend
from arena.policies.ensemble.native_step import ActionNoise, NativeStep, NetworkOutputs, ObservationView, StepBuffers
from arena.policies.ensemble.torch_backend import TorchBackend
from arena.policies.nn.actor_critic import ActorCritic, state_size
from arena.policies.nn.architecture import Architecture
from arena.policies.nn.distributions import ActionLayout
from arena.policies.nn.packed_runs import RecurrentState
from arena.policies.protocol import State

if TYPE_CHECKING:
    from arena.policies.ensemble.native_backend import NativeBackend


@dataclass(frozen=True)
class RowAssignment:
    """Assignment of rows to slots. It stays valid when slots get other networks.

    Attributes:
        slot_of_row: (R,) on the ensemble's device.
        step: Advances the rows by one decision.
    """

    slot_of_row: Int[Tensor, " R"]
    step: Step


@dataclass(frozen=True)
class NativeBinding:
    """Assignment of rows to slots with buffers for native steps. It stays valid until slots are added.

    Attributes:
        step: The native step of these rows.
        buffers: Inputs and raw actions of the last decision.
        outputs: Parameters and value of the last decision.
    """

    step: NativeStep
    buffers: StepBuffers
    outputs: Float[Tensor, "R _"]


class PolicyEnsemble:
    """Slots for frozen policies of one architecture; each row has its own recurrent state.

    A slot includes the policy's observation statistics and log standard deviations. It can also hold the live network
    of a learner, if that is put there again after every update.

    Args:
        architecture: Of every policy; `initial_log_std` may differ.
        slots: K.
        device: Device of rows and weights.
    """

    def __init__(self, architecture: Architecture, slots: int, device: torch.device) -> None:
        self.kind = stacking_key(architecture)
        self._layout, self._device = ActionLayout(architecture.heads), device
        self._native = make_native_backend(architecture, slots, device)
        self._backend: NativeBackend | TorchBackend | LoopBackend = self._native or (
            TorchBackend if architecture.is_stackable else LoopBackend
        )(architecture, slots, device)
        self._scale = torch.ones(slots, self._layout.parameter_size, device=device)
        self._units = state_size(architecture)

    @property
    def slots(self) -> int:
        """K."""
        return self._backend.slots

    @property
    def slot_bytes(self) -> int:
        """Memory of one slot, in bytes."""
        return self._backend.size_bytes // self._backend.slots

    @torch.inference_mode()
    def reserve(self, slots: int) -> None:
        """Grow to at least `slots` slots; existing slots keep their policies."""
        if slots > self.slots:
            grown = self._scale.new_ones(slots, self._scale.shape[1])
            grown[: self.slots] = self._scale
            self._backend.reserve(slots)
            self._scale = grown

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot.

        Raises:
            ArenaError: The network has another architecture.
        """
        if (kind := stacking_key(network.architecture)) != self.kind:
            raise InputError(f"a network of {kind} does not fit an ensemble of {self.kind}: make one for each kind")
        self._backend.put(slot, network)
        self._scale[slot] = self._layout.noise_scale(network.log_std)

    def initial_state(self, rows: int) -> RecurrentState:
        """Return an all-zero state."""
        zeros = torch.zeros(rows, self._units, device=self._device)
        return RecurrentState(zeros, zeros)

    def assign_rows(self, slot_of_row: Int[Tensor, " R"]) -> RowAssignment:
        """Assign rows to slots, given on the host; call it again only if rows change slots.

        Raises:
            ArenaError: A slot does not exist.
        """
        self._require_slots(slot_of_row)
        return RowAssignment(slot_of_row.to(self._device), self._backend.step_for(slot_of_row))

    @torch.inference_mode()
    def act(
        self,
        observation: Observation,
        state: State,
        episode_start: Bool[Tensor, " R"],
        assignment: RowAssignment,
        rng: torch.Generator,
    ) -> tuple[Actions, State]:
        """Sample actions of R rows; see `Policy.act`. Actions of inactive rows are undefined.

        Raises:
            ArenaError: The assignment has another number of rows.
        """
        raw, after = self.sample(observation, state, episode_start, assignment, rng)
        return self._layout.to_actions(raw), after

    @torch.inference_mode()
    def sample(
        self,
        observation: Observation,
        state: State,
        episode_start: Bool[Tensor, " R"],
        assignment: RowAssignment,
        rng: torch.Generator,
    ) -> tuple[Float[Tensor, "R A"], State]:
        """Sample raw actions of R rows; otherwise as `act`.

        Raises:
            ArenaError: The assignment has another number of rows.
        """
        rows, assigned = len(observation.values), len(assignment.slot_of_row)
        if rows != assigned:
            raise CallOrderError(f"{rows} rows act, but {assigned} were assigned: call assign_rows again")
        output = assignment.step(observation.values, RecurrentState(*state), episode_start, observation.active)
        noise, scale = self._layout.draw_noise((rows,), rng), self._scale[assignment.slot_of_row]
        raw = self._layout.sample_with_noise(output.parameters, noise, scale, self._layout.pack_masks(observation))
        return raw, output.state

    def bind(self, slot_of_row: Int[Tensor, " R"], agents: int) -> NativeBinding | None:
        """Assign rows that are agents of environments for `step_native`; None if there is no native backend.

        Args:
            slot_of_row: Slot of every row, on the host.
            agents: N, agents per environment.

        Raises:
            ArenaError: A slot does not exist.
        """
        if self._native is None:
            return None
        self._require_slots(slot_of_row)
        rows, layout = len(slot_of_row), self._layout
        buffers = StepBuffers(
            observation=torch.empty(rows, self.kind.observation_size),
            mask=torch.empty(rows, layout.mask_size, dtype=torch.bool),
            raw=torch.empty(rows, layout.raw_size),
            active=torch.empty(rows, dtype=torch.bool),
            episode_start=torch.empty(rows, dtype=torch.bool),
        )
        step = self._native.bind(slot_of_row, layout, agents)
        return NativeBinding(step, buffers, torch.empty(rows, layout.parameter_size + 1))

    @torch.inference_mode()
    def step_native(
        self,
        view: ObservationView,
        state: RecurrentState,
        binding: NativeBinding,
        rng: torch.Generator,
        actions: Actions,
    ) -> RecurrentState:
        """Sample actions of all rows, write them into `actions` (E * N, ...) and return the new state."""
        after = RecurrentState(*(torch.empty_like(part) for part in state))
        noise = ActionNoise(self._layout.draw_noise((len(view.agent_index),), rng), self._scale)
        binding.step(view, state, noise, binding.buffers, NetworkOutputs(binding.outputs, after), actions)
        return after

    def _require_slots(self, slot_of_row: Int[Tensor, " R"]) -> None:
        invalid = set(slot_of_row[(slot_of_row < 0) | (slot_of_row >= self.slots)].tolist())
        if invalid:
            raise InputError(f"slots {sorted(invalid)} do not exist among {self.slots}: reserve them first")


class LiveNetwork:
    """Inference for a network that is being trained; call `refresh` after every change of its weights."""

    def __init__(self, network: ActorCritic) -> None:
        self._network = network
        self._native = make_native_backend(network.architecture, 1, network.observation_mean.device)
        self.refresh()

    def refresh(self) -> None:
        """Copy the network's current weights."""
        if self._native is not None:
            self._native.put(0, self._network)

    def step_for(self, rows: int) -> Step:
        """Return a step for R rows, valid across `refresh`. Outputs of inactive rows are undefined."""
        if self._native is None:
            return self._network.step
        return self._native.step_for(torch.zeros(rows, dtype=torch.int64))

    def native_step_for(self, rows: int, agents: int) -> NativeStep | None:
        """Return a native step for R rows that are agents of environments; None if there is no native backend."""
        if self._native is None:
            return None
        return self._native.bind(torch.zeros(rows, dtype=torch.int64), self._network.layout, agents)


def stacking_key(architecture: Architecture) -> Architecture:
    """Return the part of an architecture that policies of one ensemble share: all but `initial_log_std`."""
    return replace(architecture, initial_log_std=0.0)


def make_native_backend(architecture: Architecture, slots: int, device: torch.device) -> "NativeBackend | None":
    """Create the native backend; None on a GPU, without Warp, or if it does not support the architecture."""
    if device.type != "cpu":
        return None
    try:
        # Imported here: a GPU does not need the CPU kernels, and a CPU works without Warp.
        from arena.policies.ensemble.native_backend import NativeBackend, fits
    except ArenaError:
        return None
    return NativeBackend(architecture, slots) if fits(architecture) else None
