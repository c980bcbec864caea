"""Team battles with this project's trainer: time per phase, in its own process.

Run by the benchmark as `python -m benchmarks.trainer.team_battle_process SCENE`, with the protocol of
`benchmarks/peers/workload.py`:

    iterate     one rollout and its update: `rollout_s`, `update_s`, of the rollout `arena_s`, `acting_s` and
                `opponents_s`, and how many decisions the learner's agents made
    memory      peak resident memory of the process: `peak_bytes`

Opponents are frozen policies of the learner's architecture, each with weights of its own, assigned in turn.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from arena.environments import declare
from benchmarks.peers.workload import JsonChannel
from benchmarks.trainer.trainers import BattleSetup
from trainer.config.loading import resolve
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.synthetic_env import SyntheticSpec
from trainer.runtime.torch_setup import configure_torch, process_memory

NO_KL_STOP = 1e9


class TeamBattle:
    """A learner against frozen opponents."""

    def __init__(self, scene: BattleSetup) -> None:
        self._config = resolve(scene.environment, None, settings(scene))
        configure_torch(self._config.run)
        self._bench = Bench(self._config, SyntheticSpec(), opponents=scene.opponents)
        self._ledger = self._bench.watch()

    def info(self) -> dict[str, int]:
        """Return the numbers that turn seconds into speeds."""
        played = self._config
        spec = declare(played.environment.name)
        steps = played.environment.num_envs * played.rollout.num_steps
        return {"env_steps": steps, "agents": sum(spec.agents_per_side)}

    def iterate(self) -> dict[str, float]:
        """Run one rollout and its update; times of parallel threads count as their mean."""
        self._bench.collect()
        self._bench.learn()
        spent, threads = self._ledger.close(), len(self._bench.collector.workers)
        sharing = {f"{name}_s": spent[name] / threads for name in ("arena", "acting", "opponents")}
        whole = {"rollout_s": spent["rollout"], "update_s": spent["update"]}
        return {**whole, **sharing, "decisions": int(self._bench.rollout.active.sum())}

    def memory(self) -> dict[str, int]:
        """Return the peak resident memory of the process."""
        return {"peak_bytes": process_memory(os.getpid()).peak_bytes}


def settings(scene: BattleSetup) -> list[str]:
    """Return the setup as overrides of the environment's preset, with the KL stop off."""
    return [
        f"environment.num_envs={scene.environments}",
        f"run.threads={scene.threads}",
        f"run.device={scene.device}",
        f"ppo.target_kl={NO_KL_STOP}",
    ]


def main() -> None:
    """Answer requests until standard input closes."""
    talk, scene = JsonChannel(), BattleSetup(**json.loads(sys.argv[1]))
    torch.set_num_threads(scene.threads)
    battle = TeamBattle(scene)
    talk.answer(**battle.info())
    answers: dict[str, Callable[[], Mapping[str, Any]]] = {
        "iterate": battle.iterate,
        "memory": battle.memory,
    }
    for request in talk.requests():
        talk.answer(**answers[request[0]]())


if __name__ == "__main__":
    main()
