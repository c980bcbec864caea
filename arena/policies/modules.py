"""Network modules of the user's own, by name: `mypackage.nets:MyNet`. See docs/networks.md for what one looks like.

A name in a checkpoint is code that somebody else asks for: it is imported only where the user named it, too.
"""

import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.environments.spec import Channels, ChoiceBlock, EnvironmentSpec, ImageBlock, MemberMask, ObservationBlock
from arena.errors import CheckpointError, NetworkModuleError
from arena.policies.cores import RecurrentState, Runs
from arena.policies.sets import MEMBER

NAMED_VARIABLE = "ARENA_MODULES"
"""Environment variable that names modules which checkpoints may ask for, with commas between them."""


class InputKind(StrEnum):
    """What a module gets of a block of the observation."""

    NUMBERS = "numbers"
    """Single precision, normalised by running statistics; 0 in empty places of a set."""
    IMAGE = "image"
    """Single precision, channels first, divided by the largest magnitude that the block declares."""
    CHOICES = "choices"
    """Whole numbers (int64), counted from 0."""
    MEMBERS = "members"
    """Booleans: who is there of a set."""


@dataclass(frozen=True)
class Input:
    """A block of the observation, as a module gets it.

    Attributes:
        name: What the environment calls it.
        kind: What it holds.
        shape: Of one agent's block; an image's is (depth, height, width).
        options: Of choices, how many things each entry may name; empty for all else.
        start: Its first place in the flat observation.
        limit: Of an image, what it was divided by; 1 for all else.
        turned: Whether an image was (height, width, depth) before.
    """

    name: str
    kind: InputKind
    shape: tuple[int, ...]
    options: tuple[int, ...]
    start: int
    limit: float
    turned: bool

    @classmethod
    def of(cls, block: ObservationBlock, start: int) -> "Input":
        """A block that begins at that place."""
        shape, limit, turned = block.shape, 1.0, False
        options: tuple[int, ...] = ()
        match block:
            case ImageBlock():
                kind, limit = InputKind.IMAGE, block.limit
                shape, turned = (block.depth, *block.sides), block.channels is Channels.LAST
            case ChoiceBlock():
                kind, options = InputKind.CHOICES, block.options
            case MemberMask():
                kind = InputKind.MEMBERS
            case _:
                kind = InputKind.NUMBERS
        return cls(block.name, kind, shape, options, start, limit, turned)

    @property
    def place(self) -> slice:
        """What it takes up of the observation."""
        return slice(self.start, self.start + torch.Size(self.shape).numel())

    def read(self, scaled: Float[Tensor, "N D"]) -> Tensor:
        """The block of every row (N, *shape)."""
        flat = scaled[:, self.place]
        if self.turned:
            depth, height, width = self.shape
            return flat.reshape(len(flat), height, width, depth).permute(0, 3, 1, 2)
        block = flat.reshape(len(flat), *self.shape)
        match self.kind:
            case InputKind.CHOICES:
                return block.long()
            case InputKind.MEMBERS:
                return block > MEMBER
            case _:
                return block


@dataclass(frozen=True)
class ModuleLayout:
    """A module of the user's own, and what it gets.

    Attributes:
        path: `MODULE:CLASS`.
        inputs: Every block of the observation.
    """

    path: str
    inputs: tuple[Input, ...]

    @classmethod
    def of(cls, spec: EnvironmentSpec, path: str) -> "ModuleLayout":
        """What a module gets of an environment."""
        return cls(path, tuple(Input.of(block, spec.layout[block.name].start) for block in spec.observation))

    def make(self, features: int) -> nn.Module:
        """Make the module.

        Raises:
            NetworkModuleError: There is no such class, or it does not take what it is given.
        """
        found = _find(self.path)
        try:
            made = found({each.name: each for each in self.inputs}, features)
        except Exception as error:  # whatever the user's code raises
            raise NetworkModuleError(
                f"network module {self.path} cannot be made ({type(error).__name__}: {error}): its class takes the "
                "inputs and how many features to give"
            ) from error
        if not isinstance(made, nn.Module):
            raise NetworkModuleError(
                f"network module {self.path} makes a {type(made).__name__}: name a class of torch.nn.Module"
            )
        return made

    def read(self, scaled: Float[Tensor, "N D"]) -> dict[str, Tensor]:
        """All blocks of rows of observations as they are after scaling."""
        return {each.name: each.read(scaled) for each in self.inputs}


