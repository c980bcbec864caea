"""Checks of a user-defined network module, made before training starts."""

import copy
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.spec import EnvironmentSpec, MemberMask
from arena.errors import NetworkModuleError
from arena.policies.nn.actor_critic import ActorCritic
from arena.policies.nn.architecture import Architecture, CoreKind
from arena.policies.nn.packed_runs import PackedRuns, RecurrentState
from arena.policies.nn.set_encoder import PRESENT_ABOVE

ROWS = 6
"""Rows of the made-up batch."""

STEPS = 2
"""Decisions per run."""

DEFAULT_BOUND = 3.0
"""Bound of made-up numbers if the environment declares none."""

TOLERANCE = 1e-4
"""Largest difference between a row alone and in a batch: products of other shapes round differently."""


def check_module(architecture: Architecture, spec: EnvironmentSpec) -> None:
    """Check an architecture's module on made-up observations of an environment.

    Raises:
        NetworkModuleError: The module returns wrong shapes, has no parameters, has parameters without gradient, mixes
            rows, is not deterministic, changes while acting, or is not in single precision.
    """
    network = ActorCritic(architecture)
    path = architecture.module.path if architecture.module is not None else ""
    own = {name: each for name, each in network.named_parameters() if ".module." in name}
    if not own:
        raise _failed(path, "it has no parameters", "give it trainable parameters")
    for name, tensor in network.state_dict().items():
        if ".module." in name and tensor.is_floating_point() and tensor.dtype is not torch.float32:
            raise _failed(path, f"it stores {_short(name)} as {tensor.dtype}", "use torch.float32")
    chance = torch.Generator().manual_seed(0)
    values, runs = _observations(spec, ROWS * STEPS, chance), PackedRuns.of(torch.full((ROWS,), STEPS), STEPS)
    before = copy.deepcopy(network.state_dict())
    first = _run(network, values, runs, path)
    _require_gradients(own, first, path)
    _require_same(
        first,
        _run(network, values, runs, path),
        path,
        "the same observations give different features the second time; it may have Dropout",
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


def _run(network: ActorCritic, values: Tensor, runs: PackedRuns, path: str) -> Float[Tensor, "N F"]:
    """Return the module's output for packed runs, after checking shape and type."""
    architecture = network.architecture
    state = network.initial_state(ROWS)
    try:
        if architecture.core is CoreKind.MODULE:
            made = network.core.sequence(network.encode(values), state, runs)
        else:
            made = network.encode(values)
    except Exception as error:  # whatever the user's code raises
        raise _failed(path, f"it fails ({type(error).__name__}: {error})", "fix it") from error
    size = architecture.recurrent_size if architecture.core is CoreKind.MODULE else architecture.encoder_sizes[-1]
    setting = "network.recurrent_size" if architecture.core is CoreKind.MODULE else "the last of network.encoder_sizes"
    if not isinstance(made, Tensor) or made.shape != (len(values), size) or made.dtype is not torch.float32:
        found = f"{tuple(made.shape)} of {made.dtype}" if isinstance(made, Tensor) else f"a {type(made).__name__}"
        raise _failed(
            path,
            f"it returns {found} for {len(values)} observations",
            f"return ({len(values)}, {size}) of torch.float32, as {setting} requires",
        )
    if not bool(made.isfinite().all()):
        raise _failed(path, "it returns numbers that are not finite", "bound its output")
    return made


def _require_gradients(own: Mapping[str, torch.nn.Parameter], made: Tensor, path: str) -> None:
    """Require a gradient for every trainable parameter of the module."""
    learned = {name: each for name, each in own.items() if each.requires_grad}
    if made.requires_grad:
        torch.autograd.backward((made * torch.linspace(0.5, 1.5, made.numel()).view_as(made)).sum())
    without = [_short(name) for name, each in learned.items() if each.grad is None]
    if without or not learned:
        raise _failed(
            path, f"no gradient reaches {', '.join(without) or 'it'}", "use every trainable parameter, or remove it"
        )


def _require_memory(network: ActorCritic, values: Tensor, path: str) -> None:
    """Require the memory to keep its shape and type."""
    state = network.initial_state(ROWS)
    memory = network.core.step(network.encode(values), state)[1].hidden
    if not isinstance(memory, Tensor) or memory.shape != state.hidden.shape or memory.dtype is not torch.float32:
        found = tuple(memory.shape) if isinstance(memory, Tensor) else type(memory).__name__
        raise _failed(path, f"it returns a memory of {found}", f"return {tuple(state.hidden.shape)} of torch.float32")


def _require_rows_apart(network: ActorCritic, values: Tensor, path: str) -> None:
    """Require a row's output and memory to be the same alone and in a batch."""
    none = torch.zeros(ROWS, dtype=torch.bool)
    state = RecurrentState(*(part + 0.5 for part in network.initial_state(ROWS)))
    whole = network.step(values, state, none, ~none)
    for row in range(ROWS):
        here = slice(row, row + 1)
        alone = network.step(values[here], RecurrentState(*(part[here] for part in state)), none[here], ~none[here])
        pairs = ((alone.parameters, whole.parameters), (alone.value, whole.value), (alone.state[0], whole.state[0]))
        if any(not torch.allclose(one, of_all[here], atol=TOLERANCE, rtol=TOLERANCE) for one, of_all in pairs):
            raise _failed(path, "its output for a row depends on the other rows", "keep rows independent")


def _observations(spec: EnvironmentSpec, rows: int, chance: torch.Generator) -> Float[Tensor, "rows D"]:
    """Sample observations within the declared bounds."""
    parts = []
    for block in spec.observation:
        low, high = max(block.low, min(-DEFAULT_BOUND, block.high)), min(block.high, max(DEFAULT_BOUND, block.low))
        drawn = low + (high - low) * torch.rand(rows, block.size, generator=chance)
        parts.append((drawn > PRESENT_ABOVE).float() if isinstance(block, MemberMask) else drawn)
    return torch.cat(parts, dim=1)


def _require_same(first: Tensor, again: Tensor, path: str, otherwise: str) -> None:
    if not torch.equal(first, again):
        raise _failed(path, otherwise, "make it a function of its inputs and weights alone")


def _failed(path: str, what: str, way_out: str) -> NetworkModuleError:
    return NetworkModuleError(f"network module {path}: {what}: {way_out}")


def _short(name: str) -> str:
    return name.partition(".module.")[2]
