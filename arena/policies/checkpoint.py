"""The checkpoint file: one safetensors file with JSON metadata, named by its SHA-256. Never unpickled."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from arena.atomic_files import write_atomically
from arena.checkpoint_rules import LARGEST_WEIGHT, POLICY_FORMAT, SAFE_CASTS, is_safe_cast
from arena.environments.spec import EnvironmentSpec
from arena.errors import CheckpointError, NetworkModuleError, escape_unprintable
from arena.policies.network_policy import NetworkPolicy
from arena.policies.nn.actor_critic import ActorCritic, allocate_weights, make_on_meta
from arena.policies.nn.architecture import Architecture
from arena.policies.nn.mlp import EncoderKind
from arena.policies.nn.user_module import require_allowed
from arena.policies.playability import observation_bounds, require_environment, require_finite_outputs

FORMAT = POLICY_FORMAT
FORMAT_VERSION = 3
READ_VERSIONS = [str(version) for version in range(1, FORMAT_VERSION + 1)]
VERSION_1_DEFAULTS = {"encoder": EncoderKind.TANH.value, "sets": []}
VERSION_2_DEFAULTS: dict[str, Any] = {"images": [], "embeddings": [], "module": None}
"""Architecture fields that older versions lack. Networks with these defaults are still written as version 2."""

NEWEST = "policy.safetensors"
"""File name of the newest checkpoint in a run folder."""

ARCHITECTURE = TypeAdapter(Architecture)

MAX_NAMED_TENSORS = 3
"""Most tensors listed in an error."""

MAX_DIFFERENCES = 10
"""Most differences from the architecture listed in an error."""

PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
"""First bytes of a pickle, and of the zip archive that `torch.save` writes.

Tested only after safetensors has rejected a file: the header length at the start of a valid one may have these bytes.
"""


def encode(network: ActorCritic, spec: EnvironmentSpec) -> bytes:
    """Serialise a network as a checkpoint. Equal networks give equal bytes."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    architecture, version = _fields_of(network.architecture), FORMAT_VERSION
    if all(architecture[name] == default for name, default in VERSION_2_DEFAULTS.items()):
        # Written as the older version where possible, so that older programs can read it.
        architecture, version = {key: architecture[key] for key in architecture.keys() - VERSION_2_DEFAULTS.keys()}, 2
    metadata = {
        "format": FORMAT,
        "format_version": str(version),
        "environment": spec.name,
        "signature": spec.signature,
        "architecture": json.dumps(architecture, sort_keys=True),
    }
    return _canonical(save_tensors(tensors, metadata))


def decode(
    data: bytes, *, device: str = "cpu", source: str = "checkpoint", modules: Collection[str] = ()
) -> NetworkPolicy:
    """Rebuild the policy from a checkpoint's bytes.

    Args:
        data: The whole file.
        device: Device of the network.
        source: Name of the file in errors.
        modules: User-defined network modules that the checkpoint may import.

    Raises:
        CheckpointError: The bytes are not a checkpoint, have a newer format, need a module that is not allowed, do not
            fit their architecture, contain weights that are not finite or too large, or give outputs that are not
            finite for an observation of zeros.
    """
    policy = _rebuild(data, device, source, modules)
    require_finite_outputs(policy.network, _zeros_for(policy), source)
    return policy


def decode_for(
    spec: EnvironmentSpec,
    data: bytes,
    *,
    device: str = "cpu",
    source: str = "checkpoint",
    modules: Collection[str] = (),
) -> NetworkPolicy:
    """Rebuild a policy for use in a given environment; see `decode`.

    Raises:
        CheckpointError: As `decode`. Also if it was trained in another environment, or if its outputs are not finite
            at the lowest or highest observation that the environment declares.
    """
    policy = _rebuild(data, device, source, modules)
    require_environment(policy, spec, source)
    require_finite_outputs(policy.network, torch.cat((_zeros_for(policy), observation_bounds(spec))), source)
    return policy


def _rebuild(data: bytes, device: str, source: str, modules: Collection[str]) -> NetworkPolicy:
    metadata, tensors = _read(data, source)
    architecture = _parse_architecture(metadata, source)
    if architecture.module is not None:
        require_allowed(architecture.module.path, modules, source)
    _require_tensors_for(architecture, tensors, source)
    # Everything is checked before memory is allocated: a header may declare a network of any size.
    network = _build_skeleton(architecture, source)
    _require_fit(network, tensors, source)
    if architecture.module is None:
        allocate_weights(network)
    network.load_state_dict(tensors)
    network.to(device)
    _require_usable_weights(network, source)
    return NetworkPolicy(network, metadata["environment"], metadata["signature"])


