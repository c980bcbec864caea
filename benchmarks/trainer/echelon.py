"""This project's trainer on the workload of `benchmarks.trainer`, through `trainer.runtime.benchmark.bench.Bench`.

Run by the benchmark as `python -m benchmarks.trainer.echelon VARIANT WORK`, with the protocol of
`benchmarks/peers/workload.py` and one request more:

    bound       speed of one large matrix product with as many threads: `flop_per_s`

`ratio_error` covers all chunks of a rollout, not only the first minibatch. The KL stop is off, so that every update
takes all its steps.
"""

import sys
from collections.abc import Callable
from importlib.metadata import version
from itertools import cycle

import torch

from arena.environments.base import Observation
from benchmarks.peers.workload import Workload, serve
from benchmarks.trainer.flops import matmul_bound
from benchmarks.trainer.trainers import VARIANTS
from trainer.config.loading import resolve
from trainer.opponents.agent_index import AgentIndex
from trainer.rollout.actor import RolloutActor
from trainer.rollout.buffer import RolloutBuffer
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.synthetic_env import SYNTHETIC, SyntheticSpec
from trainer.runtime.torch_setup import configure_torch

NO_KL_STOP = 1e9


class Echelon:
    """The learner, one collection and one update at a time."""

    def __init__(self, work: Workload, overrides: tuple[str, ...]) -> None:
        config = resolve(SYNTHETIC, None, [*settings(work), *overrides])
        configure_torch(config.run)
        item = SyntheticSpec(work.observation_size, work.action_size, work.end_chance)
        self._bench = Bench(config, item)
        self.version = f"echelon-league {version('echelon-league')}"
        self.network: torch.nn.Module = self._bench.learner.network

    def rollout(self) -> None:
        self._bench.collect()

    def update(self) -> None:
        self._bench.learn()

    def ratio_error(self) -> float:
        return max(self._bench.ratio_errors())

    def actor(self, rows: int) -> Callable[[], None]:
        """One decision of a rollout, including its write into the buffer."""
        network, chunk = self._bench.learner.network, self._bench.rollout.bptt_horizon
        rollout, acting = (
            RolloutBuffer.allocate(network, steps=chunk, rows=rows, bptt_horizon=chunk),
            RolloutActor(network, rows),
        )
        spec = self._bench.collector.workers[0].environment.spec
        agents, seen = AgentIndex(spec, rows, torch.device("cpu")).learner, (rows, spec.num_agents)
        masks = {head.name: torch.ones(*seen, head.size, dtype=torch.bool) for head in spec.heads if head.masked}
        active = torch.ones(seen, dtype=torch.bool)
        observation = Observation(torch.randn(*seen, spec.observation_size), masks, active)
        starts = torch.zeros(rows, dtype=torch.bool)
        rng, places = torch.Generator().manual_seed(0), cycle(range(chunk))

        def step() -> None:
            place = next(places)
            if place == 0:
                acting.begin_chunk(rollout, 0, rng)
            acting.act(rollout, place, agents, observation, starts)
            if place == chunk - 1:
                acting.finish_chunk(rollout, 0)

        return step


def settings(work: Workload) -> list[str]:
    """The work as overrides."""
    return [
        f"environment.num_envs={work.environments}",
        f"rollout.num_steps={work.steps}",
        f"network.encoder_sizes=[{work.encoder}]",
        f"network.recurrent_size={work.memory}",
        f"ppo.update_epochs={work.epochs}",
        f"ppo.num_minibatches={work.minibatches}",
        f"ppo.target_kl={NO_KL_STOP}",
        f"optimizer.learning_rate={work.learning_rate}",
        f"optimizer.learning_rate_final={work.learning_rate}",
        f"run.threads={work.threads}",
    ]


if __name__ == "__main__":
    variant = sys.argv.pop(1)
    serve(lambda work: Echelon(work, VARIANTS[variant]), bound=lambda work: {"flop_per_s": matmul_bound(work.clock)})
