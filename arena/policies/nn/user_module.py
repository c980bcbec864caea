"""User-defined network modules, named like `mypackage.nets:MyNet`; docs/guides/train/networks.md shows an example.

Importing a module runs its code. A module that a checkpoint names is therefore imported only if the user allowed it.
"""

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from arena.environments.spec import Channels, ChoiceBlock, EnvironmentSpec, ImageBlock, MemberMask, ObservationBlock
from arena.errors import ModuleNotAllowedError, NetworkModuleError
from arena.policies.nn.packed_runs import PackedRuns, RecurrentState
from arena.policies.nn.set_encoder import PRESENT_ABOVE
from arena.user_code import find_in_user_module

ALLOWED_MODULES_VARIABLE = "ARENA_MODULES"
"""Environment variable with the comma-separated modules that checkpoints may import."""


class InputKind(StrEnum):
    """Type of an observation block, as a module receives it."""

    NUMBERS = "numbers"
    """Single precision, normalised by running statistics; 0 for absent members of a set."""
    IMAGE = "image"
    """Single precision, channels first, divided by the largest magnitude that the block declares."""
    CHOICES = "choices"
    """Category numbers (int64), counted from 0."""
    MEMBERS = "members"
    """Presence mask of a set (bool)."""


@dataclass(frozen=True)
class Input:
    """One block of the observation, as a module receives it.

    Attributes:
        name: Name of the block in the environment's spec.
        kind: Type of the block.
        shape: Shape for one agent; an image has (depth, height, width).
        options: Number of categories of each entry of CHOICES; empty for other kinds.
        start: First index in the flat observation.
        limit: Divisor of an IMAGE; 1 for other kinds.
        channels_last: Whether the environment gives an image as (height, width, depth); `turned` in checkpoints.
    """

    name: str
    kind: InputKind
    shape: tuple[int, ...]
    options: tuple[int, ...]
    start: int
    limit: float
    channels_last: Annotated[bool, Field(validation_alias="turned", serialization_alias="turned")]

    @classmethod
    def of(cls, block: ObservationBlock, start: int) -> "Input":
        """Describe a block that begins at index `start`."""
        shape, limit, channels_last = block.shape, 1.0, False
        options: tuple[int, ...] = ()
        match block:
            case ImageBlock():
                kind, limit = InputKind.IMAGE, block.limit
                shape, channels_last = (block.depth, *block.sides), block.channels is Channels.LAST
            case ChoiceBlock():
                kind, options = InputKind.CHOICES, block.options
            case MemberMask():
                kind = InputKind.MEMBERS
            case _:
                kind = InputKind.NUMBERS
        return cls(block.name, kind, shape, options, start, limit, channels_last)

    @property
    def columns(self) -> slice:
        """Slice of the observation that the block occupies."""
        return slice(self.start, self.start + torch.Size(self.shape).numel())

    def read(self, scaled: Float[Tensor, "N D"]) -> Tensor:
        """Return the block of every row (N, *shape)."""
        flat = scaled[:, self.columns]
        if self.channels_last:
            depth, height, width = self.shape
            return flat.reshape(len(flat), height, width, depth).permute(0, 3, 1, 2)
        block = flat.reshape(len(flat), *self.shape)
        match self.kind:
            case InputKind.CHOICES:
                return block.long()
            case InputKind.MEMBERS:
                return block > PRESENT_ABOVE
            case _:
                return block


@dataclass(frozen=True)
class ModuleLayout:
    """A user-defined module and its inputs.

    Attributes:
        path: `MODULE:CLASS`.
        inputs: Every block of the observation.
    """

    path: str
    inputs: tuple[Input, ...]

    @classmethod
    def of(cls, spec: EnvironmentSpec, path: str) -> "ModuleLayout":
        """Return the layout of a module's inputs in an environment."""
        return cls(path, tuple(Input.of(block, spec.layout[block.name].start) for block in spec.observation))

    def make(self, features: int) -> nn.Module:
        """Instantiate the module with this number of output features.

        Raises:
            NetworkModuleError: The class cannot be imported, or its constructor fails.
        """
        found = _find(self.path)
        try:
            module = found({each.name: each for each in self.inputs}, features)
        except Exception as error:  # whatever the user's code raises
            raise NetworkModuleError(
                f"network module {self.path} cannot be created ({type(error).__name__}: {error}): its constructor must "
                "take the inputs and the number of output features"
            ) from error
        if not isinstance(module, nn.Module):
            raise NetworkModuleError(
                f"network module {self.path} creates a {type(module).__name__}: name a subclass of torch.nn.Module"
            )
        return module

    def read(self, scaled: Float[Tensor, "N D"]) -> dict[str, Tensor]:
        """Return all blocks of scaled observations by name."""
        return {each.name: each.read(scaled) for each in self.inputs}


