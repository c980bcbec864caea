"""Speed of rollout and update, and whether the update reproduces the rollout's probabilities."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from arena.environments import EnvironmentSpec
from arena.environments.base import Environment
from arena.policies import NetworkPolicy
from arena.seeding import derive
from trainer.algorithms import make_algorithm
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner, build_network
from trainer.ppo.loss import probability_ratio
from trainer.ppo.sequences import split_into_sequences
from trainer.rollout.collector import RolloutCollector
from trainer.rollout.make_envs import make_env_batches
from trainer.runtime.benchmark.synthetic_env import DEFAULT_SIZES, SYNTHETIC, IdlePolicy, Synthetic, SyntheticSpec
from trainer.runtime.torch_setup import peak_device_bytes, process_memory


@dataclass(frozen=True)
class Measurement:
    """Median times of one iteration in seconds, and the throughput of rollout and update together.

    Attributes:
        rollout_s: Rollout.
        arena_s: Part of the rollout: stepping environments. Seconds of several threads are averaged.
        acting_s: Part of the rollout: the learner's decisions.
        opponents_s: Part of the rollout: the opponents' decisions.
        update_s: Update.
        env_steps_per_s: Environment steps per second.
        agent_steps_per_s: Steps of all agents of both sides per second, as in `arena bench`.
        decisions_per_s: Decisions that the learner learns from, per second.
        resident_bytes: Peak memory of the process.
        device_bytes: Peak memory of its tensors on the GPU; None on a CPU.
    """

    rollout_s: float
    arena_s: float
    acting_s: float
    opponents_s: float
    update_s: float
    env_steps_per_s: float
    agent_steps_per_s: float
    decisions_per_s: float
    resident_bytes: int
    device_bytes: int | None


class SectionTimer:
    """Times calls of methods, in seconds by name.

    Args:
        settle: Waits for the device; called before and after every timed call.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        self._seconds: dict[str, list[float]] = {}

    def watch(self, holder: object, method: str, name: str) -> None:
        """Time every call of an object's method from now on."""
        plain, spent = getattr(holder, method), self._seconds.setdefault(name, [])

        def timed(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401  arguments of any method
            self._settle()
            started = time.perf_counter()
            try:
                return plain(*arguments, **named)
            finally:
                self._settle()
                spent.append(time.perf_counter() - started)

        setattr(holder, method, timed)

    def close(self) -> dict[str, float]:
        """Return the seconds since the last call, summed over threads."""
        seconds = {name: sum(spent) for name, spent in self._seconds.items()}
        for spent in self._seconds.values():
            spent.clear()
        return seconds


class CyclicMatchSource:
    """Assigns opponents in turn; the learner alternates sides or always plays at home."""

    def __init__(self, opponents: Sequence[Opponent], *, sides: int) -> None:
        self._opponents, self._sides, self._assigned = opponents, sides, 0

    def next_match(self, row: int) -> MatchAssignment:
        """The next match of an environment."""
        self._assigned += 1
        opponent = self._opponents[self._assigned % len(self._opponents)]
        away, seed = bool(self._assigned % self._sides), derive(0, "bench", self._assigned)
        return MatchAssignment(opponent, away, seed, None, self._assigned, self_play_match=False)


class Bench:
    """Benchmark harness: a learner with its environments and rollout buffer, without a league.

    Args:
        config: Settings. In the environment `synthetic` the away side never acts, so there is no self-play.
        item: Sizes of the synthetic environment.
        opponents: Number of frozen opponents with the learner's architecture and random weights; 0 for the learner's
            live weights.

    Attributes:
        learner: Network, optimiser and their update.
        collector: Plays the environments.
        rollout: The last rollout.
    """

    def __init__(self, config: TrainerConfig, item: SyntheticSpec = DEFAULT_SIZES, *, opponents: int = 0) -> None:
        synthetic = config.environment.name == SYNTHETIC
        if synthetic:
            config = config.model_copy(update={"environment": config.environment.model_copy(update={"self_play": 0.0})})
        played = config.environment
        environments: list[Environment] = (
            [Synthetic(num_envs=played.num_envs, seed=config.run.seed, item=item, device=config.run.device)]
            if synthetic
            else make_env_batches(played, config.run)
        )
        spec = environments[0].spec
        self._config, self._agents = config, spec.num_agents
        self.learner = make_algorithm(config, spec)
        players = (
            [Opponent(SELF, "opponent", IdlePolicy(item.action_size))] if synthetic else self._players(spec, opponents)
        )
        self.collector = RolloutCollector(
            environments,
            self.learner.network,
            CyclicMatchSource(players, sides=1 if synthetic else 2),
            lambda match: None,
            self.learner.rng,
            self_play=played.self_play_rows,
            device_cache_bytes=config.league.device_cache_bytes,
            compile_backend=config.ppo.compile.for_device(config.run.device),
        )
        self.rollout = self.learner.allocate()

    @property
    def self_play_envs(self) -> int:
        """Environments in which the learner plays itself."""
        return len(self._config.environment.self_play_rows)

    def collect(self) -> None:
        """Collect one rollout."""
        self.collector.collect(self.rollout, lambda: False)

    def learn(self) -> None:
        """Update from the last rollout."""
        self.learner.learn(self.rollout, lambda: False)

    def watch(self) -> SectionTimer:
        """Time later calls: `rollout`, its parts `arena`, `acting` and `opponents`, and `update`."""
        timer = SectionTimer(_settling(self._config))
        timer.watch(self, "collect", "rollout")
        timer.watch(self, "learn", "update")
        for worker in self.collector.workers:
            timer.watch(worker.environment, "step", "arena")
            timer.watch(worker.opponents, "act", "opponents")
            for method in ("refresh_weights", "begin_chunk", "act", "act_native", "finish_chunk", "predict_values"):
                timer.watch(worker.actor, method, "acting")
        return timer

    def measure(self, iterations: int) -> Measurement:
        """Time rollouts and updates, after a first one that does not count."""
        timer = self.watch()
        times = []
        # The first iteration compiles kernels and allocates memory.
        for _ in range(1 + iterations):
            self.collect()
            self.learn()
            times.append(timer.close())
        # A median, because other programs of the machine slow single iterations.
        seconds = {name: statistics.median(each[name] for each in times[1:]) for name in times[0]}
        workers = len(self.collector.workers)
        env_steps = self.rollout.reward.shape[0] * self._config.environment.num_envs
        whole_s = seconds["rollout"] + seconds["update"]
        return Measurement(
            rollout_s=seconds["rollout"],
            # Workers run in parallel, and their threads' times were summed.
            arena_s=seconds["arena"] / workers,
            acting_s=seconds["acting"] / workers,
            opponents_s=seconds["opponents"] / workers,
            update_s=seconds["update"],
            env_steps_per_s=env_steps / whole_s,
            agent_steps_per_s=self._agents * env_steps / whole_s,
            decisions_per_s=int(self.rollout.active.sum()) / whole_s,
            resident_bytes=process_memory(os.getpid()).peak_bytes,
            device_bytes=peak_device_bytes(torch.device(self._config.run.device)),
        )

    @torch.no_grad()
    def ratio_errors(self) -> list[float]:
        """Largest |ratio - 1| of each chunk under the weights that acted; 0 without decisions."""
        if not isinstance(self.learner, Learner):
            raise ConfigError(
                f"algorithm.name is {self._config.algorithm.name!r}, which does not derive from trainer.ppo.learner: "
                "its ratios cannot be compared; omit --consistency"
            )
        self.collect()
        rollout = self.rollout
        targets, _ = self.learner.targets(rollout)
        sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        batch = self.learner.ppo.evaluate(rollout, targets, sequences)
        errors = (probability_ratio(batch.joint_log_ratio) - 1.0).abs()
        steps, rows = rollout.reward.shape
        chunks = len(rollout.hidden)
        chunk = batch.index // rows // (steps // chunks)
        largest: list[float] = errors.new_zeros(chunks).scatter_reduce(0, chunk, errors, "amax").tolist()
        return largest

    def _players(self, spec: EnvironmentSpec, count: int) -> list[Opponent]:
        device, seed = self.learner.network.observation_mean.device, self._config.run.seed
        frozen = [build_network(self._config.network, spec, derive(seed, "opponent", each)) for each in range(count)]
        networks = {f"opponent {each}": network.to(device).eval() for each, network in enumerate(frozen)}
        named = networks or {SELF: self.learner.network}
        return [
            Opponent(name, name, NetworkPolicy(network, spec.name, spec.signature)) for name, network in named.items()
        ]


def _settling(config: TrainerConfig) -> Callable[[], None]:
    """Return a call that waits until the device is idle; no effect on a CPU."""
    device = torch.device(config.run.device)
    # without an argument, torch waits for the process's device: cuda:0 unless `configure_torch` chose another one
    return partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
