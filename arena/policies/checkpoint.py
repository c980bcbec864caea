"""The checkpoint file: one safetensors file with JSON metadata, named by its SHA-256. Never unpickled."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from arena.durable import write_atomically
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind
from arena.errors import CheckpointError, NetworkModuleError, printable
from arena.policies.embeddings import EmbeddingLayout
from arena.policies.encoder import EncoderKind
from arena.policies.images import ImageLayout
from arena.policies.modules import Input, InputKind, ModuleLayout, require_named
from arena.policies.network import ActorCritic, Architecture, CoreKind, NetworkPolicy, make_skeleton
from arena.policies.sets import SetLayout

FORMAT = "echelon-league.policy"
FORMAT_VERSION = 3
READ_VERSIONS = [str(version) for version in range(1, FORMAT_VERSION + 1)]
UNSAID_IN_VERSION_1 = {"encoder": EncoderKind.TANH.value, "sets": []}
UNSAID_IN_VERSION_2: dict[str, Any] = {"images": [], "embeddings": [], "module": None}
"""What every network was when files did not say it yet. Those that are so are still written as version 2."""

NEWEST = "policy.safetensors"
"""Checkpoint of the newest weights in the folder of a training run."""

NAMED = 3
"""Tensors that an error names."""

DIFFERENCES = 10
"""From an architecture that an error names."""

PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK\x03\x04")
"""First bytes of a pickle, and of the zip archive of one that `torch.save` writes.

They say what a file is that is none of safetensors. Such a file begins with its header's length, and may begin alike.
"""


def encode(network: ActorCritic, spec: EnvironmentSpec) -> bytes:
    """Serialise a network as a checkpoint; equal networks give equal bytes."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    architecture, version = json.loads(json.dumps(asdict(network.architecture))), FORMAT_VERSION
    if all(architecture[name] == unsaid for name, unsaid in UNSAID_IN_VERSION_2.items()):
        architecture, version = {key: architecture[key] for key in architecture.keys() - UNSAID_IN_VERSION_2.keys()}, 2
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
        device: Where the network goes.
        source: How errors name the file.
        modules: Network modules, which are code, that the user has named and the checkpoint may need.

    Raises:
        CheckpointError: The bytes are not a checkpoint, are of a newer format, need a module that nobody has named, do
            not fit their architecture, or hold numbers that are not finite.
    """
    metadata, tensors = _read(data, source)
    architecture = _parse_architecture(metadata, source)
    if architecture.module is not None:
        require_named(architecture.module.path, modules, source)
    _require_tensors_for(architecture, tensors, source)
    network = _build_skeleton(architecture, source)
    _require_fit(network, tensors, source)
    network = network.to_empty(device=device) if architecture.module is None else network.to(device)
    network.load_state_dict(tensors)
    if strange := not_finite(network.state_dict()):  # in its own precision: double holds what single cannot
        raise CheckpointError(
            f"{source} holds numbers that are not finite in {strange}: take a checkpoint of an earlier step"
        )
    return NetworkPolicy(network, metadata["environment"], metadata["signature"])


def save(path: Path, network: ActorCritic, spec: EnvironmentSpec) -> str:
    """Write a checkpoint atomically and return its SHA-256."""
    data = encode(network, spec)
    write_atomically(path, data)
    return hashlib.sha256(data).hexdigest()


def load(path: str | Path, *, device: str = "cpu") -> NetworkPolicy:
    """Read a policy from a checkpoint file.

    Raises:
        CheckpointError: There is no such file, or it is not a checkpoint that this version reads.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read checkpoint {path}: {error.strerror}; give the path of a file") from error
    return decode(data, device=device, source=str(path))


