"""`trainer bench`: how fast a rollout and its update are, and whether the update sees what the rollout did."""

import statistics
import time
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock, make
from arena.environments.protocol import Actions, Environment, Observation, Outcome, StepResult, check_actions
from arena.policies import NetworkPolicy, Policy, State
from arena.seeding import derive
from trainer.chunks import cut
from trainer.collector import Collector, Episode
from trainer.config import TrainerConfig
from trainer.learner import Learner
from trainer.leases import Assignment
from trainer.losses import probability_ratio
from trainer.opponents import SELF, Opponent

SYNTHETIC = "synthetic"
"""Name of the environment that costs almost nothing to step."""

FRAMES = 997
"""Observations drawn ahead, shown in turn."""


@dataclass(frozen=True)
class Measurement:
    """Median times of one iteration, in seconds, and the steps that it makes."""

    rollout_s: float
    update_s: float
    steps: int

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second, rollout and update together."""
        return self.steps / (self.rollout_s + self.update_s)


class Synthetic:
    """The work item that trainers are compared on: random observations, episodes that end with a fixed probability.

    The away side is a single agent that never acts.
    """

    def __init__(self, *, num_envs: int, seed: int, item: "WorkItem") -> None:
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
        self.device = torch.device("cpu")
        self.seeds: Int[Tensor, " E"] = torch.zeros(num_envs, dtype=torch.int64)
        self.next_seeds: Int[Tensor, " E"] = torch.zeros(num_envs, dtype=torch.int64)
        rng = torch.Generator().manual_seed(seed)
        self._frames = torch.randn(FRAMES, num_envs, 2, item.observation_size, generator=rng)
        self._ends = torch.rand(FRAMES, num_envs, generator=rng) < item.end_chance
        self._active = torch.tensor([True, False]).expand(num_envs, 2)
        self._frame = 0

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start anew; see `Environment.reset`."""
        return self._observe()

    def step(self, actions: Actions) -> StepResult:
        """Play one decision; see `Environment.step`."""
        check_actions(self.spec, self.num_envs, actions)
        self._frame = (self._frame + 1) % FRAMES
        ended, observation = self._ends[self._frame], self._observe()
        return StepResult(
            observation=observation,
            reward=actions["act"].mean(dim=-1),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_observation=observation,
            outcome=Outcome(
                score=torch.full((self.num_envs,), 0.5, dtype=torch.float64),
                reason=torch.zeros_like(self.seeds),
                decisions=torch.ones_like(self.seeds),
            ),
        )

    def _observe(self) -> Observation:
        return Observation(values=self._frames[self._frame], masks={}, active=self._active)


class Nobody:
    """The opponent that costs nothing: it never acts."""

    def __init__(self, action_size: int) -> None:
        self._action_size = action_size

    def initial_state(self, rows: int) -> State:
        """Nothing."""
        return ()

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Zeros."""
        return {"act": torch.zeros(len(observation.values), self._action_size)}, state


@dataclass(frozen=True)
class WorkItem:
    """Sizes of the synthetic environment."""

    observation_size: int = 64
    action_size: int = 9
    end_chance: float = 0.01


class OneOpponent:
    """Deals the same opponent again and again, on alternating sides."""

    def __init__(self, opponent: Opponent, *, sides: int) -> None:
        self._opponent, self._sides, self._dealt = opponent, sides, 0

    def draw(self, row: int) -> Assignment:
        """The next match of an environment."""
        self._dealt += 1
        return Assignment(
            self._opponent, bool(self._dealt % self._sides), derive(0, "bench", self._dealt), None, self._dealt
        )


class Bench:
    """A learner with its environment and rollout memory, outside of any league.

    Args:
        config: Settings; `environment.name` may be `synthetic`.
        item: Sizes of the synthetic environment.
    """

    def __init__(self, config: TrainerConfig, item: WorkItem) -> None:
        played, seed = config.environment, config.run.seed
        synthetic = played.name == SYNTHETIC
        self._env: Environment = (
            Synthetic(num_envs=played.num_envs, seed=seed, item=item)
            if synthetic
            else make(played.name, num_envs=played.num_envs, device=config.run.device, seed=seed)
        )
        spec = self._env.spec
        self._learner = Learner(config, spec)
        policy: Policy = Nobody(item.action_size) if synthetic else self._live(spec)
        dealer = OneOpponent(Opponent(SELF, "opponent", policy), sides=1 if synthetic else 2)
        self._collector = Collector(
            self._env, self._learner.network, dealer, _forget, self._learner.rng, device_cache_bytes=0
        )
        self._rollout = self._learner.allocate()

    def measure(self, iterations: int) -> Measurement:
        """Time rollouts and updates, after one that is not counted."""
        self._iterate()
        times = [self._iterate() for _ in range(iterations)]
        rollout_s, update_s = (statistics.median(each) for each in zip(*times, strict=True))
        return Measurement(rollout_s, update_s, self._rollout.reward.shape[0] * self._env.num_envs)

    @torch.no_grad()
    def ratio_errors(self) -> list[float]:
        """Largest |ratio - 1| of each chunk under the weights that acted; 0 where rollout and update agree."""
        self._collector.collect(self._rollout, _never)
        rollout = self._rollout
        targets, _ = self._learner.targets(rollout)
        segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        batch = self._learner.ppo.evaluate(rollout, targets, segments)
        errors = (probability_ratio(batch.joint_log_ratio) - 1.0).abs()
        steps, rows = rollout.reward.shape
        chunks = len(rollout.hidden)
        chunk = batch.index // rows // (steps // chunks)
        return [float(errors[chunk == number].max()) for number in range(chunks)]

    def _iterate(self) -> tuple[float, float]:
        started = time.perf_counter()
        self._collector.collect(self._rollout, _never)
        collected = time.perf_counter()
        self._learner.learn(self._rollout, _never)
        return collected - started, time.perf_counter() - collected

    def _live(self, spec: EnvironmentSpec) -> NetworkPolicy:
        return NetworkPolicy(self._learner.network, spec.name, spec.signature)


def _forget(episode: Episode) -> None:
    """Finished matches are of no use here."""


def _never() -> bool:
    return False
