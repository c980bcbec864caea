"""Backend that evaluates all networks in one native call, with intermediate results in the CPU cache.

The network is written in C++ (`policy_step.h`), which Warp compiles for this machine's processor at first use.
"""

from array import array
from functools import partial
from typing import no_type_check

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.base import Actions
from arena.environments.spec import HeadKind
from arena.native.warp import Launch, openmp, require_memory, source, wp
from arena.policies.ensemble.frozen_layers import FrozenLayer, FrozenLayers, Step, hidden_widths
from arena.policies.ensemble.native_step import ActionNoise, NativeStep, NetworkOutputs, ObservationView, StepBuffers
from arena.policies.ensemble.torch_backend import sort_by_slot
from arena.policies.nn.actor_critic import ActorCritic, NetworkOutput
from arena.policies.nn.architecture import Architecture
from arena.policies.nn.distributions import ActionLayout
from arena.policies.nn.packed_runs import RecurrentState

LANES, PANEL, CHUNK, MOST_LAYERS = 16, 64, 120, 16
"""Floats per vector, columns per panel, rows per pass and most layers, as in `policy_step.h`."""

MIN_ROWS_PER_THREAD = 24
"""Fewest rows per thread; below that, starting a thread costs more than it saves."""

POINTERS, AGENT_POINTERS = 15, 9
"""Addresses of a call, and those of a bound step besides its heads', as in `policy_step.h`."""

SLOTS, THREADS, SCRATCH, OBSERVED = 0, 4, 5, 8
"""Indices of the slots, the threads, the scratch size per thread and the observation size in the sizes of a call."""

KINDS = {HeadKind.GAUSSIAN: 0, HeadKind.BERNOULLI: 1, HeadKind.CATEGORICAL: 2}
"""Codes of the kinds of heads, as in `policy_step.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("simd.h", "policy_step.h"))
@no_type_check
def step_rows(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `policy_step.h`."""


