"""What a run will be: sizes, steps and memory, worked out before anything is collected."""

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from arena.environments import EnvironmentSpec, make
from arena.environments.protocol import Environment
from arena.policies import ActorCritic
from arena.policies.network import make_skeleton
from trainer.advantages import horizon
from trainer.checks import check_discount, check_minibatches
from trainer.learner import Learner
from trainer.lessons import Course
from trainer.machine import give_back_freed_memory, physical_bytes, residence
from trainer.rollout import Rollout
from trainer.settings import TrainerConfig
from trainer.weighing import at_once

FLOAT_BYTES = 4
COPIES_OF_WEIGHTS = 4
"""Weights, gradients, and Adam's two moments; where weights are averaged, their mean is one more."""

COPIES_OF_WEIGHTS_BESIDE = 3
"""Of another process of the update: weights, gradients, and these where the trainer adds them up."""

OBSERVATIONS_ALIVE = 3
"""Of all environments: the one acted on, the one that follows, and the last one of matches that ended."""

PROBE_ROWS = 2
"""Environments of the small update that tells what a sample takes."""


@runtime_checkable
class MeasuredEnvironment(Environment, Protocol):
    """An environment that says how much memory it takes."""

    @property
    def own_bytes(self) -> int:
        """Memory of all matches together, observations left out."""
        ...

    @property
    def shared_bytes(self) -> int:
        """Memory of what exists once for all matches."""
        ...


@dataclass(frozen=True)
class Plan:
    """What a run will be.

    Attributes:
        environment: What is played.
        signature: Of its rules.
        device: Where all memory is taken but that of the program, and of opponents at hand.
        parameters: Numbers that learn, by part of the network.
        ranks: Processes that learn as one under torchrun; sizes are of all of them, memory is of each.
        env_steps_per_update: Decisions of all environments in a rollout.
        agent_steps_per_update: The same, times the agents that learn.
        samples_per_minibatch: Agents' decisions behind one optimiser step, if nobody is out of the game.
        optimizer_steps_per_update: The most of them: the KL stop may end an update sooner.
        update_processes: Processes that share every minibatch, the trainer's own among them.
        updates: How many there are until `goal`.
        goal: The setting that ends the run or, where none does, its schedules.
        decisions_ahead: Decisions over which an advantage looks ahead.
        memory_bytes: What takes how much, when everything is in use.
        machine_bytes: What the machine has, if its system says so.
        opponents_limit_bytes: What opponents may take beyond that, by `league.memory_cache_bytes` and
            `league.device_cache_bytes`.
    """

    environment: str
    signature: str
    device: str
    parameters: Mapping[str, int]
    ranks: int
    env_steps_per_update: int
    agent_steps_per_update: int
    samples_per_minibatch: int
    optimizer_steps_per_update: int
    update_processes: int
    updates: int
    goal: str
    decisions_ahead: float
    memory_bytes: Mapping[str, int]
    machine_bytes: int | None
    opponents_limit_bytes: int

    def as_json(self) -> dict[str, Any]:
        """The plan for scripts."""
        sums = {"parameters_in_all": sum(self.parameters.values()), "bytes_in_all": sum(self.memory_bytes.values())}
        return asdict(self) | sums


def plan(config: TrainerConfig, ranks: int = 1) -> Plan:
    """Work out a run, and refuse what `trainer run` would refuse.

    Args:
        config: Settings of a rank.
        ranks: How many there are.

    Raises:
        ConfigError: Settings do not fit the environment.
    """
    env = make(config.environment.name, num_envs=1, device=config.run.device)
    check_discount(env, config.ppo.gamma)
    check_minibatches(config, env.spec)
    Course.of([env], config.curriculum)
    return _plan(config, env, ranks)


def show(planned: Plan, console: Console) -> None:
    """Print the plan."""
    sizes = {f"ranks, with {planned.env_steps_per_update // planned.ranks:,} of the steps each": f"{planned.ranks}"}
    sizes = {
        **(sizes if planned.ranks > 1 else {}),
        "environment steps per update": f"{planned.env_steps_per_update:,}",
        "agents' steps per update": f"{planned.agent_steps_per_update:,}",
        "samples per minibatch": f"{planned.samples_per_minibatch:,}",
        "optimiser steps per update": f"{planned.optimizer_steps_per_update:,} at most",
        "processes that share an update": f"{planned.update_processes}",
        f"updates until {planned.goal}": f"{planned.updates:,}",
        "advantages look ahead": f"{planned.decisions_ahead:.1f} decisions",
    }
    parameters = {part: f"{count:,}" for part, count in planned.parameters.items()}
    memory = {part: _mebibytes(size) for part, size in planned.memory_bytes.items()}
    console.print(Text(f"{planned.environment}, signature {planned.signature}", "bold"))
    console.print(_table("", sizes))
    console.print(_table("parameters", parameters | {"in all": f"{sum(planned.parameters.values()):,}"}))
    where = ", of each rank" if planned.ranks > 1 else ""
    where += "" if planned.device == "cpu" else f", all but the first on {planned.device}"
    console.print(
        _table(f"memory, estimated{where}", memory | {"in all": _mebibytes(sum(planned.memory_bytes.values()))})
    )
    if planned.device == "cpu" and planned.machine_bytes and sum(planned.memory_bytes.values()) > planned.machine_bytes:
        text = (
            f"this machine has {_mebibytes(planned.machine_bytes)}: lower environment.num_envs or rollout.steps, "
            "and ppo.microbatch for the update"
        )
        console.print(Text(text, "bold red"))
    limit = _mebibytes(planned.opponents_limit_bytes)
    console.print(Text(f"opponents may take {limit} more (league.memory_cache_bytes, league.device_cache_bytes)"))


