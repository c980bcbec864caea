"""A policy in a TorchScript file: `forward(observation, masks, memory) -> (actions, memory)`.

The file is the caller's own, from this machine: TorchScript is a program, and nothing that came from a league is ever
loaded this way.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from arena.external.actor import Batch, Reply
from arena.external.errors import ExternalPolicyError, excerpt
from arena.external.files import identity_of, scattered

SUFFIXES = (".pt", ".ts")
_FORWARD = (
    "forward(observation: Tensor, masks: Dict[str, Tensor], memory: Dict[str, Tensor]) -> "
    "Tuple[Dict[str, Tensor], Dict[str, Tensor]]"
)
_TAKES = ("Tensor", "Dict[str, Tensor]", "Dict[str, Tensor]")


class TorchScriptActor:
    """Asks a TorchScript module, on the CPU.

    `memory` holds tensors (B, ...) by name. It is empty where no agent of the batch has any yet; agents that begin
    beside others that do have zeros.

    Raises:
        ExternalPolicyError: The file is none, or its `forward` is another.
    """

    def __init__(self, path: Path) -> None:
        self.identity = identity_of(path)
        self._module = _load(path)
        schema = self._module.forward.schema
        if tuple(each.type.annotation_str for each in schema.arguments[1:]) != _TAKES:
            raise ExternalPolicyError(f"{path} has {excerpt(schema)}: it must have {_FORWARD}")

    def act(self, batch: Batch) -> Reply:
        """See `Actor.act`."""
        masks = {name: torch.from_numpy(mask) for name, mask in batch.masks.items()}
        try:
            with torch.inference_mode():
                answered = self._module(torch.from_numpy(batch.observation), masks, _memory(batch))
        except RuntimeError as error:  # its last line has the reason
            raise ExternalPolicyError(f"its forward failed: {excerpt(str(error).strip().splitlines()[-1])}") from error
        if not (isinstance(answered, tuple) and [type(each) for each in answered] == [dict, dict]):
            raise ExternalPolicyError(f"its forward returned {excerpt(repr(answered))}: it must be {_FORWARD}")
        actions, memory = ({name: value.numpy() for name, value in each.items()} for each in answered)
        short = [name for name, value in memory.items() if value.shape[:1] != (len(batch),)]
        if short:
            raise ExternalPolicyError(f"its memory {short} has no row for each of {len(batch)} agents: begin with them")
        return Reply(actions, scattered(memory, len(batch)) if memory else ())

    def close(self) -> None:
        """Nothing is open."""


def _load(path: Path) -> Any:  # noqa: ANN401  the library has no types
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the format stays readable; others are offered too
            module = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        raise ExternalPolicyError(
            f"{path} is no TorchScript file: write it with torch.jit.script(module).save(PATH); what torch.save wrote "
            "is a pickle, which is never loaded"
        ) from error
    module.eval()
    return module


def _memory(batch: Batch) -> dict[str, Tensor]:
    """Return what the agents remember; empty where none does."""
    known = next((row for row in batch.memory if row is not None), None)
    if known is None:
        return {}
    blank = {name: torch.zeros_like(torch.as_tensor(value)) for name, value in known.items()}
    return {
        name: torch.stack([torch.as_tensor((blank if row is None else row)[name]) for row in batch.memory])
        for name in known
    }
