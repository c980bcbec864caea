"""Policies of one architecture that act together, and one policy alone, the fastest way that runs here."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.errors import ArenaError
from arena.policies.batched import BatchedNetworks
from arena.policies.cores import RecurrentState
from arena.policies.deciding import Decide, Decision, Draw, Look, Said
from arena.policies.distributions import ActionLayout
from arena.policies.layers import Networks, Step
from arena.policies.network import ActorCritic, Architecture, state_size
from arena.policies.protocol import State
from arena.policies.separate import SeparateNetworks

if TYPE_CHECKING:
    from arena.policies.fused import FusedNetworks


@dataclass(frozen=True)
class Arrangement:
    """Which slot acts for which row. It stays good while rows keep their slots, whatever is put into these.

    Attributes:
        slot_of_row: (R,) on the stack's device.
        step: Takes the rows through their networks.
    """

    slot_of_row: Int[Tensor, " R"]
    step: Step


@dataclass(frozen=True)
class Errand:
    """Decisions of rows that keep their slots, in native code. It stays good until there are more slots.

    Attributes:
        decide: Makes them.
        decision: What was decided last, and on what.
        readout: What networks said last.
    """

    decide: Decide
    decision: Decision
    readout: Float[Tensor, "R _"]


class StackedPolicies:
    """Slots for frozen policies of one architecture; each row has a memory of its own.

    A policy's observation statistics and log standard deviations travel with it. The live network of a learner may sit
    in a slot too, as long as it is put there again after every change.

    Args:
        architecture: Of every policy; where their scales began does not matter.
        slots: K.
        device: Where rows and weights live.
    """

    def __init__(self, architecture: Architecture, slots: int, device: torch.device) -> None:
        self.kind = kind_of(architecture)
        self._layout, self._device = ActionLayout(architecture.heads), device
        self._fused = make_fused(architecture, slots, device)
        self._networks: Networks = self._fused or _in_torch(architecture, slots, device)
        self._scale = torch.ones(slots, self._layout.parameter_size, device=device)
        self._units = state_size(architecture)

    @property
    def slots(self) -> int:
        """K."""
        return self._networks.slots

    @property
    def slot_bytes(self) -> int:
        """Memory of one slot."""
        return self._networks.size_bytes // self._networks.slots

    @torch.inference_mode()
    def reserve(self, slots: int) -> None:
        """Have at least that many slots; those that there were keep their policies."""
        if slots > self.slots:
            grown = self._scale.new_ones(slots, self._scale.shape[1])
            grown[: self.slots] = self._scale
            self._networks.reserve(slots)
            self._scale = grown

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network into a slot; nothing else changes.

        Raises:
            ArenaError: Its architecture is another.
        """
        if (kind := kind_of(network.architecture)) != self.kind:
            raise ArenaError(f"a network of {kind} does not fit a stack of {self.kind}: open a stack for each kind")
        self._networks.put(slot, network)
        self._scale[slot] = self._layout.noise_scale(network.log_std)

    def initial_state(self, rows: int) -> RecurrentState:
        """Zeros."""
        zeros = torch.zeros(rows, self._units, device=self._device)
        return RecurrentState(zeros, zeros)

    def arrange(self, slot_of_row: Int[Tensor, " R"]) -> Arrangement:
        """Seat rows: once for as long as they keep their slots, which are given on the host.

        Raises:
            ArenaError: There is no such slot.
        """
        self._require_slots(slot_of_row)
        return Arrangement(slot_of_row.to(self._device), self._networks.arrange(slot_of_row))

    @torch.inference_mode()
    def act(
        self,
        observation: Observation,
        state: State,
        episode_start: Bool[Tensor, " R"],
        arrangement: Arrangement,
        rng: torch.Generator,
    ) -> tuple[Actions, State]:
        """Sample actions of R rows; see `Policy.act`. What inactive rows do has no meaning.

        Raises:
            ArenaError: The arrangement is of another number of rows.
        """
        rows, seated = len(observation.values), len(arrangement.slot_of_row)
        if rows != seated:
            raise ArenaError(f"{rows} rows came to act, but {seated} are seated: arrange them anew")
        output = arrangement.step(observation.values, RecurrentState(*state), episode_start, observation.active)
        noise, scale = self._layout.draw_noise((rows,), rng), self._scale[arrangement.slot_of_row]
        raw = self._layout.choose(output.parameters, noise, scale, self._layout.pack_masks(observation))
        return self._layout.to_actions(raw), output.state

    def errand(self, slot_of_row: Int[Tensor, " R"], agents: int) -> Errand | None:
        """Seat rows that are agents of environments, so many in each, for `decide`; None where no such code runs.

        Raises:
            ArenaError: There is no such slot.
        """
        self._require_slots(slot_of_row)
        if self._fused is None:
            return None
        rows, layout = len(slot_of_row), self._layout
        decision = Decision(
            observation=torch.empty(rows, self.kind.observation_size),
            mask=torch.empty(rows, layout.mask_size, dtype=torch.bool),
            raw=torch.empty(rows, layout.raw_size),
            active=torch.empty(rows, dtype=torch.bool),
            episode_start=torch.empty(rows, dtype=torch.bool),
        )
        decide = self._fused.decide(slot_of_row, layout, agents)
        return Errand(decide, decision, torch.empty(rows, layout.parameter_size + 1))

    @torch.inference_mode()
    def decide(
        self, look: Look, state: RecurrentState, errand: Errand, rng: torch.Generator, do: Actions
    ) -> RecurrentState:
        """Look, decide, and write what rows do among the actions of all agents (E * N, ...); their state after it."""
        after = RecurrentState(*(torch.empty_like(part) for part in state))
        draw = Draw(self._layout.draw_noise((len(look.numbers),), rng), self._scale)
        errand.decide(look, state, draw, errand.decision, Said(errand.readout, after), do)
        return after

    def _require_slots(self, slot_of_row: Int[Tensor, " R"]) -> None:
        strangers = set(slot_of_row[(slot_of_row < 0) | (slot_of_row >= self.slots)].tolist())
        if strangers:
            raise ArenaError(f"there are no slots {sorted(strangers)} among {self.slots}: reserve them first")


