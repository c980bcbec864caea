"""Whether a user's network module does what a network has to, found out before anything is learned."""

import copy
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.spec import EnvironmentSpec, MemberMask
from arena.errors import NetworkModuleError
from arena.policies.cores import RecurrentState, Runs
from arena.policies.network import ActorCritic, Architecture, CoreKind
from arena.policies.sets import MEMBER

ROWS = 6
"""Observations of the trial."""

STEPS = 2
"""Decisions that memory is tried over."""

LARGEST_TRIED = 3.0
"""Bound of the trial's numbers where an environment declares none."""

CLOSE = 1e-4
"""How far single observations may be from a batch: products of other shapes round otherwise."""


def check_module(architecture: Architecture, spec: EnvironmentSpec) -> None:
    """Try the module of an architecture on made-up observations of an environment.

    Raises:
        NetworkModuleError: It gives other shapes than it was asked for, nothing of it learns, no gradient reaches some
            of it, rows look at each other, it is not deterministic, changes while it acts, or is not single precision.
    """
    network = ActorCritic(architecture)
    path = architecture.module.path if architecture.module is not None else ""
    own = {name: each for name, each in network.named_parameters() if ".module." in name}
    if not own:
        raise _failed(path, "it has no parameters", "give it some that learn")
    for name, tensor in network.state_dict().items():
        if ".module." in name and tensor.is_floating_point() and tensor.dtype is not torch.float32:
            raise _failed(path, f"it keeps {_short(name)} in {tensor.dtype}", "keep it in single precision")
    chance = torch.Generator().manual_seed(0)
    values, runs = _observations(spec, ROWS * STEPS, chance), Runs.of(torch.full((ROWS,), STEPS), STEPS)
    before = copy.deepcopy(network.state_dict())
    first = _run(network, values, runs, path)
    _require_gradients(own, first, path)
    _require_same(
        first,
        _run(network, values, runs, path),
        path,
        "the same observations give other features the second time; it may have Dropout",
    )
    _require_same(
        first,
        _run(network.eval(), values, runs, path),
        path,
        "acting (`eval()`) and learning (`train()`) give different features; it may have Dropout or BatchNorm",
    )
    if any(not torch.equal(each, before[name]) for name, each in network.state_dict().items()):
        raise _failed(path, "it changes its buffers while it acts", "only the optimiser may change it, not BatchNorm")
    with torch.no_grad():
        _require_memory(network, values[:ROWS], path)
        _require_rows_apart(network, values[:ROWS], path)


def _run(network: ActorCritic, values: Tensor, runs: Runs, path: str) -> Float[Tensor, "N F"]:
    """What the module makes of runs of observations, checked for its shape."""
    architecture = network.architecture
    state = network.initial_state(ROWS)
    try:
        if architecture.core is CoreKind.MODULE:
            made = network.core.sequence(network.encode(values), state, runs)
        else:
            made = network.encode(values)
    except Exception as error:  # whatever the user's code raises
        raise _failed(path, f"it fails ({type(error).__name__}: {error})", "mend it") from error
    size = architecture.recurrent_size if architecture.core is CoreKind.MODULE else architecture.encoder_sizes[-1]
    setting = "network.recurrent_size" if architecture.core is CoreKind.MODULE else "the last of network.encoder_sizes"
    if not isinstance(made, Tensor) or made.shape != (len(values), size) or made.dtype is not torch.float32:
        told = f"{tuple(made.shape)} of {made.dtype}" if isinstance(made, Tensor) else f"a {type(made).__name__}"
        raise _failed(
            path,
            f"it gives {told} for {len(values)} observations",
            f"give ({len(values)}, {size}) of torch.float32, which {setting} says",
        )
    if not bool(made.isfinite().all()):
        raise _failed(path, "it gives numbers that are not finite", "bound what it computes")
    return made


def _require_gradients(own: Mapping[str, torch.nn.Parameter], made: Tensor, path: str) -> None:
    """Every parameter of the module hangs together with what it gives."""
    learned = {name: each for name, each in own.items() if each.requires_grad}
    if made.requires_grad:
        torch.autograd.backward((made * torch.linspace(0.5, 1.5, made.numel()).view_as(made)).sum())
    without = [_short(name) for name, each in learned.items() if each.grad is None]
    if without or not learned:
        raise _failed(path, f"no gradient reaches {', '.join(without) or 'it'}", "use all that learns, or leave it out")


def _require_memory(network: ActorCritic, values: Tensor, path: str) -> None:
    """Memory comes back as it went in."""
    state = network.initial_state(ROWS)
    memory = network.core.step(network.encode(values), state)[1].hidden
    if not isinstance(memory, Tensor) or memory.shape != state.hidden.shape or memory.dtype is not torch.float32:
        told = tuple(memory.shape) if isinstance(memory, Tensor) else type(memory).__name__
        raise _failed(path, f"it returns a memory of {told}", f"return {tuple(state.hidden.shape)} of torch.float32")


def _require_rows_apart(network: ActorCritic, values: Tensor, path: str) -> None:
    """A row gets the same alone as among others, and its memory too."""
    nobody = torch.zeros(ROWS, dtype=torch.bool)
    state = RecurrentState(*(part + 0.5 for part in network.initial_state(ROWS)))
    whole = network.step(values, state, nobody, ~nobody)
    for row in range(ROWS):
        here = slice(row, row + 1)
        alone = network.step(values[here], RecurrentState(*(part[here] for part in state)), nobody[here], ~nobody[here])
        pairs = ((alone.parameters, whole.parameters), (alone.value, whole.value), (alone.state[0], whole.state[0]))
        if any(not torch.allclose(one, of_all[here], atol=CLOSE, rtol=CLOSE) for one, of_all in pairs):
            raise _failed(path, "it reads an observation otherwise alone than among others", "keep rows apart")


def _observations(spec: EnvironmentSpec, rows: int, chance: torch.Generator) -> Float[Tensor, "rows D"]:
    """Observations within the declared bounds, whole numbers where they are choices."""
    parts = []
    for block in spec.observation:
        low, high = max(block.low, min(-LARGEST_TRIED, block.high)), min(block.high, max(LARGEST_TRIED, block.low))
        drawn = low + (high - low) * torch.rand(rows, block.size, generator=chance)
        parts.append((drawn > MEMBER).float() if isinstance(block, MemberMask) else drawn)
    return torch.cat(parts, dim=1)


def _require_same(first: Tensor, again: Tensor, path: str, otherwise: str) -> None:
    if not torch.equal(first, again):
        raise _failed(path, otherwise, "let nothing but its inputs and weights decide")


def _failed(path: str, what: str, way_out: str) -> NetworkModuleError:
    return NetworkModuleError(f"network module {path}: {what}: {way_out}")


def _short(name: str) -> str:
    return name.partition(".module.")[2]
