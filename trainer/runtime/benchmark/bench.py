"""`trainer bench`: how fast a rollout and its update are, and whether the update sees what the rollout did."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from arena.environments import EnvironmentSpec, declare
from arena.environments.protocol import Environment
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
from trainer.rollout.actor import RolloutActor
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.collector import CollectedMatch, RolloutCollector
from trainer.rollout.make_envs import make_env_batches
from trainer.runtime.benchmark.synthetic_env import SYNTHETIC, IdlePolicy, Synthetic, SyntheticSpec
from trainer.runtime.benchmark.timer import SectionTimer
from trainer.runtime.torch_setup import process_memory


@dataclass(frozen=True)
class Measurement:
    """Median times of one iteration, in seconds, and what it makes.

    Attributes:
        rollout_s: Playing.
        update_s: Learning.
        arena_s: Of the rollout: stepping environments. Several threads' seconds count as their mean.
        acting_s: Of the rollout: the learner's decisions.
        opponents_s: Of the rollout: the opponents' decisions.
        steps: Environment steps.
        agents: Agents of an environment, on both sides.
        decisions: Decisions that are learned from.
        resident_bytes: Most memory that the process has had.
    """

    rollout_s: float
    update_s: float
    arena_s: float
    acting_s: float
    opponents_s: float
    steps: int
    agents: int
    decisions: int
    resident_bytes: int

    @property
    def steps_per_s(self) -> float:
        """Environment steps per second, rollout and update together."""
        return self.steps / (self.rollout_s + self.update_s)

    @property
    def agent_steps_per_s(self) -> float:
        """Steps of all agents per second, as `arena bench` counts them."""
        return self.agents * self.steps_per_s

    @property
    def decisions_per_s(self) -> float:
        """Decisions that are learned from, per second."""
        return self.decisions / (self.rollout_s + self.update_s)


class CyclicMatchSource:
    """Deals opponents in turn, on alternating sides or all at home."""

    def __init__(self, opponents: Sequence[Opponent], *, sides: int) -> None:
        self._opponents, self._sides, self._dealt = opponents, sides, 0

    def next_match(self, row: int) -> MatchAssignment:
        """The next match of an environment."""
        self._dealt += 1
        opponent = self._opponents[self._dealt % len(self._opponents)]
        away, seed = bool(self._dealt % self._sides), derive(0, "bench", self._dealt)
        return MatchAssignment(opponent, away, seed, None, self._dealt, self_play_match=False)


class Bench:
    """A learner with its environments and rollout memory, outside of any league.

    Args:
        config: Settings; `environment.name` may be `synthetic`, whose away side never acts: there is no self-play.
        item: Sizes of the synthetic environment.
        opponents: How many frozen policies of the learner's architecture are dealt in turn, each with weights of its
            own; 0 for the learner's live weights.

    Attributes:
        learner: Learns.
        collector: Plays.
        rollout: What was played last.
    """

    def __init__(self, config: TrainerConfig, item: SyntheticSpec, *, opponents: int = 0) -> None:
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
            _forget,
            self.learner.rng,
            self_play=played.self_play_rows,
            device_cache_bytes=config.league.device_cache_bytes,
        )
        self.rollout = self.learner.allocate()

    @property
    def self_play_envs(self) -> int:
        """Environments in which the learner plays itself."""
        return len(self._config.environment.self_play_rows)

    def collect(self) -> None:
        """Play one rollout."""
        self.collector.collect(self.rollout, _never)

    def learn(self) -> None:
        """Learn from it."""
        self.learner.learn(self.rollout, _never)

    def watch(self) -> SectionTimer:
        """Time all that follows, as `rollout` and `update`, and of the rollout `arena`, `acting` and `opponents`."""
        ledger = SectionTimer(_settling(self._config))
        ledger.watch(self, "collect", "rollout")
        ledger.watch(self, "learn", "update")
        for worker in self.collector.workers:
            ledger.watch(worker.environment, "step", "arena")
            ledger.watch(worker.opponents, "act", "opponents")
            for method in ("refresh_weights", "begin_chunk", "act", "act_native", "finish_chunk", "predict_values"):
                ledger.watch(worker.actor, method, "acting")
        return ledger

    def measure(self, iterations: int) -> Measurement:
        """Time rollouts and updates, and who spends them, after one that is not counted."""
        ledger = self.watch()
        times = [self._iterate(ledger) for _ in range(1 + iterations)][1:]
        median = {name: statistics.median(each[name] for each in times) for name in times[0]}
        steps = self.rollout.reward.shape[0] * self._config.environment.num_envs
        workers = len(self.collector.workers)
        return Measurement(
            rollout_s=median["rollout"],
            update_s=median["update"],
            arena_s=median["arena"] / workers,
            acting_s=median["acting"] / workers,
            opponents_s=median["opponents"] / workers,
            steps=steps,
            agents=self._agents,
            decisions=int(self.rollout.active.sum()),
            resident_bytes=process_memory(os.getpid()).peak_bytes,
        )

    @torch.no_grad()
    def ratio_errors(self) -> list[float]:
        """Largest |ratio - 1| of each chunk under the weights that acted; 0 where both agree or no decision counts."""
        if not isinstance(self.learner, Learner):
            raise ConfigError(
                f"algorithm.name is {self._config.algorithm.name!r}, which does not derive from trainer.ppo.learner: "
                "its ratios cannot be compared; omit --consistency"
            )
        self.collect()
        rollout = self.rollout
        targets, _ = self.learner.targets(rollout)
        segments = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        batch = self.learner.ppo.evaluate(rollout, targets, segments)
        errors = (probability_ratio(batch.joint_log_ratio) - 1.0).abs()
        steps, rows = rollout.reward.shape
        chunks = len(rollout.hidden)
        chunk = batch.index // rows // (steps // chunks)
        largest: list[float] = errors.new_zeros(chunks).scatter_reduce(0, chunk, errors, "amax").tolist()
        return largest

    def _iterate(self, ledger: SectionTimer) -> dict[str, float]:
        self.collect()
        self.learn()
        return ledger.close()

    def _players(self, spec: EnvironmentSpec, count: int) -> list[Opponent]:
        device, seed = self.learner.network.observation_mean.device, self._config.run.seed
        frozen = [build_network(self._config.network, spec, derive(seed, "opponent", each)) for each in range(count)]
        networks = {f"opponent {each}": network.to(device).eval() for each, network in enumerate(frozen)}
        named = networks or {SELF: self.learner.network}
        return [
            Opponent(name, name, NetworkPolicy(network, spec.name, spec.signature)) for name, network in named.items()
        ]


def acting_steps_per_s(config: TrainerConfig, item: SyntheticSpec, rows: int, repeats: int) -> float:
    """Decisions a second of the learner on so many rows of what its environment shows, and nothing else.

    A decision is the network's step, the sample, its log-probability, and storing all of it with the observation.
    """
    name = config.environment.name
    spec = Synthetic(num_envs=1, seed=0, item=item).spec if name == SYNTHETIC else declare(name)
    learner = make_algorithm(config, spec)
    network, rng, shape = learner.network, learner.rng, config.rollout
    rollout = RolloutBuffer.allocate(network, steps=shape.num_steps, rows=rows, bptt_horizon=shape.bptt_horizon)
    rollout.active.fill_(True)
    rollout.mask.fill_(True)
    frames = torch.randn(shape.num_steps, rows, spec.observation_size, generator=rng, device=rng.device)
    ended = torch.rand(shape.num_steps, rows, generator=rng, device=rng.device) < item.end_chance
    acting, settle, times = RolloutActor(network, rows), _settling(config), []
    for _ in range(1 + repeats):
        settle()
        started = time.perf_counter()
        _act(acting, rollout, frames, ended, rng)
        settle()
        times.append(time.perf_counter() - started)
    return rows * config.rollout.num_steps / statistics.median(times[1:])


@torch.inference_mode()
def _act(acting: RolloutActor, rollout: RolloutBuffer, frames: Tensor, ended: Tensor, rng: torch.Generator) -> None:
    for t in range(len(rollout.reward)):
        chunk, place = divmod(t, rollout.bptt_horizon)
        if place == 0:
            acting.begin_chunk(rollout, chunk, rng)
        rollout.observation[t] = frames[t]
        rollout.episode_start[t] = ended[t]
        acting.act(rollout, t)
        if place == rollout.bptt_horizon - 1:
            acting.finish_chunk(rollout, chunk)


def _forget(episode: CollectedMatch) -> None:
    """Finished matches are of no use here."""


def _never() -> bool:
    return False


def _settling(config: TrainerConfig) -> Callable[[], None]:
    """What waits until the device has done what it was asked to; a CPU always has."""
    device = torch.device(config.run.device)
    # without a device, that of the process is waited for, which is cuda:0 unless `configure_torch` chose another
    return partial(torch.cuda.synchronize, device) if device.type == "cuda" else _nothing


def _nothing() -> None:
    """There is nothing to wait for."""
