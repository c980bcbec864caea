"""Many policies' decisions in one native call: no intermediate result leaves the caches.

The network is written out in C++ (`fused.h`), which Warp compiles for the processor at hand at its first use.
"""

from array import array
from functools import partial
from typing import no_type_check

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.protocol import Actions
from arena.environments.spec import HeadKind
from arena.native import Launch, openmp, require_memory, source, wp
from arena.policies.cores import RecurrentState
from arena.policies.deciding import Decide, Decision, Draw, Look, Said
from arena.policies.distributions import ActionLayout
from arena.policies.layers import Affine, FrozenLayers, Rectified, Step, hidden_widths
from arena.policies.network import ActorCritic, Architecture, NetworkOutput

LANES, PANEL, CHUNK, MOST_LAYERS = 16, 64, 120, 16
"""Units of a vector, columns of a panel, rows of a pass, and layers that there is room for, as in `fused.h`."""

FEWEST_ROWS = 24
"""Rows that are worth a thread."""

POINTERS, ERRAND_POINTERS = 15, 9
"""Addresses of a call, and what an errand has besides those of its heads, as in `fused.h`."""

SLOTS, PARTS, SCRATCH, OBSERVED = 0, 4, 5, 8
"""Where the sizes of a call have the number of slots, of threads, the memory of each, and what a row sees."""

KINDS = {HeadKind.GAUSSIAN: 0, HeadKind.BERNOULLI: 1, HeadKind.CATEGORICAL: 2}
"""Numbers of kinds of heads, as in `fused.h`."""

wp.set_module_options({"enable_backward": False})


