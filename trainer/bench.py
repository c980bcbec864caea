"""`trainer bench`: how fast a rollout and its update are, and whether the update sees what the rollout did."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.environments import EnvironmentSpec, declare
from arena.environments.protocol import Environment
from arena.policies import NetworkPolicy
from arena.seeding import derive
from trainer.acting import Acting
from trainer.batches import open_batches
from trainer.chunks import cut
from trainer.collector import Collector, Episode
from trainer.learner import Learner, build_network
from trainer.leases import Assignment
from trainer.ledger import Ledger
from trainer.losses import probability_ratio
from trainer.machine import residence
from trainer.opponents import SELF, Opponent
from trainer.rollout import Rollout
from trainer.settings import TrainerConfig
from trainer.synthetic import SYNTHETIC, Nobody, Synthetic, WorkItem


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
        resident_bytes: Most memory that the processes have had; the rollout that they share counts once.
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


class Dealer:
    """Deals opponents in turn, on alternating sides or all at home."""

    def __init__(self, opponents: Sequence[Opponent], *, sides: int) -> None:
        self._opponents, self._sides, self._dealt = opponents, sides, 0

    def draw(self, row: int) -> Assignment:
        """The next match of an environment."""
        self._dealt += 1
        opponent = self._opponents[self._dealt % len(self._opponents)]
        away, seed = bool(self._dealt % self._sides), derive(0, "bench", self._dealt)
        return Assignment(opponent, away, seed, None, self._dealt, both_sides=False)


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

    def __init__(self, config: TrainerConfig, item: WorkItem, *, opponents: int = 0) -> None:
        synthetic = config.environment.name == SYNTHETIC
        if synthetic:
            config = config.model_copy(update={"environment": config.environment.model_copy(update={"self_play": 0.0})})
        played = config.environment
        environments: list[Environment] = (
            [Synthetic(num_envs=played.num_envs, seed=config.run.seed, item=item, device=config.run.device)]
            if synthetic
            else open_batches(played, config.run)
        )
        spec = environments[0].spec
        self._config, self._agents = config, spec.num_agents
        self.learner = Learner(config, spec)
        players = (
            [Opponent(SELF, "opponent", Nobody(item.action_size))] if synthetic else self._players(spec, opponents)
        )
        self.collector = Collector(
            environments,
            self.learner.network,
            Dealer(players, sides=1 if synthetic else 2),
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

    @property
    def peak_bytes(self) -> int:
        """Most memory that this process and those beside it have had resident."""
        return residence(os.getpid()).peak_bytes + self.learner.ppo.partners.peak_bytes

    def collect(self) -> None:
        """Play one rollout."""
        self.collector.collect(self.rollout, _never)

    def learn(self) -> None:
        """Learn from it."""
        self.learner.learn(self.rollout, _never)

    def watch(self) -> Ledger:
        """Time all that follows, as `rollout` and `update`, and of the rollout `arena`, `acting` and `opponents`."""
        ledger = Ledger(_settling(self._config))
        ledger.watch(self, "collect", "rollout")
        ledger.watch(self, "learn", "update")
        for crew in self.collector.crews:
            ledger.watch(crew.environment, "step", "arena")
            ledger.watch(crew.opponents, "act", "opponents")
            for method in ("refresh", "open_chunk", "act", "decide", "close_chunk", "values"):
                ledger.watch(crew.acting, method, "acting")
        return ledger

    def measure(self, iterations: int) -> Measurement:
        """Time rollouts and updates, and who spends them, after one that is not counted."""
        ledger = self.watch()
        times = [self._iterate(ledger) for _ in range(1 + iterations)][1:]
        median = {name: statistics.median(each[name] for each in times) for name in times[0]}
        steps = self.rollout.reward.shape[0] * self._config.environment.num_envs
        crews = len(self.collector.crews)
        return Measurement(
            rollout_s=median["rollout"],
            update_s=median["update"],
            arena_s=median["arena"] / crews,
            acting_s=median["acting"] / crews,
            opponents_s=median["opponents"] / crews,
            steps=steps,
            agents=self._agents,
            decisions=int(self.rollout.active.sum()),
            resident_bytes=self.peak_bytes,
        )

    @torch.no_grad()
    def ratio_errors(self) -> list[float]:
        """Largest |ratio - 1| of each chunk under the weights that acted; 0 where rollout and update agree."""
        self.collect()
        rollout = self.rollout
        targets, _ = self.learner.targets(rollout)
        segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        batch = self.learner.ppo.evaluate(rollout, targets, segments)
        errors = (probability_ratio(batch.joint_log_ratio) - 1.0).abs()
        steps, rows = rollout.reward.shape
        chunks = len(rollout.hidden)
        chunk = batch.index // rows // (steps // chunks)
        return [float(errors[chunk == number].max()) for number in range(chunks)]

    def _iterate(self, ledger: Ledger) -> dict[str, float]:
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


def acting_steps_per_s(config: TrainerConfig, item: WorkItem, rows: int, repeats: int) -> float:
    """Decisions a second of the learner on so many rows of what its environment shows, and nothing else.

    A decision is the network's step, the sample, its log-probability, and storing all of it with the observation.
    """
    name = config.environment.name
    spec = Synthetic(num_envs=1, seed=0, item=item).spec if name == SYNTHETIC else declare(name)
    learner = Learner(config, spec)
    network, rng, shape = learner.network, learner.rng, config.rollout
    rollout = Rollout.allocate(network, steps=shape.steps, rows=rows, chunk=shape.chunk)
    rollout.active.fill_(True)
    rollout.mask.fill_(True)
    frames = torch.randn(shape.steps, rows, spec.observation_size, generator=rng, device=rng.device)
    ended = torch.rand(shape.steps, rows, generator=rng, device=rng.device) < item.end_chance
    acting, settle, times = Acting(network, rows), _settling(config), []
    for _ in range(1 + repeats):
        settle()
        started = time.perf_counter()
        _act(acting, rollout, frames, ended, rng)
        settle()
        times.append(time.perf_counter() - started)
    return rows * config.rollout.steps / statistics.median(times[1:])


@torch.inference_mode()
def _act(acting: Acting, rollout: Rollout, frames: Tensor, ended: Tensor, rng: torch.Generator) -> None:
    for t in range(len(rollout.reward)):
        chunk, place = divmod(t, rollout.chunk)
        if place == 0:
            acting.open_chunk(rollout, chunk, rng)
        rollout.observation[t] = frames[t]
        rollout.episode_start[t] = ended[t]
        acting.act(rollout, t)
        if place == rollout.chunk - 1:
            acting.close_chunk(rollout, chunk)


def _forget(episode: Episode) -> None:
    """Finished matches are of no use here."""


def _never() -> bool:
    return False


def _settling(config: TrainerConfig) -> Callable[[], None]:
    """What waits until the device has done what it was asked to; a CPU always has."""
    return torch.cuda.synchronize if config.run.device.startswith("cuda") else _nothing


def _nothing() -> None:
    """There is nothing to wait for."""
