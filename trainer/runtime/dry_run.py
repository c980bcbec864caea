"""Dry run: sizes, step counts and an estimate of memory, before anything is collected."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena.environments import make
from trainer.algorithms import make_algorithm
from trainer.config.schema import TrainerConfig
from trainer.config.validation import check_environment
from trainer.ppo.targets.gae import effective_horizon
from trainer.rollout.curriculum import CurriculumSchedule
from trainer.runtime.memory import GPU_SIZES_GB, PROGRAM, estimate_memory
from trainer.runtime.torch_setup import device_bytes, physical_bytes


@dataclass(frozen=True)
class RunEstimate:
    """Sizes and estimated memory of a run.

    Attributes:
        environment: Name of the environment.
        signature: Environment signature.
        device: Device of all memory but that of the program and of the cached opponents.
        parameters: Number of trainable parameters by part of the network.
        ranks: Ranks under torchrun; sizes are of all ranks together, memory is of each.
        env_steps_per_update: Environment steps in a rollout.
        agent_steps_per_update: The same, times the learning agents.
        samples_per_minibatch: Samples of one optimiser step if all agents are active.
        optimizer_steps_per_update: Upper limit; the KL stop may end an update sooner.
        updates: Number of updates until `goal`.
        compile_backend: Backend of torch.compile on this device, for decisions and updates.
        goal: The setting that ends the run or, if it has no end, its schedules.
        decisions_ahead: Effective horizon of an advantage, in decisions.
        memory_bytes: Peak memory by part.
        machine_bytes: Physical memory of the machine; None if unknown.
        device_bytes: Memory of the GPU available to this process; None on a CPU.
        opponents_limit_bytes: Memory that opponents may take in addition, from `league.memory_cache_bytes` and
            `league.device_cache_bytes`.
        gpu_num_envs: The largest `environment.num_envs` of a rank that fits a GPU, by the GPU's memory in GB.
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
    updates: int
    compile_backend: str
    goal: str
    decisions_ahead: float
    memory_bytes: Mapping[str, int]
    machine_bytes: int | None
    device_bytes: int | None
    opponents_limit_bytes: int
    gpu_num_envs: Mapping[int, int]

    def as_json(self) -> dict[str, Any]:
        """The estimate as JSON."""
        sums = {"parameters_in_all": sum(self.parameters.values()), "bytes_in_all": sum(self.memory_bytes.values())}
        return asdict(self) | sums

    @property
    def shortage(self) -> str | None:
        """The device whose memory is too small for the run; None if there is enough."""
        if self.device_bytes is None:
            name, available, needed = "this machine", self.machine_bytes, sum(self.memory_bytes.values())
        else:
            name, available = self.device, self.device_bytes
            needed = sum(size for part, size in self.memory_bytes.items() if part != PROGRAM)
        return f"{name} has {_mebibytes(available)}" if available and needed > available else None


def estimate_run(config: TrainerConfig, ranks: int = 1) -> RunEstimate:
    """Estimate a run, after the same checks as `trainer run`.

    Args:
        config: Settings of one rank.
        ranks: Number of ranks.

    Raises:
        ConfigError: Settings do not fit the environment.
    """
    env = make(config.environment.name, num_envs=1, device=config.run.device)
    check_environment(config, env)
    CurriculumSchedule.from_settings([env], config.curriculum)
    shape, ppo, learner = config.rollout, config.ppo, make_algorithm(config, env.spec)
    env_steps = ranks * shape.num_steps * config.environment.num_envs
    samples = shape.num_steps * learner.rows // ppo.num_minibatches
    goal = "run.total_timesteps" if config.run.total_timesteps else "schedules.horizon_steps"
    parameters: dict[str, int] = {}
    for name, parameter in learner.network.named_parameters():
        part = name.partition(".")[0]
        parameters[part] = parameters.get(part, 0) + parameter.numel()
    memory = estimate_memory(config, env, learner, samples, sum(parameters.values()))
    return RunEstimate(
        environment=env.spec.name,
        signature=env.spec.signature,
        device=config.run.device,
        parameters=parameters,
        ranks=ranks,
        env_steps_per_update=env_steps,
        agent_steps_per_update=ranks * shape.num_steps * learner.rows,
        samples_per_minibatch=ranks * samples,
        optimizer_steps_per_update=ppo.update_epochs * ppo.num_minibatches,
        # Rounded up: the last update may exceed the goal.
        updates=-(-(config.run.total_timesteps or config.schedules.horizon_steps) // env_steps),
        compile_backend=ppo.compile.for_device(config.run.device).value,
        goal=goal,
        decisions_ahead=effective_horizon(ppo.gamma, ppo.gae_lambda),
        memory_bytes=memory.parts,
        machine_bytes=physical_bytes(),
        device_bytes=device_bytes(torch.device(config.run.device)),
        opponents_limit_bytes=config.league.memory_cache_bytes + config.league.device_cache_bytes,
        gpu_num_envs={size: memory.largest_num_envs(size * 2**30) for size in GPU_SIZES_GB},
    )


def print_estimate(estimate: RunEstimate, console: Console) -> None:
    """Print the estimate as tables."""
    several = estimate.ranks > 1
    steps_per_rank = estimate.env_steps_per_update // estimate.ranks
    sizes = {f"ranks, with {steps_per_rank:,} of the steps each": f"{estimate.ranks}"} if several else {}
    sizes |= {
        "environment steps per update": f"{estimate.env_steps_per_update:,}",
        "agents' steps per update": f"{estimate.agent_steps_per_update:,}",
        "samples per minibatch": f"{estimate.samples_per_minibatch:,}",
        "optimiser steps per update": f"{estimate.optimizer_steps_per_update:,} at most",
        f"updates until {estimate.goal}": f"{estimate.updates:,}",
        "backend of torch.compile": estimate.compile_backend,
        "advantages look ahead": f"{estimate.decisions_ahead:.1f} decisions",
    }
    totals = estimate.as_json()
    parameters = {**estimate.parameters, "in all": totals["parameters_in_all"]}
    memory = {**estimate.memory_bytes, "in all": totals["bytes_in_all"]}
    where = ", of each rank" if several else ""
    where += "" if estimate.device == "cpu" else f", all but the first on {estimate.device}"
    console.print(Text(f"{estimate.environment}, signature {estimate.signature}", "bold"))
    console.print(_table("", sizes))
    console.print(_table("parameters", {part: f"{count:,}" for part, count in parameters.items()}))
    console.print(_table(f"memory, estimated{where}", {part: _mebibytes(size) for part, size in memory.items()}))
    if estimate.shortage:
        remedy = "lower environment.num_envs or rollout.num_steps, and ppo.micro_batch_size for the update"
        console.print(Text(f"{estimate.shortage}: {remedy}", "bold red"))
    held = ", ".join(f"{size} GB {count:,}" for size, count in estimate.gpu_num_envs.items())
    console.print(Text(f"environments that fit a GPU of: {held}"))
    limit = _mebibytes(estimate.opponents_limit_bytes)
    console.print(Text(f"opponents may take {limit} more (league.memory_cache_bytes, league.device_cache_bytes)"))


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _table(title: str, rows: Mapping[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=bool(title), padding=(0, 3, 0, 0))
    table.add_column(title, min_width=30)
    table.add_column("", justify="right", min_width=14)
    for row in rows.items():
        table.add_row(*row)
    return table