def _plan(config: TrainerConfig, env: Environment, ranks: int) -> Plan:
    spec, shape, ppo = env.spec, config.rollout, config.ppo
    learner = Learner(config, spec)
    env_steps = ranks * learner.env_steps_per_update
    samples = shape.steps * learner.rows // ppo.minibatches
    total = config.run.total_steps or config.schedules.horizon_steps
    return Plan(
        environment=spec.name,
        signature=spec.signature,
        device=config.run.device,
        parameters=_parameters(learner.network),
        ranks=ranks,
        env_steps_per_update=env_steps,
        agent_steps_per_update=ranks * shape.steps * learner.rows,
        samples_per_minibatch=ranks * samples,
        optimizer_steps_per_update=ppo.epochs * ppo.minibatches,
        update_processes=learner.update_processes,
        updates=-(-total // env_steps),
        goal="run.total_steps" if config.run.total_steps else "schedules.horizon_steps",
        decisions_ahead=horizon(ppo.gamma, ppo.gae_lambda),
        memory_bytes=_memory(config, env, learner, samples),
        machine_bytes=physical_bytes(),
        opponents_limit_bytes=config.league.memory_cache_bytes + config.league.device_cache_bytes,
    )


def _parameters(network: ActorCritic) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, parameter in network.named_parameters():
        part = name.partition(".")[0]
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def _memory(config: TrainerConfig, env: Environment, learner: Learner, samples: int) -> dict[str, int]:
    rollout, processes = _rollout(config, learner), learner.update_processes
    together = min(-(-samples // processes), at_once(config.ppo, torch.device(config.run.device)))
    learned_from = together * _update_bytes_per_sample(config, env.spec)
    program, weights = _program_bytes(), FLOAT_BYTES * sum(_parameters(learner.network).values())
    beside = program + learned_from + COPIES_OF_WEIGHTS_BESIDE * weights
    return {
        "program and libraries": program,  # by now all of them are loaded
        "network and optimiser": (COPIES_OF_WEIGHTS + int(config.league.averages)) * weights,
        "rollout": sum(tensor.nbytes for tensor in vars(rollout).values()),
        "update": max(learned_from, rollout.observation.nbytes),  # who acted is copied out for the statistics
        "update processes": (processes - 1) * beside,
        "environment": _environment_bytes(config, env),
    }


def _rollout(config: TrainerConfig, learner: Learner) -> Rollout:
    """The rollouts of this run, without their memory."""
    shape = config.rollout
    network = make_skeleton(learner.network.architecture).to("meta")
    with torch.device("meta"):
        return Rollout.allocate(network, steps=shape.steps, rows=learner.rows, chunk=shape.chunk)


def _update_bytes_per_sample(config: TrainerConfig, spec: EnvironmentSpec) -> int:
    """What the backward pass of one sample needs to remember, from an update of a few."""
    small = config.model_copy(
        update={
            "run": config.run.model_copy(update={"update_processes": 1}),
            "environment": config.environment.model_copy(update={"num_envs": PROBE_ROWS}),
            "ppo": config.ppo.model_copy(
                update={"epochs": 1, "minibatches": 1, "compile": "", "microbatch": sys.maxsize}
            ),
        }
    )
    learner = Learner(small, spec)
    rollout = learner.allocate()
    rollout.active.fill_(True)
    rollout.mask.fill_(True)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        learner.learn(rollout, lambda: False)
    return sum(kept.values()) // (len(rollout.reward) * learner.rows)


def _environment_bytes(config: TrainerConfig, env: Environment) -> int:
    """Of E matches, worked out from one."""
    own, shared = (env.own_bytes, env.shared_bytes) if isinstance(env, MeasuredEnvironment) else (0, 0)
    seen = OBSERVATIONS_ALIVE * FLOAT_BYTES * env.spec.num_agents * env.spec.observation_size
    return shared + config.environment.num_envs * (own + seen)


def _program_bytes() -> int:
    """Memory that this process takes now, without what the compiler of kernels has freed; 0 if the system is silent."""
    give_back_freed_memory()
    return residence(os.getpid()).now_bytes


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _table(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=bool(title), padding=(0, 3, 0, 0))
    table.add_column(title, min_width=30)
    table.add_column("", justify="right", min_width=14)
    for name, value in rows.items():
        table.add_row(name, value)
    return table
