"""Memory that the processes of an update share: the rollout, what is learned from it, weights and gradients."""

import itertools
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor

from arena import shared_memory
from arena.policies import ActorCritic, Architecture
from arena.policies.network import make_skeleton
from trainer.auxiliary import NextObservation
from trainer.optimizer import AUXILIARY, learned, length
from trainer.rollout import Rollout
from trainer.samples import Targets
from trainer.settings import PPOSettings
from trainer.weighing import Part

ALIGNMENT = 64
"""Bytes that every tensor's address is a multiple of: a cache line, and the widest vector."""

SUPPORTED = hasattr(os, "memfd_create")
"""Whether this system has memory that is shared by handing on a file, and gone with the last process that has it."""


@dataclass(frozen=True)
class Setup:
    """What all processes of an update know.

    Attributes:
        architecture: Of the network that learns.
        ppo: How it learns.
        steps: T of the rollout.
        rows: R.
        chunk: L.
        partners: Processes beside the trainer's own.
    """

    architecture: Architecture
    ppo: PPOSettings
    steps: int
    rows: int
    chunk: int
    partners: int


@dataclass(frozen=True)
class Desk:
    """Where one partner leaves what it has come to.

    Attributes:
        figures: Of its part of the minibatch, as `Part.flatten` has them.
        gradient: Of all that learns, as `optimizer.parts` reads it.
    """

    figures: Float[Tensor, " figures"]
    gradient: Float[Tensor, " numbers"]


@dataclass(frozen=True)
class Board:
    """What all processes see.

    Attributes:
        rollout: The trainer writes it, as it writes all but desks.
        targets: Of the epoch.
        values: Of all that learns, as `optimizer.parts` reads them.
        statistics: Of the network and of what predicts, by name.
        weights: Of the minibatch's loss, as `Objective.weights` says.
        order: Numbers of the epoch's segments, minibatch by minibatch.
        desks: Of each partner.
    """

    rollout: Rollout
    targets: Targets
    values: Float[Tensor, " numbers"]
    statistics: dict[str, Tensor]
    weights: Float[Tensor, " heads_and_1"]
    order: Int[Tensor, " segments"]
    desks: tuple[Desk, ...]

    @classmethod
    def create(cls, setup: Setup) -> "tuple[Board, int]":
        """A board of zeros, and the file by which `open` finds it; the memory stays when that is closed.

        Raises:
            OSError: There is no such memory.
        """
        file = shared_memory.create(_places(_shapes(setup))[-1])
        try:
            return cls.open(setup, file), file
        except BaseException:
            os.close(file)
            raise

    @classmethod
    def open(cls, setup: Setup, file: int) -> "Board":
        """The board that another process has created."""
        shapes = _shapes(setup)
        memory = mmap.mmap(file, _places(shapes)[-1])
        tensors = {
            name: _tensor(memory, place, shape)
            for (name, shape), place in zip(shapes.items(), _places(shapes), strict=False)
        }
        return cls(
            Rollout(**{each.name: tensors[f"rollout.{each.name}"] for each in fields(Rollout)}),
            Targets(**{each.name: tensors[f"targets.{each.name}"] for each in fields(Targets)}),
            tensors["values"],
            below(tensors, "statistics."),
            tensors["weights"],
            tensors["order"],
            tuple(Desk(**below(tensors, f"desk{number}.")) for number in range(setup.partners)),
        )


def statistics(network: ActorCritic, auxiliary: NextObservation | None) -> dict[str, Tensor]:
    """All that the way to the loss reads of a learner beside what learns and what its code makes anew, by name."""
    kept = network.state_dict().keys()
    named = {name: buffer for name, buffer in network.named_buffers() if name in kept}
    if auxiliary is not None:
        named |= auxiliary.named_buffers(prefix=AUXILIARY)
    return named


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Those whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _shapes(setup: Setup) -> dict[str, Tensor]:
    """All tensors of a board by name, without their memory."""
    network = make_skeleton(setup.architecture).to("meta")
    with torch.device("meta"):
        auxiliary = NextObservation(network) if setup.ppo.auxiliary_weight else None
        rollout = Rollout.allocate(network, steps=setup.steps, rows=setup.rows, chunk=setup.chunk)
        targets = Targets(rollout.value, rollout.value, rollout.active)
        named = {f"rollout.{name}": tensor for name, tensor in vars(rollout).items()}
        named |= {f"targets.{name}": tensor for name, tensor in vars(targets).items()}
        named |= {f"statistics.{name}": tensor for name, tensor in statistics(network, auxiliary).items()}
        named["weights"] = torch.empty(len(network.layout.heads) + 1)
        named["order"] = torch.empty(setup.steps * setup.rows, dtype=torch.int64)
        named["values"] = torch.empty(length(learned(network, auxiliary)))
        for desk in (f"desk{number}." for number in range(setup.partners)):
            named |= {
                f"{desk}gradient": named["values"],
                f"{desk}figures": torch.empty(Part.size(len(network.layout.heads))),
            }
    return named


def _places(shapes: Mapping[str, Tensor]) -> list[int]:
    """Where each tensor begins, in bytes, and where the last one ends."""
    sizes = (-(-shape.nbytes // ALIGNMENT) * ALIGNMENT for shape in shapes.values())
    return list(itertools.accumulate(sizes, initial=0))


def _tensor(memory: mmap.mmap, place: int, shape: Tensor) -> Tensor:
    if not shape.numel():
        return torch.empty(shape.shape, dtype=shape.dtype)
    return torch.frombuffer(memory, dtype=shape.dtype, count=shape.numel(), offset=place).view(shape.shape)