@wp.func_native(source("lanes.h", "fused.h"))
@no_type_check
def step_rows(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """See `fused.h`."""


@wp.kernel
@no_type_check
def step_all(sizes: wp.array[wp.int32], addresses: wp.array[wp.uint64]) -> None:
    """One thread takes all rows through their networks."""
    step_rows(sizes, addresses)


def fits(architecture: Architecture) -> bool:
    """Whether `fused.h` can run such networks."""
    return (
        architecture.is_plain
        and architecture.recurrent_size % LANES == 0
        and len(hidden_widths(architecture)) <= MOST_LAYERS
    )


class FusedNetworks:
    """Slots for networks of one architecture, in the memory of the host.

    Rows that are not active are not computed: their parameters and values are 0. What a row gets does not hang on
    who else is in the batch, to the last bit. Threads may share the slots and the steps; they take turns.
    """

    def __init__(self, architecture: Architecture, slots: int) -> None:
        shapes = FrozenLayers.shapes(architecture)
        widths = (architecture.observation_size, *hidden_widths(architecture))
        units = 0 if shapes.gates is None else architecture.recurrent_size
        self._observed, self._units, self._columns = widths[0], units, len(shapes.readout.bias)
        self._weights = torch.zeros(slots, len(_pack(shapes)))
        self._scratch = torch.empty(1, CHUNK * (PANEL + 2 * (max(widths) + units)))
        rectified = sum(isinstance(layer, Rectified) for layer in shapes.hidden)
        shape = [*self._weights.shape, units, self._columns, 1, self._scratch.shape[1]]
        shape += [rectified, len(widths) - 1, *widths]
        self._sizes = shape + [0] * (MOST_LAYERS + 1 - len(widths))
        self._launch = Launch(step_all, len(self._sizes), POINTERS)
        self._errands: dict[ActionLayout, Launch] = {}

    @property
    def slots(self) -> int:
        """K."""
        return len(self._weights)

    @property
    def size_bytes(self) -> int:
        """Memory of all slots."""
        return self._weights.nbytes

    @torch.inference_mode()
    def reserve(self, slots: int) -> None:
        """Have that many slots; those that there were keep their networks."""
        grown = self._weights.new_zeros(slots, self._weights.shape[1])
        grown[: self.slots] = self._weights
        self._weights = grown

    @torch.inference_mode()
    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        self._weights[slot] = _pack(FrozenLayers.of(network))

    def arrange(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """The step of rows that sit in these slots."""
        return partial(self._step, *_in_order(slot_of_row, self.slots))

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
        inputs = [tensor.contiguous() for tensor in given]
        after = RecurrentState(*(torch.empty_like(part) for part in inputs[1:3]))
        readout = values.new_empty(len(order), self._columns)
        parts, team = _shares(len(order))
        scratch = self._scratch = _room(self._scratch, parts)  # another thread may replace the slots' own
        tensors = (self._weights, first, order, *inputs, *after, readout, scratch)
        sizes = [len(first) - 1, *self._sizes[1:4], parts, *self._sizes[5:]]
        self._launch(sizes, [*(tensor.data_ptr() for tensor in tensors), *team])
        return NetworkOutput(readout[:, :-1], readout[:, -1], after)

    def decide(self, slot_of_row: Int[Tensor, " R"], layout: ActionLayout, agents: int) -> Decide:
        """All that a decision takes of rows that sit in these slots and are agents of environments, so many in each.

        It stays good when slots get other networks, and until there are more slots.
        """
        return _Errand(self, slot_of_row, layout, agents)

    def launch_of(self, layout: ActionLayout, sizes: int) -> Launch:
        """What errands with these heads and so many sizes are run by: making it takes longer than a small errand."""
        if layout not in self._errands:
            pointers = POINTERS + ERRAND_POINTERS + 2 * len(layout.heads)
            self._errands[layout] = Launch(step_all, sizes, pointers)
        return self._errands[layout]

    @property
    def weights(self) -> Float[Tensor, "K slot_size"]:
        """Packed networks of all slots."""
        return self._weights

    @property
    def sizes(self) -> tuple[int, ...]:
        """`Sizes` of a call, as in `fused.h`."""
        return tuple(self._sizes)


class _Errand:
    """What `FusedNetworks.decide` gives; one thread at a time."""

    def __init__(
        self, networks: FusedNetworks, slot_of_row: Int[Tensor, " R"], layout: ActionLayout, agents: int
    ) -> None:
        self._networks, self._layout, self._agents = networks, layout, agents
        self._first, self._order = _in_order(slot_of_row, networks.slots)
        heads = [number for head in layout.heads for number in (KINDS[head.kind], head.size)]
        own = [agents, len(layout.heads), layout.mask_size, layout.raw_size, *heads]
        self._sizes = array("i", [*networks.sizes, *own])
        self._sizes[SLOTS] = networks.slots
        self._scratch = torch.empty(1, self._sizes[SCRATCH])
        self._launch = networks.launch_of(layout, len(self._sizes))

    def __call__(self, look: Look, state: RecurrentState, draw: Draw, into: Decision, said: Said, do: Actions) -> None:
        """See `Decide`."""
        values, active, opened, masks = self._shown(look)
        parts, team = _shares(len(self._order))
        self._scratch = _room(self._scratch, parts)
        self._sizes[PARTS] = parts
        rows = (self._first, self._order, into.observation, *state, into.episode_start, into.active)
        call = (self._networks.weights, *rows, *said.state, said.readout, self._scratch)
        errand = (look.numbers, look.present, values, active, opened, *draw, into.mask, into.raw)
        legal = [masks[head.name].data_ptr() if head.masked else 0 for head in self._layout.heads]
        addresses = [tensor.data_ptr() for tensor in call] + [*team] + [tensor.data_ptr() for tensor in errand]
        self._launch(self._sizes, [*addresses, *legal, *(do[head.name].data_ptr() for head in self._layout.heads)])

    def _shown(self, look: Look) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """What environments show, as native code reads it.

        Raises:
            ArenaError: It has another shape or type, or does not lie in the host's memory.
        """
        seen, environments = look.observation, len(look.opened)
        everybody = (environments, self._agents)
        heads = [head for head in self._layout.heads if head.masked]
        given = (seen.values, seen.active, look.opened, *(seen.masks[head.name] for head in heads))
        shapes = (
            (*everybody, self._sizes[OBSERVED]),
            everybody,
            (environments,),
            *((*everybody, head.size) for head in heads),
        )
        require_memory(given, shapes, (torch.float32,) + (torch.bool,) * (2 + len(heads)))
        values, active, opened, *masks = (each.contiguous() for each in given)
        return values, active, opened, {head.name: mask for head, mask in zip(heads, masks, strict=True)}


def _in_order(slot_of_row: Int[Tensor, " R"], slots: int) -> tuple[Tensor, Tensor]:
    """Where each slot's rows begin, and the rows sorted by slot."""
    counts = torch.bincount(slot_of_row, minlength=slots)
    return F.pad(counts.cumsum(0), (1, 0)).int(), torch.argsort(slot_of_row, stable=True).int()


def _shares(rows: int) -> tuple[int, tuple[int, ...]]:
    """How many threads share the rows, and where their OpenMP is."""
    team = openmp()
    return (min(torch.get_num_threads(), max(1, rows // FEWEST_ROWS)), team) if team else (1, (0, 0, 0))


def _room(scratch: Float[Tensor, "threads _"], parts: int) -> Float[Tensor, "parts _"]:
    """Memory for intermediate results of so many threads."""
    return scratch if len(scratch) >= parts else scratch.new_empty(parts, scratch.shape[1])


def _pack(layers: FrozenLayers) -> Float[Tensor, " slot_size"]:
    """Statistics, hidden layers, gates and readout, one behind the other."""
    parts = [layers.mean, layers.inverse_std]
    for layer in layers.hidden:
        parts += [_panels(layer), layer.scale, layer.offset] if isinstance(layer, Rectified) else [_panels(layer)]
    parts += [] if layers.gates is None else [_panels(_side_by_side(layers.gates))]
    return torch.cat([*parts, _panels(layers.readout)])


def _panels(layer: Affine) -> Float[Tensor, " size"]:
    """A layer in panels of 64 columns, the last filled up with zeros: a row of biases, then a row for every input."""
    rows = torch.cat([layer.bias.unsqueeze(0), layer.weight.t()])
    return F.pad(rows, (0, -rows.shape[1] % PANEL)).reshape(len(rows), -1, PANEL).transpose(0, 1).flatten()


def _side_by_side(gates: Affine) -> Affine:
    """The four gates of 16 units next to each other."""

    def arrange(part: Tensor) -> Tensor:
        return part.reshape(4, -1, LANES, *part.shape[1:]).transpose(0, 1).flatten(0, 2)

    return Affine(arrange(gates.weight), arrange(gates.bias))
