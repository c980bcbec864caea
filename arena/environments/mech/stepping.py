"""Running the kernels: on a CPU match by match, on a GPU as captured graphs of stages."""

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from arena.environments.mech import batch
from arena.environments.mech.kernels import opening, perceiving, playing, wp
from arena.environments.mech.kernels.state import View
from arena.environments.mech.rules import TICKS_PER_DECISION
from arena.environments.spec import EnvironmentSpec
from arena.native import recorded

logger = logging.getLogger(__name__)

HOST = torch.device("cpu")


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
        """What nearly every stage takes, as Warp's structs: state, hulls, arms, terrain, field."""
        return tuple(each.warp for each in (self.state, self.hulls, self.arms, self.terrain, self.field))


@runtime_checkable
class Stepping(Protocol):
    """Takes a batch of matches from one decision to the next. Views that it returns are never written to again."""

    def decide(self) -> Mapping[str, Tensor]:
        """Play the decision that the commands hold, and return what everybody perceives after it."""
        ...

    def reopen(self, decided: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Open the next match in rows that have ended, and return what everybody perceives then."""
        ...


class HostStepping:
    """One thread takes match after match through all stages and writes into the tensors that the caller gets."""

    def __init__(self, structs: Structs, spec: EnvironmentSpec, num_envs: int) -> None:
        load_kernels("cpu", playing, perceiving, opening)
        self._spec, self._num_envs = spec, num_envs
        self._ended = structs.state["ended"]
        s, h, a, t, f = structs.shared
        self._view = batch.Struct(View, batch.allocate_view(spec, num_envs, HOST))
        view = self._view.warp
        self._decision = self._record(
            playing.play_decision, s, h, a, t, f, structs.commands.warp, structs.report.warp, TICKS_PER_DECISION
        )
        self._opening = self._record(opening.open_matches, s, h, t, f)
        self._perceive_all = self._record(perceiving.perceive, s, h, a, t, f, view, False)
        self._perceive_opened = self._record(perceiving.perceive, s, h, a, t, f, view, True)

    def decide(self) -> Mapping[str, Tensor]:
        """See `Stepping.decide`."""
        self._decision.launch()
        return self._write(self._perceive_all, batch.allocate_view(self._spec, self._num_envs, HOST))

    def reopen(self, decided: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """See `Stepping.reopen`; where no match has ended nothing is copied."""
        if not bool(self._ended.any()):
            return decided
        self._opening.launch()
        return self._write(self._perceive_opened, batch.copy_view(decided))

    def _record(self, kernel: Any, *inputs: Any) -> Any:  # noqa: ANN401  Warp's types
        """A launch that can be repeated: packing a kernel's arguments costs as much as running it on a small batch."""
        return recorded(kernel, 1, inputs)

    def _write(self, perceive: Any, view: Mapping[str, Tensor]) -> Mapping[str, Tensor]:  # noqa: ANN401  a Warp launch
        self._view.point_at(view)
        perceive.set_param_by_name("v", self._view.warp)
        perceive.launch()
        return view


def make_stepping(structs: Structs, spec: EnvironmentSpec, num_envs: int, device: torch.device) -> Stepping:
    """How a batch on that device is stepped."""
    if device.type == "cuda":
        # Imported here: what only a GPU runs need not be compiled for a CPU.
        from arena.environments.mech.device_stepping import DeviceStepping

        return DeviceStepping(structs, spec, num_envs, device)
    return HostStepping(structs, spec, num_envs)


@functools.cache
def load_kernels(device: str, *modules: ModuleType) -> None:
    """Compile kernels once a process, or take them from Warp's cache, and say so: compiling takes seconds."""
    logger.info("loading the mech kernels for %s (compiled on the first run)", device)
    wp.force_load(device, [wp.get_module(module.__name__) for module in modules], max_workers=len(modules))
