"""Engine on a CPU: one thread takes a match through all stages before the next one."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from arena.environments.mech.config.constants import TICKS_PER_DECISION
from arena.environments.mech.engine import arrays as batch
from arena.environments.mech.engine import opening, perceiving, playing
from arena.environments.mech.engine.stepping import Structs, load_kernels
from arena.environments.mech.kernels.state import View
from arena.environments.spec import EnvironmentSpec
from arena.native.warp import recorded

HOST = torch.device("cpu")


class HostStepping:
    """Runs all stages of one match after another and writes into the caller's tensors."""

    def __init__(self, structs: Structs, spec: EnvironmentSpec, num_envs: int) -> None:
        load_kernels("cpu", playing, perceiving, opening)
        self._spec, self._num_envs = spec, num_envs
        self._ended = structs.state["ended"]
        state, hulls, arms, terrain, field = structs.shared
        self._view = batch.Struct(View, batch.allocate_view(spec, num_envs, HOST))
        view = self._view.warp
        self._decision = self._record(
            playing.play_decision,
            state,
            hulls,
            arms,
            terrain,
            field,
            structs.commands.warp,
            structs.report.warp,
            TICKS_PER_DECISION,
        )
        self._opening = self._record(opening.open_matches, state, hulls, terrain, field)
        self._perceive_all = self._record(perceiving.perceive, state, hulls, arms, terrain, field, view, False)
        self._perceive_opened = self._record(perceiving.perceive, state, hulls, arms, terrain, field, view, True)

    def decide(self) -> Mapping[str, Tensor]:
        """See `Stepping.decide`."""
        self._decision.launch()
        return self._write(self._perceive_all, batch.allocate_view(self._spec, self._num_envs, HOST))

    def reopen(self, decided: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """See `Stepping.reopen`; copies nothing if no match has ended."""
        if not bool(self._ended.any()):
            return decided
        self._opening.launch()
        return self._write(self._perceive_opened, batch.copy_view(decided))

    def _record(self, kernel: Any, *inputs: Any) -> Any:  # noqa: ANN401  Warp's types
        """A launch that can be repeated: packing a kernel's arguments costs as much as running it on a small batch."""
        return recorded(kernel, 1, inputs)

    def _write(self, perceive: Any, view: Mapping[str, Tensor]) -> Mapping[str, Tensor]:  # noqa: ANN401  a Warp launch
        self._view.point_at(view)
        perceive.set_param_by_name("view", self._view.warp)
        perceive.launch()
        return view
