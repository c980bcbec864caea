"""Estimated memory of a run by part, from the shapes of one match and a small update."""

import os
import sys

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


def estimate_memory(
    config: TrainerConfig, env: Environment, learner: Algorithm, samples: int, parameters: int
) -> dict[str, int]:
    """Return the peak memory by part, in bytes."""
    shape, spec = config.rollout, env.spec
    with torch.device("meta"):  # allocates nothing
        network = make_on_meta(learner.network.architecture).to("meta")
        rollout = RolloutBuffer.allocate(
            network, steps=shape.num_steps, rows=learner.rows, bptt_horizon=shape.bptt_horizon
        )
    micro_batch = min(samples, max_micro_batch(config.ppo, torch.device(config.run.device)))
    update = micro_batch * _update_bytes_per_sample(config, spec)
    observations = OBSERVATIONS_ALIVE * FLOAT_BYTES * spec.num_agents * spec.observation_size
    own, shared = getattr(env, "own_bytes", 0), getattr(env, "shared_bytes", 0)
    give_back_freed_memory()
    return {
        PROGRAM: process_memory(os.getpid()).now_bytes,  # all libraries are loaded by now
        "network and optimiser": (COPIES_OF_WEIGHTS + int(config.league.averages)) * FLOAT_BYTES * parameters,
        "rollout": sum(tensor.nbytes for tensor in vars(rollout).values()),
        "update": max(update, rollout.observation.nbytes),  # the statistics copy the observations of active agents
        "environment": shared + config.environment.num_envs * (own + observations),
    }


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
