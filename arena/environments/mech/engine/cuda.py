"""Running the kernels on a GPU: a thread for every mech and stage, all launches of half a step in one graph."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from arena.environments.mech.config.constants import TICKS_PER_DECISION
from arena.environments.mech.engine import arrays as batch
from arena.environments.mech.engine import cuda_kernels as staging
from arena.environments.mech.engine.stepping import Structs, load_kernels
from arena.environments.mech.kernels import wp
from arena.environments.mech.kernels.state import View
from arena.environments.spec import EnvironmentSpec


class CudaEngine:
    """Engine on a GPU, see `stepping.Engine`. CUDA graphs write to fixed buffers, so callers get copies."""

    def __init__(self, structs: Structs, spec: EnvironmentSpec, num_envs: int, device: torch.device) -> None:
        load_kernels(str(device), staging)
        self._device = str(device)
        self._match, self._mech = num_envs, (num_envs, spec.num_agents)
        self._view = batch.Struct(View, batch.allocate_view(spec, num_envs, device))
        self._decision = self._capture(structs, self._launch_decision)
        self._opening = self._capture(structs, self._launch_opening)

    def decide(self) -> Mapping[str, Tensor]:
        """See `Stepping.decide`."""
        return self._replay(self._decision)

    def reopen(self, decided: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """See `Stepping.reopen`."""
        return self._replay(self._opening)

    def _replay(self, graph: Any) -> Mapping[str, Tensor]:  # noqa: ANN401  a Warp graph
        wp.capture_launch(graph, stream=wp.stream_from_torch(self._device))  # type: ignore[no-untyped-call]
        return batch.copy_view(self._view.tensors)

    def _capture(self, structs: Structs, launch: Callable[[Structs], None]) -> Any:  # noqa: ANN401  a Warp graph
        with wp.ScopedCapture(device=self._device) as capture:
            launch(structs)
        return capture.graph

    def _launch(self, kernel: Any, dim: Any, *inputs: Any) -> None:  # noqa: ANN401  Warp's types
        wp.launch(kernel, dim=dim, inputs=inputs, device=self._device)

    def _launch_decision(self, structs: Structs) -> None:
        state, hulls, arms, terrain, field = structs.shared
        commands, report = structs.commands.warp, structs.report.warp
        self._launch(staging.admit, self._mech, state, hulls, field, commands)
        # A thread for each match: clouds take slots of their side in the order of mechs.
        self._launch(staging.smoke, self._match, state, hulls, terrain, commands)
        for tick_offset in range(TICKS_PER_DECISION):
            self._launch(staging.integrate, self._mech, state, hulls, terrain, field, commands)
            self._launch(staging.collide, self._mech, state, hulls, terrain)
            self._launch(staging.sense, self._mech, state, hulls, arms, commands, tick_offset)
            self._launch(staging.fire, self._mech, state, hulls, arms, terrain, field, tick_offset)
            self._launch(staging.resolve, self._mech, state, hulls, arms, tick_offset)
        # Whole matches, not mechs: the score needs all mechs of both sides.
        self._launch(staging.score, self._match, state, hulls, terrain, field, report)
        self._launch(staging.earn, self._mech, state, hulls, terrain, field, report)
        self._launch(staging.share, self._mech, state, hulls, field, report)
        self._perceive(structs, only_ended=False)

    def _launch_opening(self, structs: Structs) -> None:
        state, hulls, _, terrain, field = structs.shared
        self._launch(staging.reopen, self._match, state, terrain)
        self._launch(staging.spawn, self._mech, state, hulls, terrain, field)
        self._perceive(structs, only_ended=True)

    def _perceive(self, structs: Structs, *, only_ended: bool) -> None:
        state, hulls, arms, terrain, field = structs.shared
        self._launch(staging.look, self._mech, state, hulls, terrain, field, only_ended)
        self._launch(staging.listen, self._mech, state, hulls, field, only_ended)
        self._launch(staging.observe, self._mech, state, hulls, arms, terrain, field, self._view.warp, only_ended)