def _zeros_for(policy: NetworkPolicy) -> Float[Tensor, "1 D"]:
    return torch.zeros(1, policy.network.architecture.observation_size)


def save(path: Path, network: ActorCritic, spec: EnvironmentSpec) -> str:
    """Write a checkpoint atomically and return its SHA-256."""
    data = encode(network, spec)
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def load(path: str | Path, *, device: str = "cpu") -> NetworkPolicy:
    """Read a policy from a checkpoint file.

    Raises:
        CheckpointError: The file does not exist or is not a checkpoint that this version reads.
    """
    return decode(_read_file(path), device=device, source=str(path))


def load_for(spec: EnvironmentSpec, path: str | Path) -> NetworkPolicy:
    """Read a policy for a given environment from a checkpoint file; see `decode_for`.

    Raises:
        CheckpointError: The file does not exist, or the policy does not fit the environment.
    """
    return decode_for(spec, _read_file(path), source=str(path))


def _read_file(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {error.strerror}; give the path of a file") from error


def not_finite(tensors: Mapping[str, Tensor]) -> str:
    """Return the names of tensors with NaN or infinity, which native code does not check; empty if all are finite."""
    names = [name for name, tensor in sorted(tensors.items()) if not bool(torch.isfinite(tensor).all())]
    return _shortened(names, MAX_NAMED_TENSORS, ", ")


def load_strictly(network: torch.nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy tensors into a module with exactly matching names and shapes, and types that convert safely.

    Raises:
        CheckpointError: A tensor is missing, unexpected, of another shape, or of a type that does not convert safely.
    """
    _require_fit(network, tensors, source)
    network.load_state_dict(tensors)


def _read(data: bytes, source: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        tensors = load_tensors(data)
    except SafetensorError as error:
        if data.startswith(PICKLE_STARTS):
            raise CheckpointError(
                f"{source} is a pickle, and loading it could run code: export it as safetensors"
            ) from error
        raise CheckpointError(f"{source} is not a safetensors file ({error}): export it as safetensors") from error
    metadata = _header(data).get("__metadata__", {})
    _check_format(metadata, source)
    return metadata, tensors


def _header(data: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


def _canonical(data: bytes) -> bytes:
    """Sort the header keys of a safetensors file: the library writes metadata in random order."""
    body = data[8 + int.from_bytes(data[:8], "little") :]
    header = json.dumps(_header(data), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + body


def _check_format(metadata: Mapping[str, str], source: str) -> None:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{source} has format {metadata.get('format')!r}, not {FORMAT!r}: give a file written by "
            f"arena.policies.save, or the {NEWEST} of a run folder"
        )
    version = metadata.get("format_version", "")
    if version not in READ_VERSIONS:
        raise CheckpointError(
            f"{source} has format version {version!r}; this version reads up to {FORMAT_VERSION}: "
            "upgrade echelon-league"
        )
    if missing := {"environment", "signature", "architecture"} - metadata.keys():
        raise CheckpointError(f"{source} has no metadata {', '.join(sorted(missing))}: export it again")


def _require_fit(network: torch.nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    own = network.state_dict()
    differences = [f"missing {name}" for name in sorted(own.keys() - tensors.keys())]
    differences += [f"unexpected {name}" for name in sorted(tensors.keys() - own.keys())]
    differences += [
        f"{name} is {tuple(tensors[name].shape)}, not {tuple(own[name].shape)}"
        for name in sorted(own.keys() & tensors.keys())
        if own[name].shape != tensors[name].shape
    ]
    if differences:
        raise CheckpointError(f"{source} does not fit its architecture: {_shortened(differences, MAX_DIFFERENCES)}")
    _require_types(own, tensors, source)


def _require_types(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], source: str) -> None:
    """Reject types that `load_state_dict` would convert silently, such as integers for weights."""
    wrong = []
    for name in sorted(own):
        stored, needed = (str(each.dtype).removeprefix("torch.") for each in (tensors[name], own[name]))
        if not is_safe_cast(stored, needed):
            wrong.append(f"{name} holds {stored}, not {needed}")
    if wrong:
        safe = "; ".join(f"{needed} is read from {', '.join(stored)}" for needed, stored in SAFE_CASTS.items())
        raise CheckpointError(
            f"{source} has tensors of another type than its network: {_shortened(wrong, MAX_NAMED_TENSORS)} "
            f"({safe}): save the network's own weights"
        )


def _shortened(items: Sequence[str], limit: int, separator: str = "; ") -> str:
    more = f"{separator.strip(',')}and {len(items) - limit} more" if len(items) > limit else ""
    return separator.join(items[:limit]) + more


def _require_usable_weights(network: ActorCritic, source: str) -> None:
    """Reject weights that are not finite or so large that products overflow, and observation scales of 0 or less.

    The check uses the network's precision, since a double may be too large for a float.
    """
    floats = {name: tensor for name, tensor in network.state_dict().items() if tensor.numel()}
    # One transfer for all tensors. NaN survives the norm, and infinity is its own.
    norms = [torch.linalg.vector_norm(tensor.float(), torch.inf) for tensor in floats.values()]
    largest = dict(zip(floats, torch.stack(norms).tolist(), strict=True))
    if not math.isfinite(sum(largest.values())):
        raise CheckpointError(
            f"{source} holds numbers that are not finite in {not_finite(floats)}: take a checkpoint of an earlier step"
        )
    for name, value in sorted(largest.items()):
        if value > LARGEST_WEIGHT:
            raise CheckpointError(
                f"{source} holds {value:g} in {name}, and products of numbers above {LARGEST_WEIGHT:g} overflow: "
                "take a checkpoint of an earlier step"
            )
    if not bool((network.observation_std > 0.0).all()):
        raise CheckpointError(
            f"{source} holds {network.observation_std.min().item():g} in observation_std, and a standard deviation is "
            "above 0: write it again"
        )


def _require_tensors_for(architecture: Architecture, tensors: Mapping[str, Tensor], source: str) -> None:
    """Reject more layers than tensors before building them: even without weights, millions of layers take hours."""
    layers = len(architecture.encoder_sizes) + sum(len(image.channels) for image in architecture.images)
    if architecture.module is None and layers > len(tensors):
        raise CheckpointError(
            f"{source} does not fit its architecture: {layers} layers, but {len(tensors)} tensors; export it again"
        )


def _build_skeleton(architecture: Architecture, source: str) -> ActorCritic:
    """Build the network without allocating weights, so that an architecture of any size can be checked first."""
    try:
        return make_on_meta(architecture)
    except NetworkModuleError as error:
        raise CheckpointError(f"{source}: {error}") from error
    except (TypeError, ValueError, RuntimeError, ArithmeticError, LookupError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{source} has an impossible architecture ({reason}): write it again") from error


def _parse_architecture(metadata: Mapping[str, str], source: str) -> Architecture:
    try:
        fields = VERSION_1_DEFAULTS | VERSION_2_DEFAULTS | json.loads(metadata["architecture"])
        architecture = ARCHITECTURE.validate_python(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        reason = f"{'.'.join(map(str, problem['loc']))} is {problem['input']!s:.60}: {problem['msg']}"
        raise _unreadable(source, reason) from error
    except (TypeError, ValueError, RecursionError) as error:  # the last: deeply nested JSON
        raise _unreadable(source, error) from error
    # Validation drops unknown fields and converts types, which would silently build another network.
    written = _fields_of(architecture)
    # as text, in which 4.0 is not 4 and true is not 1
    texts = {name: json.dumps(value, sort_keys=True) for name, value in written.items()}
    if inexact := sorted(
        name for name, value in fields.items() if texts.get(name) != json.dumps(value, sort_keys=True)
    ):
        raise _unreadable(source, f"unknown fields or values of another type in {', '.join(inexact)}")
    return architecture


def _unreadable(source: str, reason: object) -> CheckpointError:
    return CheckpointError(f"{source} has an unreadable architecture ({escape_unprintable(reason)}): write it again")


def _fields_of(architecture: Architecture) -> dict[str, Any]:
    """Return an architecture as JSON values."""
    fields: dict[str, Any] = ARCHITECTURE.dump_python(architecture, mode="json", by_alias=True)
    return fields