class ModuleEncoder(nn.Module):
    """A user-defined module as the encoder."""

    def __init__(self, layout: ModuleLayout, features: int) -> None:
        super().__init__()
        self._layout = layout
        self.module = layout.make(features)

    def forward(self, scaled: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        """Return the module's features."""
        features: Tensor = self.module(self._layout.read(scaled))
        return features


class ModuleCore(nn.Module):
    """A user-defined module as encoder and core, with or without memory.

    Its memory is the hidden part of the recurrent state. The cell part is unused.
    """

    def __init__(self, layout: ModuleLayout, features: int) -> None:
        super().__init__()
        self._layout = layout
        self.module = layout.make(features)
        size = getattr(self.module, "memory_size", None)
        if not isinstance(size, int) or size < 0:
            raise NetworkModuleError(
                f"network module {layout.path} has memory_size {size!r}: as the core it must set the size of its "
                'memory, or 0 for none; otherwise use network.core = "lstm"'
            )
        self.state_size = size

    def step(self, scaled: Float[Tensor, "R D"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Advance R rows by one step."""
        blocks = self._layout.read(scaled)
        if not self.state_size:
            features: Tensor = self.module(blocks)
            return features, state
        features, memory = self.module(blocks, state.hidden)
        return features, state._replace(hidden=memory)

    def sequence(self, scaled: Float[Tensor, "N D"], state: RecurrentState, runs: PackedRuns) -> Float[Tensor, "N H"]:
        """Unroll S packed runs from their initial states, through which no gradient flows."""
        return self._unroll(scaled, state, runs)[0]

    def hidden_states(
        self, scaled: Float[Tensor, "N D"], state: RecurrentState, runs: PackedRuns
    ) -> Float[Tensor, "N S"]:
        """Return the memory after every decision."""
        return self._unroll(scaled, state, runs)[1]

    def _unroll(self, scaled: Tensor, state: RecurrentState, runs: PackedRuns) -> tuple[Tensor, Tensor]:
        """Return features and memory of all decisions; a module with memory runs step by step."""
        if not self.state_size:
            return self.step(scaled, state)[0], scaled.new_zeros(len(scaled), 0)
        memory, features, memories = state.hidden.detach(), [], []
        for rows in torch.split(scaled, runs.first.diff().tolist()):
            output, state_after = self.step(rows, RecurrentState(memory[: len(rows)], memory[: len(rows)]))
            memory = state_after.hidden
            features.append(output)
            memories.append(memory)
        return torch.cat(features), torch.cat(memories)


def allow_modules(paths: Iterable[str]) -> None:
    """Allow checkpoints to import modules, in this process and in its future child processes.

    Args:
        paths: `MODULE:CLASS` each.

    Raises:
        NetworkModuleError: A path has another form.
    """
    paths = list(paths)
    for path in paths:
        if not all(part.isidentifier() for part in path.replace(":", ".").split(".")) or path.count(":") != 1:
            raise NetworkModuleError(
                f"network module {path!r} is not of the form MODULE:CLASS: write, for example, mypackage.nets:MyNet"
            )
    if paths:
        os.environ[ALLOWED_MODULES_VARIABLE] = ",".join(
            filter(None, [os.environ.get(ALLOWED_MODULES_VARIABLE, ""), *paths])
        )


def require_allowed(path: str, named: Collection[str], source: str) -> None:
    """Raise unless the user has allowed the module that a checkpoint needs.

    Args:
        path: `MODULE:CLASS` in the checkpoint.
        named: Modules in the user's settings; the environment variable may add more.
        source: Name of the checkpoint in errors.

    Raises:
        ModuleNotAllowedError: The module is not allowed.
    """
    others = os.environ.get(ALLOWED_MODULES_VARIABLE, "").split(",")
    if not path or path not in {*named, *(each.strip() for each in others)}:
        raise ModuleNotAllowedError(
            f"{source} needs the network module {path!r}, which runs code and is not allowed here: if you have it "
            f"and trust it, give --module {path}, set network.module, or {ALLOWED_MODULES_VARIABLE}={path}"
        )


def _find(path: str) -> Callable[..., object]:
    """Import a class by its path."""
    try:
        found = find_in_user_module(path)
    except Exception as error:  # whatever the user's code raises
        raise NetworkModuleError(
            f"network module {path!r} does not load ({error}): use an importable module, and install its dependencies"
        ) from error
    if not callable(found):
        raise NetworkModuleError(
            f"network module {path!r} does not exist: write MODULE:CLASS, for example mypackage.nets:MyNet"
        )
    return found
