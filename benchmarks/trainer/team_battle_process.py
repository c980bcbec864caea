"""Team battles end to end with this project's trainer: what a step costs, and who spends it.

Run by the benchmark as `python -m benchmarks.trainer.team_battle_process SCENE`, with the protocol of
`benchmarks/peers/workload.py`:

    iterate     one rollout and its update: `rollout_s`, `update_s`, of the rollout `arena_s`, `acting_s` and
                `opponents_s`, and how many decisions the learner's agents made
    memory      the most memory that its processes have had resident: `peak_bytes`

Opponents are frozen policies of the learner's architecture, each with weights of its own, dealt in turn.
"""

import json
import sys

import torch

from arena.environments import declare
from benchmarks.peers.workload import Talk
from benchmarks.trainer.trainers import Scene
from trainer.config.loading import resolve
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.synthetic_env import SyntheticSpec
from trainer.runtime.torch_setup import configure_torch

ENDLESS_KL = 1e9


class Battle:
    """A learner among others."""

    def __init__(self, scene: Scene) -> None:
        self._config = resolve(scene.environment, None, settings(scene))
        configure_torch(self._config.run)
        self._bench = Bench(self._config, SyntheticSpec(), opponents=scene.opponents)
        self._ledger = self._bench.watch()

    def introduction(self) -> dict[str, int]:
        """What turns seconds into speeds."""
        played = self._config
        spec = declare(played.environment.name)
        steps = played.environment.num_envs * played.rollout.num_steps
        return {"env_steps": steps, "agents": sum(spec.agents_per_side)}

    def iterate(self) -> dict[str, float]:
        """One rollout and its update; what threads spend side by side counts as their mean."""
        self._bench.collect()
        self._bench.learn()
        spent, threads = self._ledger.close(), len(self._bench.collector.workers)
        sharing = {f"{name}_s": spent[name] / threads for name in ("arena", "acting", "opponents")}
        whole = {"rollout_s": spent["rollout"], "update_s": spent["update"]}
        return {**whole, **sharing, "decisions": int(self._bench.rollout.active.sum())}

    def memory(self) -> dict[str, int]:
        """The most that was resident, in all processes."""
        return {"peak_bytes": self._bench.peak_bytes}


def settings(scene: Scene) -> list[str]:
    """The scene as overrides of the environment's preset; the KL stop is out of reach."""
    return [
        f"environment.num_envs={scene.environments}",
        f"run.threads={scene.threads}",
        f"run.device={scene.device}",
        f"ppo.target_kl={ENDLESS_KL}",
    ]


def main() -> None:
    """Answer until the benchmark hangs up."""
    talk, scene = Talk(), Scene(**json.loads(sys.argv[1]))
    torch.set_num_threads(scene.threads)
    battle = Battle(scene)
    talk.answer(**battle.introduction())
    answers = {
        "iterate": battle.iterate,
        "memory": battle.memory,
    }
    for request in talk.requests():
        talk.answer(**answers[request[0]]())


if __name__ == "__main__":
    main()
