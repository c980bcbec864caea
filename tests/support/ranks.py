"""A learner's update on its share of a rollout's rows, alone or as one of several processes."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from fake_games import fake_spec
from torch import Tensor

from trainer.config.loading import validate
from trainer.config.schema import TrainerConfig
from trainer.errors import RankLostError
from trainer.ppo.learner import Learner
from trainer.process_group import ProcessGroup, TorchProcessGroup
from trainer.rollout.buffer import RolloutBuffer

ROW_FIRST = ("last_value", "last_active")
"""Fields of a rollout whose first axis is that of rows; it is the second of all others."""

MOST_PATIENCE = timedelta(seconds=60)
"""How long a rank waits for another: those that no longer agree fail soon."""


NO_BONUS = {"normalized_ent_coef": 0.0, "normalized_ent_coef_final": 0.0}


def settings(envs: int, **ppo: object) -> TrainerConfig:
    """A learner whose update does not hang on how samples are dealt into minibatches."""
    return validate(
        {
            "environment": {"name": "fake", "num_envs": envs, "self_play": 0.0},
            "network": {"encoder_sizes": [8], "recurrent_size": 6},
            "rollout": {"num_steps": 12, "bptt_horizon": 4},
            "ppo": {"num_minibatches": 1, "update_epochs": 3, "magnet_coef": 0.3, **NO_BONUS, **ppo},
            "optimizer": {"learning_rate": 0.01},
            "league": {"ema_horizon_steps": 500},
        }
    )


def share(rollout: RolloutBuffer, start: int, end: int) -> RolloutBuffer:
    """Some rows of a rollout."""
    parts = {
        field.name: getattr(rollout, field.name)[start:end]
        if field.name in ROW_FIRST
        else getattr(rollout, field.name)[:, start:end].contiguous()
        for field in fields(rollout)
    }
    return RolloutBuffer(**parts)


def learn(learner: Learner, rollouts: list[RolloutBuffer]) -> dict[str, torch.Tensor]:
    """Weights, statistics and figures after an update on each of the rollouts."""
    figures: dict[str, float | None] = {}
    for rollout in rollouts:
        figures = learner.learn(rollout, lambda: False)
    stop = {"kl_stop": torch.tensor(figures.get("losses/kl_stop") or 0.0)}
    rejected = {"rejected": torch.tensor(float(learner.ppo.rejected_steps)), "steps": torch.tensor(learner.steps)}
    return {name: each for name, each in learner.tensors().items() if "rng" not in name} | stop | rejected


def work(number: int, count: int, folder: Path, config: TrainerConfig) -> None:
    """One rank: learn from the rollouts in `folder` that are this rank's, and leave there what came of it."""
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=number, world_size=count, timeout=MOST_PATIENCE)
    try:
        rollouts = torch.load(folder / f"rollouts-{number}.pt", weights_only=False)
        torch.save(learn(Learner(config, fake_spec(), TorchProcessGroup()), rollouts), folder / f"learned-{number}.pt")
    finally:
        dist.destroy_process_group()


def learn_together(
    folder: Path, config: TrainerConfig, rollouts: list[list[RolloutBuffer]]
) -> list[dict[str, torch.Tensor]]:
    """What came of every rank's rollouts."""
    for number, own in enumerate(rollouts):
        torch.save(own, folder / f"rollouts-{number}.pt")
    multiprocessing.set_forkserver_preload(
        ["trainer.ppo.learner"]
    )  # what takes long to load is loaded once for all ranks
    arguments = (len(rollouts), folder, config)
    torch.multiprocessing.start_processes(work, arguments, nprocs=len(rollouts), start_method="forkserver")
    return [torch.load(folder / f"learned-{number}.pt") for number in range(len(rollouts))]


def learn_in_turn(config: TrainerConfig, rollouts: list[list[RolloutBuffer]]) -> list[dict[str, torch.Tensor]]:
    """What comes of every rank's rollouts where all ranks are threads of this process."""
    ranks = ThreadGroup(len(rollouts)).ranks()
    learners = [
        Learner(config, fake_spec(), rank) for rank in ranks
    ]  # before the threads start: they share torch's random state

    def work(rank: "ThreadRank", learner: Learner, own: list[RolloutBuffer]) -> dict[str, torch.Tensor]:
        try:
            return learn(learner, own)
        except BaseException:
            rank.leave()
            raise

    with ThreadPoolExecutor(len(ranks)) as threads:
        return list(threads.map(work, ranks, learners, rollouts))


def learn_alone(config: TrainerConfig, rollouts: list[RolloutBuffer]) -> dict[str, torch.Tensor]:
    """What comes of the rollouts in one process."""
    return learn(Learner(config, fake_spec()), rollouts)


class ThreadGroup:
    """Shared state of ranks that are threads of one process; if one ends, all end."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.values: list[object] = [None] * world_size
        self.barrier = threading.Barrier(world_size, timeout=MOST_PATIENCE.total_seconds())

    def ranks(self) -> list["ThreadRank"]:
        """A process group for every thread."""
        return [ThreadRank(self, rank) for rank in range(self.world_size)]


class ThreadRank(ProcessGroup):
    """The process group of one thread."""

    def __init__(self, group: ThreadGroup, rank: int) -> None:
        self._group, self._rank = group, rank

    @property
    def world_size(self) -> int:
        return self._group.world_size

    @property
    def rank(self) -> int:
        return self._rank

    def leave(self) -> None:
        """Leave the group."""
        self._group.barrier.abort()

    def all_gather(self, values: Tensor) -> list[Tensor]:
        return self._all(values.clone())

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        return torch.stack(self._all(values.clone())).sum(0)

    def all_gather_bytes(self, message: bytes) -> list[bytes]:
        return self._all(message)

    def broadcast_bytes(self, message: bytes) -> bytes:
        return self._all(message)[0]

    def _all(self, own):
        try:
            self._group.values[self.rank] = own
            self._group.barrier.wait()
            values = list(self._group.values)
            self._group.barrier.wait()
        except threading.BrokenBarrierError as error:
            raise RankLostError("another thread is gone") from error
        return values
