"""Backend for networks whose weights cannot be stacked: evaluate them one after the other."""

import copy
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.errors import CallOrderError
from arena.policies.ensemble.frozen_layers import Step
from arena.policies.nn.actor_critic import ActorCritic, NetworkOutput, make_on_meta
from arena.policies.nn.architecture import Architecture
from arena.policies.nn.packed_runs import RecurrentState


class LoopBackend:
    """Slots for networks of one architecture on one device; a slot uses memory once it holds a network."""

    def __init__(self, architecture: Architecture, slots: int, device: torch.device) -> None:
        self._device = device
        self._networks: list[ActorCritic | None] = [None] * slots
        self._each_bytes: int = sum(each.nbytes for each in make_on_meta(architecture).state_dict().values())

    @property
    def slots(self) -> int:
        """K."""
        return len(self._networks)

    @property
    def size_bytes(self) -> int:
        """Memory of all slots once they are filled, in bytes."""
        return self.slots * self._each_bytes

    def reserve(self, slots: int) -> None:
        """Grow to `slots` slots; existing slots keep their networks."""
        self._networks += [None] * (slots - self.slots)

    @torch.no_grad()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        own = self._networks[slot]
        if own is None:
            self._networks[slot] = copy.deepcopy(network).to(self._device).eval().requires_grad_(requires_grad=False)
        else:
            own.load_state_dict(network.state_dict())

    def step_for(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """Return a step for rows in these slots."""
        slots = set(slot_of_row.tolist())
        rows_of_slot = {slot: (slot_of_row == slot).nonzero().squeeze(1).to(self._device) for slot in slots}
        return partial(self._step, rows_of_slot)

    def _step(
        self,
        rows_of_slot: dict[int, Int[Tensor, " r"]],
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        outputs = []
        for slot, rows in rows_of_slot.items():
            if (network := self._networks[slot]) is None:
                raise CallOrderError(f"slot {slot} holds no network: put one there before its rows act")
            own_state = RecurrentState(*(part[rows] for part in state))
            output = network.step(values[rows], own_state, episode_start[rows], active[rows])
            outputs.append((output.parameters, output.value, *output.state))
        order = torch.cat(list(rows_of_slot.values())).argsort()
        parameters, value, *after = (torch.cat(parts)[order] for parts in zip(*outputs, strict=True))
        return NetworkOutput(parameters, value, RecurrentState(*after))