@wp.kernel
@no_type_check
def step_all(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """A single Warp thread that calls `step_rows`."""
    step_rows(sizes, addresses)


def fits(architecture: Architecture) -> bool:
    """Whether `policy_step.h` supports an architecture."""
    return (
        architecture.is_plain
        and architecture.recurrent_size % LANES == 0
        and len(hidden_widths(architecture)) <= MOST_LAYERS
    )


class NativeBackend:
    """Slots for networks of one architecture, on the CPU.

    Inactive rows are skipped; their parameters and values are 0. Results of a row are bit-equal for every batch that
    it is part of. Threads may share an instance; calls are serialised.

    Attributes:
        weights: Packed weights of all slots.
        sizes: `Sizes` of a call, as in `policy_step.h`.
    """

    def __init__(self, architecture: Architecture, slots: int) -> None:
        shapes = FrozenLayers.shapes(architecture)
        widths = (architecture.observation_size, *hidden_widths(architecture))
        units = 0 if shapes.gates is None else architecture.recurrent_size
        self._observed, self._units, self._columns = widths[0], units, len(shapes.readout.bias)
        self.weights = torch.zeros(slots, len(_pack(shapes)))
        # Two buffers of the widest layer, which alternate as input and output, and one panel.
        self._scratch = torch.empty(1, CHUNK * (PANEL + 2 * (max(widths) + units)))
        # The kernel takes the number of leading layers that end in LayerNorm and ReLU; all others end in tanh.
        rectified = sum(layer.norm is not None for layer in shapes.hidden)
        shape = [*self.weights.shape, units, self._columns, 1, self._scratch.shape[1]]
        shape += [rectified, len(widths) - 1, *widths]
        self.sizes = shape + [0] * (MOST_LAYERS + 1 - len(widths))
        self._launch = Launch(step_all, len(self.sizes), POINTERS)
        self._launches: dict[ActionLayout, Launch] = {}

    @property
    def slots(self) -> int:
        """K."""
        return len(self.weights)

    @property
    def size_bytes(self) -> int:
        """Memory of all slots, in bytes."""
        return self.weights.nbytes

    @torch.inference_mode()
    def reserve(self, slots: int) -> None:
        """Grow to `slots` slots; existing slots keep their networks."""
        grown = self.weights.new_zeros(slots, self.weights.shape[1])
        grown[: self.slots] = self.weights
        self.weights = grown

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        self.weights[slot] = _pack(FrozenLayers.of(network))

    def step_for(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """Return a step for rows in these slots."""
        return partial(self._step, *_sort_by_slot(slot_of_row, self.slots))

    def _step(
        self,
        first: Int[Tensor, " slots_and_one"],
        order: Int[Tensor, " R"],
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        rows, memory, flags = (len(order), self._observed), (len(order), self._units), (len(order),)
        given = (values, *state, episode_start, active)
        require_memory(given, (rows, memory, memory, flags, flags), (torch.float32,) * 3 + (torch.bool,) * 2)
        # The kernel indexes memory without strides.
        inputs = [tensor.contiguous() for tensor in given]
        after = RecurrentState(*(torch.empty_like(part) for part in inputs[1:3]))
        readout = values.new_empty(len(order), self._columns)
        threads, team = _thread_team(len(order))
        scratch = self._scratch = _scratch_for(self._scratch, threads)  # another thread may replace the slots' own
        tensors = (self.weights, first, order, *inputs, *after, readout, scratch)
        sizes = [len(first) - 1, *self.sizes[1:4], threads, *self.sizes[5:]]
        self._launch(sizes, [*(tensor.data_ptr() for tensor in tensors), *team])
        return NetworkOutput(readout[:, :-1], readout[:, -1], after)

    def bind(self, slot_of_row: Int[Tensor, " R"], layout: ActionLayout, agents: int) -> NativeStep:
        """Return a native step for rows in these slots, given the number of agents per environment.

        It stays valid when slots get other networks, until slots are added.
        """
        return _BoundStep(self, slot_of_row, layout, agents)

    def launch_of(self, layout: ActionLayout, sizes: int) -> Launch:
        """Return the cached launch of bound steps with these heads; creating one takes longer than a small step."""
        if layout not in self._launches:
            pointers = POINTERS + AGENT_POINTERS + 2 * len(layout.heads)
            self._launches[layout] = Launch(step_all, sizes, pointers)
        return self._launches[layout]


class _BoundStep:
    """The step that `NativeBackend.bind` returns; not thread-safe."""

    def __init__(
        self, networks: NativeBackend, slot_of_row: Int[Tensor, " R"], layout: ActionLayout, agents: int
    ) -> None:
        self._networks, self._layout, self._agents = networks, layout, agents
        self._first, self._order = _sort_by_slot(slot_of_row, networks.slots)
        heads = [number for head in layout.heads for number in (KINDS[head.kind], head.size)]
        own = [agents, len(layout.heads), layout.mask_size, layout.raw_size, *heads]
        self._sizes = array("i", [*networks.sizes, *own])
        self._sizes[SLOTS] = networks.slots
        self._scratch = torch.empty(1, self._sizes[SCRATCH])
        self._launch = networks.launch_of(layout, len(self._sizes))

    def __call__(
        self,
        view: ObservationView,
        state: RecurrentState,
        noise: ActionNoise,
        buffers: StepBuffers,
        outputs: NetworkOutputs,
        actions: Actions,
    ) -> None:
        """Run the step; see `NativeStep`."""
        values, active, episode_start, masks = self._checked(view)
        threads, team = _thread_team(len(self._order))
        self._scratch = _scratch_for(self._scratch, threads)
        self._sizes[THREADS] = threads
        rows = (self._first, self._order, buffers.observation, *state, buffers.episode_start, buffers.active)
        call = (self._networks.weights, *rows, *outputs.state, outputs.outputs, self._scratch)
        own = (view.agent_index, view.present, values, active, episode_start, *noise, buffers.mask, buffers.raw)
        legal = [masks[head.name].data_ptr() if head.masked else 0 for head in self._layout.heads]
        addresses = [tensor.data_ptr() for tensor in call] + [*team] + [tensor.data_ptr() for tensor in own]
        self._launch(self._sizes, [*addresses, *legal, *(actions[head.name].data_ptr() for head in self._layout.heads)])

    def _checked(self, view: ObservationView) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Check the environments' tensors and return them contiguous.

        Raises:
            ArenaError: A tensor has another shape or type, or is not on the CPU.
        """
        observation, environments = view.observation, len(view.episode_start)
        all_agents = (environments, self._agents)
        heads = [head for head in self._layout.heads if head.masked]
        given = (
            observation.values,
            observation.active,
            view.episode_start,
            *(observation.masks[head.name] for head in heads),
        )
        shapes = (
            (*all_agents, self._sizes[OBSERVED]),
            all_agents,
            (environments,),
            *((*all_agents, head.size) for head in heads),
        )
        require_memory(given, shapes, (torch.float32,) + (torch.bool,) * (2 + len(heads)))
        # The kernel indexes memory without strides.
        values, active, episode_start, *masks = (each.contiguous() for each in given)
        return values, active, episode_start, {head.name: mask for head, mask in zip(heads, masks, strict=True)}


def _sort_by_slot(slot_of_row: Int[Tensor, " R"], slots: int) -> tuple[Tensor, Tensor]:
    """Return the offset of each slot's rows, and the rows sorted by slot."""
    counts = torch.bincount(slot_of_row, minlength=slots)
    # A stable sort reads the rows of a slot in memory order.
    return F.pad(counts.cumsum(0), (1, 0)).int(), sort_by_slot(slot_of_row).int()


def _thread_team(rows: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of threads for these rows, and the addresses of OpenMP functions."""
    team = openmp()
    return (min(torch.get_num_threads(), max(1, rows // MIN_ROWS_PER_THREAD)), team) if team else (1, (0, 0, 0))


def _scratch_for(scratch: Float[Tensor, "allocated _"], threads: int) -> Float[Tensor, "threads _"]:
    """Return scratch memory for at least `threads` threads."""
    return scratch if len(scratch) >= threads else scratch.new_empty(threads, scratch.shape[1])


def _pack(layers: FrozenLayers) -> Float[Tensor, " slot_size"]:
    """Concatenate statistics, hidden layers, gates and output heads."""
    parts = [layers.mean, layers.inverse_std]
    for layer in layers.hidden:
        parts += [_panels(layer), *(layer.norm or ())]
    parts += [] if layers.gates is None else [_panels(_interleave_gates(layers.gates))]
    return torch.cat([*parts, _panels(layers.readout)])


def _panels(layer: FrozenLayer) -> Float[Tensor, " size"]:
    """Arrange a layer in panels of 64 columns, zero-padded: a row of biases, then one row per input."""
    rows = torch.cat([layer.bias.unsqueeze(0), layer.weight.t()])
    return F.pad(rows, (0, -rows.shape[1] % PANEL)).reshape(len(rows), -1, PANEL).transpose(0, 1).flatten()


def _interleave_gates(gates: FrozenLayer) -> FrozenLayer:
    """Reorder gates so that the four gates of 16 units are adjacent."""

    def interleave(part: Tensor) -> Tensor:
        return part.reshape(4, -1, LANES, *part.shape[1:]).transpose(0, 1).flatten(0, 2)

    return FrozenLayer(interleave(gates.weight), interleave(gates.bias))
