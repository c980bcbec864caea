"""Estimated memory of a run by part, from the shapes of one match and a small update."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.environments.base import Environment
from arena.malloc import give_back_freed_memory
from arena.policies.nn.actor_critic import make_on_meta
from trainer.algorithms import Algorithm, make_algorithm
from trainer.config.algorithm import CompileBackend
from trainer.config.loading import merge, validate
from trainer.config.schema import TrainerConfig
from trainer.ppo.ppo import max_micro_batch
from trainer.rollout.buffer import RolloutBuffer
from trainer.runtime.torch_setup import process_memory

FLOAT_BYTES = 4
COPIES_OF_WEIGHTS = 4
"""Weights, gradients, and Adam's two moments; averaged weights are one more."""

OBSERVATIONS_ALIVE = 3
"""Observations per environment that exist at once: current, next, and the final one of ended matches."""

PROGRAM = "program and libraries"
"""Name of the memory part that is always on the host."""

PROBE_ROWS = 2
"""Environments of the small update that measures memory per sample."""


GPU_SIZES_GB = (24, 40, 80)
"""Memory of common GPUs."""

GPU_SHARE = 0.9
"""Share of a GPU's memory that a run may fill. CUDA, its libraries' workspaces and gaps between tensors take the rest;
the share is a guess, since no GPU was at hand to measure it."""

MAX_NUM_ENVS = 65536
"""Upper limit of `environment.num_envs`."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak memory of a run, and how it grows with the number of environments.

    Attributes:
        parts: Bytes by part.
        num_envs: Number of environments.
        shared_bytes: Part of the environment that exists once.
        observation_bytes: Part of the rollout, which the update copies for the statistics of observations.
        minibatch_bytes: What autograd saves for a whole minibatch.
        micro_batch_bytes: What it saves for a micro-batch of `ppo.micro_batch_size`; None without that setting.
        cache_bytes: Cache of opponents on the device.
    """

    parts: Mapping[str, int]
    num_envs: int
    shared_bytes: int
    observation_bytes: int
    minibatch_bytes: int
    micro_batch_bytes: int | None
    cache_bytes: int

    def gpu_bytes(self, num_envs: int) -> int:
        """Return the memory that a run with this number of environments takes on a GPU."""
        fixed = self.parts["network and optimiser"] + self.shared_bytes + self.cache_bytes
        growing = self.parts["rollout"] + self.parts["environment"] - self.shared_bytes
        scale = num_envs / self.num_envs
        saved = scale * self.minibatch_bytes
        if self.micro_batch_bytes is not None:
            saved = min(saved, self.micro_batch_bytes)
        return int(fixed + scale * growing + max(saved, scale * self.observation_bytes))

    def largest_num_envs(self, gpu_bytes: float) -> int:
        """Return the largest number of environments that fits into a GPU of this size."""
        low, high = 0, MAX_NUM_ENVS
        while low < high:
            middle = (low + high + 1) // 2
            if self.gpu_bytes(middle) <= GPU_SHARE * gpu_bytes:
                low = middle
            else:
                high = middle - 1
        return low


def estimate_memory(
    config: TrainerConfig, env: Environment, learner: Algorithm, samples: int, parameters: int
) -> MemoryEstimate:
    """Estimate the peak memory of a run.

    Args:
        config: Settings of one rank.
        env: Environment of one match.
        learner: Algorithm with the configured network.
        samples: Samples of a minibatch.
        parameters: Number of parameters.
    """
    shape, spec = config.rollout, env.spec
    with torch.device("meta"):  # allocates nothing
        network = make_on_meta(learner.network.architecture).to("meta")
        rollout = RolloutBuffer.allocate(
            network, steps=shape.num_steps, rows=learner.rows, bptt_horizon=shape.bptt_horizon
        )
    per_sample = _update_bytes_per_sample(config, spec)
    micro_batch = min(samples, max_micro_batch(config.ppo, torch.device(config.run.device)))
    observations = OBSERVATIONS_ALIVE * FLOAT_BYTES * spec.num_agents * spec.observation_size
    own, shared = getattr(env, "own_bytes", 0), getattr(env, "shared_bytes", 0)
    give_back_freed_memory()
    parts = {
        PROGRAM: process_memory(os.getpid()).now_bytes,  # all libraries are loaded by now
        "network and optimiser": (COPIES_OF_WEIGHTS + int(config.league.averages)) * FLOAT_BYTES * parameters,
        "rollout": sum(tensor.nbytes for tensor in vars(rollout).values()),
        # the statistics copy the observations of active agents
        "update": max(micro_batch * per_sample, rollout.observation.nbytes),
        "environment": shared + config.environment.num_envs * (own + observations),
    }
    limit = config.ppo.micro_batch_size
    return MemoryEstimate(
        parts=parts,
        num_envs=config.environment.num_envs,
        shared_bytes=shared,
        observation_bytes=rollout.observation.nbytes,
        minibatch_bytes=samples * per_sample,
        micro_batch_bytes=limit * per_sample if limit else None,
        cache_bytes=config.league.device_cache_bytes,
    )


def _update_bytes_per_sample(config: TrainerConfig, spec: EnvironmentSpec) -> int:
    """Bytes that autograd saves per sample, measured in a small update."""
    one_batch = {"update_epochs": 1, "num_minibatches": 1, "micro_batch_size": sys.maxsize}
    small = {"environment": {"num_envs": PROBE_ROWS}, "ppo": {**one_batch, "compile": CompileBackend.NONE}}
    learner = make_algorithm(validate(merge(config.model_dump(), small)), spec)
    rollout = learner.allocate()
    rollout.active.fill_(True)
    rollout.action_mask.fill_(True)
    saved: dict[int, int] = {}

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        learner.learn(rollout, lambda: False)
    return sum(saved.values()) // (len(rollout.reward) * learner.rows)
