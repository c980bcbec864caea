"""Plan of a fleet: its trainers and evaluators, each with its command, run folder and resources."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arena.policies.nn.user_module import ALLOWED_MODULES_VARIABLE
from league.home import run_folder
from league.wire import Role
from trainer.config.loading import parse_assignments, resolve
from trainer.config.runtime import WORKER_NAME_MAX, check_name
from trainer.distributed.launch import RankInfo, shard_config
from trainer.errors import ConfigError

EVALUATOR_CPUS = 1.0
"""An evaluator computes with one thread."""


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs that a member needs or a node has."""

    cpus: float
    gpus: float

    def __str__(self) -> str:
        return f"{self.cpus:g} CPU" + (f", {self.gpus:g} GPU" if self.gpus else "")

    @property
    def ranks(self) -> int:
        """Processes that learn together, one for each GPU."""
        return max(1, int(self.gpus))

    @property
    def threads_per_rank(self) -> int:
        """Whole CPUs of each of them, at least one."""
        return max(1, int(self.cpus / self.ranks))


@dataclass(frozen=True)
class Member:
    """One supervised process of the fleet, or one torchrun with its ranks.

    Attributes:
        name: Name in the fleet's output, and of the run folder.
        kind: Its job.
        resources: CPUs and GPUs that Ray reserves for it.
        folder: Its run folder, an absolute path.
        command: Its command, after `python -m`.
    """

    name: str
    kind: Literal["trainer", "evaluator"]
    resources: Resources
    folder: Path
    command: tuple[str, ...]


@dataclass(frozen=True)
class FleetSpec:
    """The requested fleet.

    Attributes:
        environment: The game.
        trainers: Number of learners.
        evaluators: Number of evaluators.
        resources: Resources of each trainer.
        roles: Roles of the learners, in turn.
        prefix: Prefix of every name.
        runs: Folder of the run folders.
        overrides: `section.key=value` settings of all trainers.
    """

    environment: str
    trainers: int
    evaluators: int
    resources: Resources
    roles: tuple[Role, ...]
    prefix: str
    runs: Path
    overrides: tuple[str, ...]


def plan_members(spec: FleetSpec) -> tuple[Member, ...]:
    """Return the members, trainers first.

    Learners are named by their role, from the second of a role on with its number, and have seeds of their own: with
    the same one, lineages would begin as one and the same network.

    Raises:
        ConfigError: There would be none, a role would be left out, or a trainer would refuse its settings.
    """
    _check(spec)
    roles = [spec.roles[index % len(spec.roles)] for index in range(spec.trainers)]
    names = _numbered([role.replace("_", "-") for role in roles])
    trainers = [_trainer(spec, name, role, index) for index, (name, role) in enumerate(zip(names, roles, strict=True))]
    return (*trainers, *(_evaluator(spec, name) for name in _numbered(["evaluator"] * spec.evaluators)))


def variables(overrides: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of every member: the network modules that the driver or the settings name."""
    module = str(parse_assignments(overrides).get("network", {}).get("module", ""))
    modules = ",".join(filter(None, (environ.get(ALLOWED_MODULES_VARIABLE, ""), module)))
    return {ALLOWED_MODULES_VARIABLE: modules} if modules else {}


def _check(spec: FleetSpec) -> None:
    cpus, gpus = spec.resources.cpus, spec.resources.gpus
    for option, amount in (("--cpus-per-trainer", cpus), ("--gpus-per-trainer", gpus)):
        if not math.isfinite(amount):
            raise ConfigError(f"{option} is {amount:g}, which no machine has: give a number")
    if gpus > 1 and not gpus.is_integer():
        raise ConfigError(
            f"--gpus-per-trainer {gpus:g} is neither a part of one GPU nor a whole number of them: give {int(gpus)} "
            f"or {int(gpus) + 1}, each with a rank of its own, or 1 or less"
        )
    if spec.trainers + spec.evaluators == 0:
        raise ConfigError("--trainers 0 and --evaluators 0 make no fleet: give at least one of them")
    if len(spec.roles) > spec.trainers > 0:
        raise ConfigError(
            f"--roles has {len(spec.roles)} roles for {spec.trainers} trainers, so that some would have none: give "
            f"--trainers {len(spec.roles)} or more, or fewer roles"
        )


def _numbered(names: Sequence[str]) -> list[str]:
    """Return the names, with a number from the second of each on."""
    earlier = [names[:index].count(name) for index, name in enumerate(names)]
    return [f"{name}-{count + 1}" if count else name for name, count in zip(names, earlier, strict=True)]


def _trainer(spec: FleetSpec, name: str, role: Role, index: int) -> Member:
    name, ranks = f"{spec.prefix}{name}", spec.resources.ranks
    settings = [*spec.overrides, *_derived_settings(spec, index)]
    config = resolve(spec.environment, None, [*settings, f"league.learner={name}", f"league.role={role}"])
    shard_config(config, RankInfo(0, ranks, 0, ranks))
    folder = run_folder(spec.runs, spec.environment, name)
    launch = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "--") if ranks > 1 else ()
    options = ("--environment", spec.environment, "--run", str(folder), "--learner", name, "--role", role)
    command = (*launch, "trainer", "run", *options, *(word for setting in settings for word in ("--set", setting)))
    return Member(name, "trainer", spec.resources, folder, command)


def _derived_settings(spec: FleetSpec, index: int) -> list[str]:
    """Settings that follow from a trainer's index and resources; device and threads may be overridden."""
    given = parse_assignments(spec.overrides).get("run", {})
    derived: dict[str, str | int] = {"seed": resolve(spec.environment, None, spec.overrides).run.seed + index}
    if spec.resources.gpus > 0 and "device" not in given:
        derived["device"] = "cuda" if spec.resources.ranks > 1 else "cuda:0"
    if spec.resources.threads_per_rank > 1 and "threads" not in given:
        derived["threads"] = spec.resources.threads_per_rank
    return [f"run.{key}={value}" for key, value in derived.items()]


def _evaluator(spec: FleetSpec, name: str) -> Member:
    name = f"{spec.prefix}{name}"
    try:
        check_name(name, WORKER_NAME_MAX)
    except ValueError as error:
        raise ConfigError(f"--prefix {spec.prefix!r} makes {name!r} of an evaluator: {error}") from error
    folder = run_folder(spec.runs, spec.environment, name)
    options = ("--environment", spec.environment, "--run", str(folder), "--name", name, "--duty", "1")
    return Member(name, "evaluator", Resources(EVALUATOR_CPUS, 0.0), folder, ("trainer", "evaluate", *options))
