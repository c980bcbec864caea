"""Checks of a user-defined network module, run before training starts."""

import copy
from collections.abc import Iterator, Mapping

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
"""Rows of the synthetic batch."""

STEPS = 2
"""Decisions per run."""

DEFAULT_BOUND = 3.0
"""Bound of synthetic numbers if the environment declares none."""

TOLERANCE = 1e-4
"""Largest difference between a row alone and in a batch: products of other shapes round differently."""


def check_module(architecture: Architecture, spec: EnvironmentSpec) -> None:
    """Check an architecture's module on synthetic observations of an environment.

    Raises:
        NetworkModuleError: The module returns wrong shapes, has no parameters, has parameters without gradient, mixes
            rows, is not deterministic, changes while acting, or is not in single precision.
    """
    for problem, remedy in _problems(ActorCritic(architecture), spec):
        raise _failed(architecture, problem, remedy)


def _problems(network: ActorCritic, spec: EnvironmentSpec) -> Iterator[tuple[str, str]]:
    """Yield each problem of the module and its remedy. Later checks assume that earlier ones found nothing."""
    own = {_short(name): each for name, each in network.named_parameters() if ".module." in name}
    if not own:
        yield "it has no parameters", "give it trainable parameters"
    for name, tensor in network.state_dict().items():
        if ".module." in name and tensor.is_floating_point() and tensor.dtype is not torch.float32:
            yield f"it stores {_short(name)} as {tensor.dtype}", "use torch.float32"
    rng = torch.Generator().manual_seed(0)
    values, runs = _observations(spec, ROWS * STEPS, rng), PackedRuns.of(torch.full((ROWS,), STEPS), STEPS)
    before = copy.deepcopy(network.state_dict())
    try:
        outputs = [_features(network, values, runs) for _ in range(2)] + [_features(network.eval(), values, runs)]
    except Exception as error:  # whatever the user's code raises
        raise _failed(network.architecture, f"it fails ({type(error).__name__}: {error})", "fix it") from error
    yield from _output_problems(network.architecture, outputs[0], len(values))
    yield from _gradient_problems(own, outputs[0])
    differences = (
        "the same observations give different features the second time; it may have Dropout",
        "acting (`eval()`) and learning (`train()`) give different features; it may have Dropout or BatchNorm",
    )
    for again, difference in zip(outputs[1:], differences, strict=True):
        if not torch.equal(outputs[0], again):
            yield difference, "make it a function of its inputs and weights alone"
    if any(not torch.equal(each, before[name]) for name, each in network.state_dict().items()):
        yield "it changes its buffers while it acts", "only the optimiser may change it, not BatchNorm"
    with torch.no_grad():
        yield from _memory_problems(network, values[:ROWS])
        if _rows_mix(network, values[:ROWS]):
            yield "its output for a row depends on the other rows", "keep rows independent"


def _features(network: ActorCritic, values: Tensor, runs: PackedRuns) -> Tensor:
    """Return the module's output for packed runs."""
    encoded = network.encode(values)
    if network.architecture.core is not CoreKind.MODULE:
        return encoded
    return network.core.sequence(encoded, network.initial_state(ROWS), runs)


def _output_problems(architecture: Architecture, output: object, rows: int) -> Iterator[tuple[str, str]]:
    size, setting = architecture.encoder_sizes[-1], "the last of network.encoder_sizes"
    if architecture.core is CoreKind.MODULE:
        size, setting = architecture.recurrent_size, "network.recurrent_size"
    if not isinstance(output, Tensor) or output.shape != (rows, size) or output.dtype is not torch.float32:
        found = (
            f"{tuple(output.shape)} of {output.dtype}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        )
        remedy = f"return ({rows}, {size}) of torch.float32, as {setting} requires"
        yield f"it returns {found} for {rows} observations", remedy
    elif not bool(output.isfinite().all()):
        yield "it returns numbers that are not finite", "bound its output"


def _gradient_problems(own: Mapping[str, torch.nn.Parameter], output: Tensor) -> Iterator[tuple[str, str]]:
    """Require a gradient for every trainable parameter of the module."""
    trainable = {name: each for name, each in own.items() if each.requires_grad}
    if output.requires_grad:
        torch.autograd.backward((output * torch.linspace(0.5, 1.5, output.numel()).view_as(output)).sum())
    without = [name for name, each in trainable.items() if each.grad is None]
    if without or not trainable:
        yield f"no gradient reaches {', '.join(without) or 'it'}", "use every trainable parameter, or remove it"


def _memory_problems(network: ActorCritic, values: Tensor) -> Iterator[tuple[str, str]]:
    """Require the memory to keep its shape and type."""
    state = network.initial_state(ROWS)
    memory = network.core.step(network.encode(values), state)[1].hidden
    if not isinstance(memory, Tensor) or memory.shape != state.hidden.shape or memory.dtype is not torch.float32:
        found = tuple(memory.shape) if isinstance(memory, Tensor) else type(memory).__name__
        yield f"it returns a memory of {found}", f"return {tuple(state.hidden.shape)} of torch.float32"


def _rows_mix(network: ActorCritic, values: Tensor) -> bool:
    """Whether a row's output or memory differs between the row alone and the batch."""
    none = torch.zeros(ROWS, dtype=torch.bool)
    state = RecurrentState(*(part + 0.5 for part in network.initial_state(ROWS)))
    batch = network.step(values, state, none, ~none)
    for row in range(ROWS):
        own = slice(row, row + 1)
        alone = network.step(values[own], RecurrentState(*(part[own] for part in state)), none[own], ~none[own])
        pairs = ((alone.parameters, batch.parameters), (alone.value, batch.value), (alone.state[0], batch.state[0]))
        if any(not torch.allclose(one, rows[own], atol=TOLERANCE, rtol=TOLERANCE) for one, rows in pairs):
            return True
    return False


def _observations(spec: EnvironmentSpec, rows: int, rng: torch.Generator) -> Float[Tensor, "rows D"]:
    """Sample observations within the declared bounds."""
    parts = []
    for block in spec.observation:
        low, high = max(block.low, min(-DEFAULT_BOUND, block.high)), min(block.high, max(DEFAULT_BOUND, block.low))
        sample = low + (high - low) * torch.rand(rows, block.size, generator=rng)
        parts.append((sample > PRESENT_ABOVE).float() if isinstance(block, MemberMask) else sample)
    return torch.cat(parts, dim=1)


def _failed(architecture: Architecture, problem: str, remedy: str) -> NetworkModuleError:
    path = architecture.module.path if architecture.module is not None else ""
    return NetworkModuleError(f"network module {path}: {problem}: {remedy}")


def _short(name: str) -> str:
    return name.partition(".module.")[2]
