"""Synthetic environment that costs almost nothing to step, for comparing trainers."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock
from arena.environments.base import Actions, Observation, Outcome, StepResult, check_actions
from arena.policies import State

SYNTHETIC = "synthetic"
"""Name of the synthetic environment."""

FRAMES = 997
"""Precomputed observations, returned in turn."""


@dataclass(frozen=True)
class SyntheticSpec:
    """Sizes of the synthetic environment."""

    observation_size: int = 64
    action_size: int = 9
    end_chance: float = 0.01


DEFAULT_SIZES = SyntheticSpec()


class Synthetic:
    """Random observations, and episodes that end with a fixed probability; identical on every device.

    The away side is a single agent that never acts.
    """

    def __init__(self, *, num_envs: int, seed: int, item: SyntheticSpec, device: str = "cpu") -> None:
        self.spec = EnvironmentSpec(
            name=SYNTHETIC,
            agents_per_side=(1, 1),
            roles=("player", "player"),
            observation=(ObservationBlock("noise", (item.observation_size,), -5.0, 5.0),),
            heads=(ActionHead("act", HeadKind.GAUSSIAN, item.action_size, masked=False),),
            max_decisions=2**31,
            turn_based=False,
            reproducible=False,
            limit_decides=False,
            reasons=("chance",),
            rules={"end_chance": item.end_chance},
        )
        self.num_envs = num_envs
        self.device = torch.device(device)
        self.seeds: Int[Tensor, " E"] = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.next_seeds: Int[Tensor, " E"] = torch.zeros(num_envs, dtype=torch.int64, device=device)
        rng = torch.Generator().manual_seed(seed)
        self._frames = torch.randn(FRAMES, num_envs, 2, item.observation_size, generator=rng).to(device)
        self._ends = (torch.rand(FRAMES, num_envs, generator=rng) < item.end_chance).to(device)
        self._active = torch.tensor([True, False], device=device).expand(num_envs, 2)
        self._frame = 0
        self._mean = torch.full((item.action_size,), 1.0 / item.action_size, device=device)
        nothing, score = torch.zeros_like(self.seeds), torch.full((num_envs,), 0.5, dtype=torch.float64, device=device)
        self._never = torch.zeros_like(nothing, dtype=torch.bool)
        self._outcome = Outcome(score=score, reason=nothing, decisions=torch.ones_like(nothing))

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Reset; see `Environment.reset`."""
        return self._observe()

    def step(self, actions: Actions) -> StepResult:
        """Step; see `Environment.step`."""
        check_actions(self.spec, self.num_envs, actions)
        self._frame = (self._frame + 1) % FRAMES
        ended, observation = self._ends[self._frame], self._observe()
        return StepResult(
            observation=observation,
            reward=actions["act"] @ self._mean,
            terminated=ended,
            truncated=self._never,
            final_observation=observation,
            outcome=self._outcome,
        )

    def _observe(self) -> Observation:
        return Observation(values=self._frames[self._frame], masks={}, active=self._active)


class IdlePolicy:
    """An opponent that never acts, and costs nothing."""

    def __init__(self, action_size: int) -> None:
        self._nothing = torch.zeros(0, action_size)

    def initial_state(self, rows: int) -> State:
        """Return an empty state."""
        return ()

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Return zeros."""
        rows, device = len(observation.values), observation.values.device
        if len(self._nothing) != rows or self._nothing.device != device:
            self._nothing = torch.zeros(rows, self._nothing.shape[1], device=device)
        return {"act": self._nothing}, state