class LiveNetwork:
    """A network that acts between changes of its weights; `refresh` takes these over."""

    def __init__(self, network: ActorCritic) -> None:
        self._network = network
        self._fused = make_fused(network.architecture, 1, network.observation_mean.device)
        self.refresh()

    def refresh(self) -> None:
        """Take over what has become of the weights."""
        if self._fused is not None:
            self._fused.put(0, self._network)

    def step_of(self, rows: int) -> Step:
        """The step of so many rows; it stays good. What it says of rows that are not active has no meaning."""
        if self._fused is None:
            return self._network.step
        return self._fused.arrange(torch.zeros(rows, dtype=torch.int64))

    def decide_of(self, rows: int, agents: int) -> Decide | None:
        """All that a decision takes of so many rows, who are agents of environments; None where no such code runs."""
        if self._fused is None:
            return None
        return self._fused.decide(torch.zeros(rows, dtype=torch.int64), self._network.layout, agents)


def kind_of(architecture: Architecture) -> Architecture:
    """What policies must share to act together: everything but where their scales began."""
    return replace(architecture, initial_log_std=0.0)


def _in_torch(architecture: Architecture, slots: int, device: torch.device) -> Networks:
    if architecture.is_layered:
        return BatchedNetworks(architecture, slots, device)
    return SeparateNetworks(architecture, slots, device)


def make_fused(architecture: Architecture, slots: int, device: torch.device) -> "FusedNetworks | None":
    """Slots that act in native code; None where that does not run: on a GPU, and for some widths."""
    if device.type != "cpu":
        return None
    try:
        # Imported here: a GPU needs no kernels for a CPU, and every other processor can do without Warp.
        from arena.policies.fused import FusedNetworks, fits
    except ArenaError:
        return None
    return FusedNetworks(architecture, slots) if fits(architecture) else None
