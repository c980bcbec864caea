"""The mech arena as an environment: E matches stepped together by Warp kernels."""

import functools
import logging
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from arena.environments.episodes import SeededRows
from arena.environments.mech import batch
from arena.environments.mech.kernels import movement, objective, perception, spawning, weapons, wp
from arena.environments.mech.rules import PRESETS, TICKS_PER_DECISION, MechConfig, RewardWeights, make_spec
from arena.environments.protocol import Actions, Observation, Outcome, StepResult

logger = logging.getLogger(__name__)


class MechEnvironment(SeededRows):
    """E matches of one composition.

    Attributes:
        config: The composition.
        weights: Weight of every reward component.
        arrays: The live arrays of the state, (E, ...), by their names in `kernels.state.State`; whoever writes to
            them changes the matches.
    """

    def __init__(self, config: MechConfig, weights: RewardWeights, *, num_envs: int, device: str, seed: int) -> None:
        super().__init__(make_spec(config), num_envs=num_envs, device=device, seed=seed)
        self.config, self.weights = config, weights
        agents, where = self.spec.num_agents, self.device
        shared = {
            "seeds": self.seeds,
            "next_seeds": self.next_seeds,
            "row_seeds": self._row_seeds,
            "episodes": self._episodes,
        }
        self._state = batch.allocate_state(shared, num_envs, agents, where)
        self.arrays = self._state.tensors
        self._hulls = batch.describe_hulls(config, where)
        self._field = batch.describe_field(config, weights, where)
        self._commands = batch.allocate_commands(num_envs, agents, where)
        self._report = batch.allocate_report(num_envs, agents, where)
        self._view = batch.allocate_view(self.spec, num_envs, where)
        _load_kernels(str(where))
        self._decide = self._record_decision()
        self._reopen = self._record_reopening()

    @property
    def components(self) -> Float[Tensor, "E N C"]:
        """Weighted reward components of the last decision, in the order of COMPONENTS; they add up to the reward."""
        return self._report["components"].clone()

    @property
    def nan_actions(self) -> Int[Tensor, "E N"]:
        """NaN action floats met so far; each counted as 0."""
        return self.arrays["nan_actions"].clone()

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row; see `Environment.reset`."""
        self._take_seeds(seeds)
        self.arrays["ended"].fill_(True)
        self._run(self._reopen)
        return self._observation()

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every mech; see `Environment.step`."""
        self._require_fit(actions)
        self._commands["move"].copy_(actions["move"])
        self._commands["trigger"].copy_(actions["trigger"])
        self._run(self._decide)
        final = self._observation()
        self._run(self._reopen)
        return StepResult(
            observation=self._observation(),
            reward=self._report["reward"].clone(),
            terminated=self._report["terminated"].clone(),
            truncated=self._report["truncated"].clone(),
            final_observation=final,
            outcome=Outcome(
                score=self._report["score"].clone(),
                reason=self._report["reason"].clone(),
                decisions=self._report["decisions"].clone(),
            ),
        )

    def _observation(self) -> Observation:
        return Observation(
            values=self._view["values"].clone(),
            masks={"move": self._view["move"].clone(), "trigger": self._view["trigger"].clone()},
            active=self._view["active"].clone(),
        )

    def _record_decision(self) -> list[Any]:
        state, hulls, field = self._state.warp, self._hulls.warp, self._field.warp
        tick = [
            self._record(movement.integrate, state, hulls, field),
            self._record(movement.collide, state, hulls),
            self._record(weapons.sense, state, hulls),
            self._record(weapons.fire, state, hulls),
            self._record(weapons.resolve, state),
        ]
        return [
            self._record(movement.admit, state, hulls, self._commands.warp),
            *tick * TICKS_PER_DECISION,
            self._record(objective.score, state, hulls, field, self._report.warp, per_match=True),
            self._record(objective.reward, state, hulls, field, self._report.warp),
            self._record(perception.observe, state, hulls, field, self._view.warp, False),
        ]

    def _record_reopening(self) -> list[Any]:
        state, hulls, field = self._state.warp, self._hulls.warp, self._field.warp
        return [
            self._record(spawning.reopen, state, per_match=True),
            self._record(spawning.spawn, state, hulls, field),
            self._record(perception.observe, state, hulls, field, self._view.warp, True),
        ]

    def _record(self, kernel: Any, *inputs: Any, per_match: bool = False) -> Any:  # noqa: ANN401  Warp's types
        """A launch that can be repeated: packing a kernel's arguments costs as much as running it on a small batch."""
        dim = self.num_envs if per_match else (self.num_envs, self.spec.num_agents)
        return wp.launch(kernel, dim=dim, inputs=inputs, device=str(self.device), record_cmd=True)

    def _run(self, launches: Sequence[Any]) -> None:
        stream = _torch_stream(self.device)
        for launch in launches:
            launch.launch(stream=stream)


def make_mech(name: str, *, num_envs: int, device: str, seed: int) -> MechEnvironment:
    """Make matches of the preset `name`."""
    return MechEnvironment(PRESETS[name], RewardWeights(), num_envs=num_envs, device=device, seed=seed)


@functools.cache
def _load_kernels(device: str) -> None:
    """Compile the kernels once a process, or take them from Warp's cache, and say so: compiling takes seconds."""
    logger.info("loading the mech kernels for %s (compiled on the first run)", device)
    wp.load_module("arena.environments.mech.kernels", device=device, recursive=True, max_workers=2)


def _torch_stream(device: torch.device) -> Any:  # noqa: ANN401  a Warp stream
    """Torch's current stream on a GPU, so that kernels and tensor operations keep their order."""
    return wp.stream_from_torch(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