def not_finite(tensors: Mapping[str, Tensor]) -> str:
    """Name the tensors that hold NaN or infinity, which native code would act on without a word; empty for none."""
    names = [name for name, tensor in sorted(tensors.items()) if not bool(torch.isfinite(tensor).all())]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def load_strictly(network: torch.nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy tensors into a module; every difference in names or shapes is named.

    Raises:
        CheckpointError: A tensor is missing, unexpected, or of another shape.
    """
    _require_fit(network, tensors, source)
    network.load_state_dict(tensors)


def _read(data: bytes, source: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        tensors = load_tensors(data)
    except SafetensorError as error:
        if data.startswith(PICKLE_STARTS):
            raise CheckpointError(
                f"{source} is a pickle, which can run code when it is read: export it as safetensors"
            ) from error
        raise CheckpointError(f"{source} is not a safetensors file ({error}): export it as safetensors") from error
    metadata = _header(data).get("__metadata__", {})
    _check_format(metadata, source)
    return metadata, tensors


def _header(data: bytes) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


def _canonical(data: bytes) -> bytes:
    """The same safetensors file with its header's keys in order: the library writes metadata in a random one."""
    body = data[8 + int.from_bytes(data[:8], "little") :]
    header = json.dumps(_header(data), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + body


def _check_format(metadata: Mapping[str, str], source: str) -> None:
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{source} has format {metadata.get('format')!r}, not {FORMAT!r}: give what arena.policies.save wrote, or "
            f"the {NEWEST} of a run folder"
        )
    version = metadata.get("format_version", "")
    if version not in READ_VERSIONS:
        raise CheckpointError(
            f"{source} has format version {version!r}; this version reads up to {FORMAT_VERSION}: "
            "upgrade echelon-league"
        )
    if missing := {"environment", "signature", "architecture"} - metadata.keys():
        raise CheckpointError(f"{source} does not say its {', '.join(sorted(missing))}: write it again")


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
        more = f"; and {len(differences) - DIFFERENCES} more" if len(differences) > DIFFERENCES else ""
        raise CheckpointError(f"{source} does not fit its architecture: {'; '.join(differences[:DIFFERENCES])}{more}")


def _require_tensors_for(architecture: Architecture, tensors: Mapping[str, Tensor], source: str) -> None:
    """Refuse more layers than there are weights for: to make millions takes hours, and memory without them, too."""
    layers = len(architecture.encoder_sizes) + sum(len(image.channels) for image in architecture.images)
    if architecture.module is None and layers > len(tensors):
        raise CheckpointError(
            f"{source} does not fit its architecture: it says {layers} layers and holds {len(tensors)} tensors"
        )


def _build_skeleton(architecture: Architecture, source: str) -> ActorCritic:
    """The network without memory for its weights: an architecture of any size is checked before it is believed."""
    try:
        return make_skeleton(architecture)
    except NetworkModuleError as error:
        raise CheckpointError(f"{source}: {error}") from error
    except (TypeError, ValueError, RuntimeError, ArithmeticError, LookupError) as error:
        reason = str(error).partition("\n")[0]
        raise CheckpointError(f"{source} has an impossible architecture ({reason}): write it again") from error


def _parse_architecture(metadata: Mapping[str, str], source: str) -> Architecture:
    try:
        fields = UNSAID_IN_VERSION_1 | UNSAID_IN_VERSION_2 | json.loads(metadata["architecture"])
        heads = tuple(ActionHead(**{**head, "kind": HeadKind(head["kind"])}) for head in fields.pop("heads"))
        return Architecture(
            **{
                **fields,
                "heads": heads,
                "encoder": EncoderKind(fields["encoder"]),
                "encoder_sizes": tuple(fields["encoder_sizes"]),
                "core": CoreKind(fields["core"]),
                "sets": tuple(_parse_set(each) for each in fields["sets"]),
                "images": tuple(ImageLayout(**_with_tuple(each, "channels")) for each in fields["images"]),
                "embeddings": tuple(EmbeddingLayout(**_with_tuple(each, "options")) for each in fields["embeddings"]),
                "module": None if fields["module"] is None else _parse_module(fields["module"]),
            }
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:  # the last: brackets within brackets
        raise CheckpointError(
            f"{source} has an unreadable architecture ({printable(error)}): write it again"
        ) from error


def _parse_set(fields: Mapping[str, Any]) -> SetLayout:
    blocks = tuple((start, length) for start, length in fields["blocks"])
    return SetLayout(**{**fields, "blocks": blocks, "heads": tuple(fields["heads"])})


def _parse_module(fields: Mapping[str, Any]) -> ModuleLayout:
    inputs = (_with_tuple(_with_tuple(each, "shape"), "options") for each in fields["inputs"])
    kinds = tuple(Input(**{**each, "kind": InputKind(each["kind"])}) for each in inputs)
    return ModuleLayout(**{**fields, "inputs": kinds})


def _with_tuple(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {**fields, name: tuple(fields[name])}
