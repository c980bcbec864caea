"""Interface of the engines that step a batch of mech matches, and the arrays that they share."""

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from arena.environments.mech.engine import arrays as batch
from arena.environments.mech.kernels import wp

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Structs:
    """Everything that kernels read and write, but for the view."""

    state: batch.Struct
    hulls: batch.Struct
    arms: batch.Struct
    terrain: batch.Struct
    field: batch.Struct
    commands: batch.Struct
    report: batch.Struct

    @property
    def shared(self) -> tuple[Any, ...]:
        """Arguments of nearly every stage, as Warp structs: state, hulls, arms, terrain, field."""
        return tuple(each.warp for each in (self.state, self.hulls, self.arms, self.terrain, self.field))


@runtime_checkable
class Engine(Protocol):
    """Steps a batch of matches by one decision. It never writes again to a view that it has returned."""

    def decide(self) -> Mapping[str, Tensor]:
        """Play the decision in the command arrays, and return the next observation of all mechs."""
        ...

    def reopen(self, decided: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Start the next match in rows that have ended, and return the observation of all mechs."""
        ...


@functools.cache
def load_kernels(device: str, *modules: ModuleType) -> None:
    """Load the kernels from Warp's cache or compile them, once per process; logs that this takes seconds."""
    logger.info("loading the mech kernels for %s (compiled on the first run)", device)
    wp.force_load(device, [wp.get_module(module.__name__) for module in modules], max_workers=len(modules))
