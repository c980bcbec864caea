"""K frozen policies of one architecture that act together: one call, whoever sits on which row."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments.protocol import Actions, Observation
from arena.errors import ArenaError
from arena.policies.batched import BatchedNetworks
from arena.policies.cores import RecurrentState
from arena.policies.distributions import ActionDistribution, ActionLayout
from arena.policies.layers import Networks, Step
from arena.policies.network import ActorCritic, Architecture, CoreKind
from arena.policies.protocol import State


@dataclass(frozen=True)
class Arrangement:
    """Which slot acts for which row. It stays good while rows keep their slots, whatever is put into these.

    Attributes:
        slot_of_row: (R,) on the stack's device.
        step: Takes the rows through their networks.
    """

    slot_of_row: Int[Tensor, " R"]
    step: Step


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
        self._networks = _make_networks(architecture, slots, device)
        self._log_std = torch.zeros(slots, self._layout.log_std_size, device=device)

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
            grown = self._log_std.new_zeros(slots, self._log_std.shape[1])
            grown[: self.slots] = self._log_std
            self._networks.reserve(slots)
            self._log_std = grown

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network into a slot; nothing else changes.

        Raises:
            ArenaError: Its architecture is another.
        """
        if (kind := kind_of(network.architecture)) != self.kind:
            raise ArenaError(f"a network of {kind} does not fit a stack of {self.kind}: open a stack for each kind")
        self._networks.put(slot, network)
        self._log_std[slot] = network.log_std

    def initial_state(self, rows: int) -> RecurrentState:
        """Zeros."""
        units = self.kind.recurrent_size if self.kind.core is CoreKind.LSTM else 0
        zeros = torch.zeros(rows, units, device=self._device)
        return RecurrentState(zeros, zeros)

    def arrange(self, slot_of_row: Int[Tensor, " R"]) -> Arrangement:
        """Seat rows: once for as long as they keep their slots, which are given on the host.

        Raises:
            ArenaError: There is no such slot.
        """
        strangers = set(slot_of_row[(slot_of_row < 0) | (slot_of_row >= self.slots)].tolist())
        if strangers:
            raise ArenaError(f"there are no slots {sorted(strangers)} among {self.slots}: reserve them first")
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
        log_std, mask = self._log_std[arrangement.slot_of_row], self._layout.pack_masks(observation)
        raw = ActionDistribution(self._layout, output.parameters, log_std, mask).sample(rng)
        return self._layout.to_actions(raw), output.state


def kind_of(architecture: Architecture) -> Architecture:
    """What policies must share to act together: everything but where their scales began."""
    return replace(architecture, initial_log_std=0.0)


def _make_networks(architecture: Architecture, slots: int, device: torch.device) -> Networks:
    """The fastest that runs here."""
    if device.type == "cpu":
        try:
            # Imported here: a GPU needs no kernels for a CPU, and every other processor can do without Warp.
            from arena.policies.fused import FusedNetworks, fits
        except ArenaError:
            return BatchedNetworks(architecture, slots, device)
        if fits(architecture):
            return FusedNetworks(architecture, slots)
    return BatchedNetworks(architecture, slots, device)