class ModuleEncoder(nn.Module):
    """A user's module in the place of the encoder."""

    def __init__(self, layout: ModuleLayout, features: int) -> None:
        super().__init__()
        self._layout = layout
        self.module = layout.make(features)

    def forward(self, scaled: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        """What the module makes of observations."""
        features: Tensor = self.module(self._layout.read(scaled))
        return features


class ModuleCore(nn.Module):
    """A user's module in the place of encoder and core: it has a memory of its own, or none.

    Its memory is the hidden part of the recurrent state; the other part stays as it is.
    """

    def __init__(self, layout: ModuleLayout, features: int) -> None:
        super().__init__()
        self._layout = layout
        self.module = layout.make(features)
        size = getattr(self.module, "memory_size", None)
        if not isinstance(size, int) or size < 0:
            raise NetworkModuleError(
                f"network module {layout.path} has the memory_size {size!r}: in the place of the core it says how many "
                'numbers it remembers, 0 for none; or leave network.core = "lstm"'
            )
        self.state_size = size

    def step(self, scaled: Float[Tensor, "R D"], state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Advance R rows by one step."""
        seen = self._layout.read(scaled)
        if not self.state_size:
            features: Tensor = self.module(seen)
            return features, state
        features, memory = self.module(seen, state.hidden)
        return features, state._replace(hidden=memory)

    def sequence(self, scaled: Float[Tensor, "N D"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N H"]:
        """Take S runs from their states through all their decisions; gradients end at those states."""
        return self._through(scaled, state, runs)[0]

    def remember(self, scaled: Float[Tensor, "N D"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N S"]:
        """Memory after all decisions of runs."""
        return self._through(scaled, state, runs)[1]

    def _through(self, scaled: Tensor, state: RecurrentState, runs: Runs) -> tuple[Tensor, Tensor]:
        """Features and memory of all decisions: where there is a memory, step by step."""
        if not self.state_size:
            return self.step(scaled, state)[0], scaled.new_zeros(len(scaled), 0)
        memory, features, memories = state.hidden.detach(), [], []
        for rows in torch.split(scaled, runs.first.diff().tolist()):
            after, kept = self.step(rows, RecurrentState(memory[: len(rows)], memory[: len(rows)]))
            memory = kept.hidden
            features.append(after)
            memories.append(memory)
        return torch.cat(features), torch.cat(memories)


def name_modules(paths: Iterable[str]) -> None:
    """Let checkpoints ask for modules, which are code, in this process and in those that it starts from now on.

    Args:
        paths: `MODULE:CLASS` each.

    Raises:
        NetworkModuleError: One is written otherwise.
    """
    paths = list(paths)
    for path in paths:
        if not all(part.isidentifier() for part in path.replace(":", ".").split(".")) or path.count(":") != 1:
            raise NetworkModuleError(
                f"network module {path!r} is no name of one: write MODULE:CLASS, such as mypackage.nets:MyNet"
            )
    if paths:
        os.environ[NAMED_VARIABLE] = ",".join(filter(None, [os.environ.get(NAMED_VARIABLE, ""), *paths]))


def require_named(path: str, named: Collection[str], source: str) -> None:
    """Refuse code that a checkpoint asks for and the user has not named.

    Args:
        path: What it asks for.
        named: What the user's settings name; the environment variable may name more.
        source: How errors name the checkpoint.

    Raises:
        CheckpointError: Nobody has named it.
    """
    others = os.environ.get(NAMED_VARIABLE, "").split(",")
    if not path or path not in {*named, *(each.strip() for each in others)}:
        raise CheckpointError(
            f"{source} needs the network module {path!r}, which is code, and nobody here has named it: if you have it "
            f"and trust it, give --module {path}, set network.module, or {NAMED_VARIABLE}={path}"
        )


def _find(path: str) -> Callable[..., object]:
    """The class that a name stands for; modules are also looked for in the working directory, as `python` does."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    module, _, name = path.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), name, None) if module else None
    except Exception as error:  # whatever the user's code raises
        raise NetworkModuleError(
            f"network module {path!r} does not load ({error}): write MODULE:CLASS of one that Python finds, and "
            "install what it needs"
        ) from error
    if not callable(found):
        raise NetworkModuleError(
            f"network module {path!r} is not there: write MODULE:CLASS, such as mypackage.nets:MyNet"
        )
    return found
