"""Plan of a fleet: its members, each with its command, run folder and resources, and whether a cluster can run them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from arena.policies.nn.user_module import ALLOWED_MODULES_VARIABLE
from league.home import run_folder
from league.wire import Role
from trainer.config.loading import parse_assignments, resolve
from trainer.config.runtime import WORKER_NAME_MAX, check_name
from trainer.distributed.launch import RankInfo, shard_config
from trainer.errors import ConfigError, TrainerError

EVALUATOR_CPUS = 1.0
"""An evaluator computes with one thread."""

SLACK = 1e-9
"""Rounding error of fractional resources."""


NodeSurvey = tuple[str, frozenset[str]]
"""A node's version of this program, and the members whose run folders exist there."""


class CapacityError(TrainerError):
    """The cluster is too small or too busy for the fleet, or one of its nodes cannot run it."""

    code = "no-capacity"


@dataclass(frozen=True)
class Resources:
    """CPUs and GPUs that a member needs or a node has."""

    cpus: float
    gpus: float

    def __str__(self) -> str:
        return f"{self.cpus:g} CPU" + (f", {self.gpus:g} GPU" if self.gpus else "")

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(self.cpus + other.cpus, self.gpus + other.gpus)

    @property
    def bundle(self) -> dict[str, float]:
        """The resources as a bundle of Ray's placement group."""
        return {"CPU": self.cpus} | ({"GPU": self.gpus} if self.gpus else {})

    def fit(self, node: "Resources") -> bool:
        """Whether a node has as much; 3 times 0.1 fits into 0.3."""
        return self.cpus <= node.cpus + SLACK and self.gpus <= node.gpus + SLACK

    @property
    def ranks(self) -> int:
        """Number of ranks of a trainer: one for each GPU."""
        return max(1, int(self.gpus))

    @property
    def threads_per_rank(self) -> int:
        """Whole CPUs of each rank, at least one."""
        return max(1, int(self.cpus / self.ranks))


NOTHING = Resources(0.0, 0.0)


@dataclass(frozen=True)
class Member:
    """One supervised process of the fleet, or one torchrun with its ranks.

    Attributes:
        name: Name in the fleet's output, and of the run folder.
        kind: Type of worker.
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

    Learners are named by their role; the second of a role gets the number 2. Each has its own seed, since with the same
    seed they would start from the same weights.

    Raises:
        ConfigError: The fleet would be empty, a role would have no trainer, or a trainer would reject its settings.
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


def check_capacity(members: Sequence[Member], nodes: Sequence[Resources]) -> None:
    """Check that idle nodes could hold the fleet: in total, and each member on one node.

    Raises:
        CapacityError: They could not.
    """
    needed, available = sum((member.resources for member in members), NOTHING), sum(nodes, NOTHING)
    too_large = [member.name for member in members if not any(member.resources.fit(node) for node in nodes)]
    if too_large or not needed.fit(available):
        problem = f"; {too_large[0]} fits on no single one" if too_large else ""
        raise CapacityError(
            f"the fleet needs {needed} in total ({describe(members)}), and the cluster has {available} "
            f"(nodes: {'; '.join(map(str, nodes)) or 'none'}){problem}: give smaller numbers with "
            "--trainers, --evaluators, --cpus-per-trainer or --gpus-per-trainer, or a larger cluster with --address"
        )


def check_nodes(surveys: Mapping[str, NodeSurvey], version: str, league: str) -> None:
    """Check that all nodes have the driver's version, reach the league, and see the same run folders.

    Raises:
        CapacityError: A node has another version, or a run folder is not on shared storage.
        ConfigError: The league has a loopback address, and there are several nodes.
    """
    if len(surveys) > 1 and urlsplit(league).hostname in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"--url {league} is another machine on each of the cluster's {len(surveys)} nodes: give the name by "
            "which all of them reach the server"
        )
    begun = frozenset[str]().union(*(begun for _, begun in surveys.values()))
    for address, (node_version, visible) in surveys.items():
        if node_version != version:
            raise CapacityError(
                f"node {address} has echelon-league {node_version}, this machine {version}: install the same version"
            )
        if missing := begun - visible:
            raise CapacityError(
                f"node {address} does not see the run folder of {', '.join(sorted(missing))}, another node does: give "
                "--runs a folder on storage that all nodes share"
            )


def describe(members: Sequence[Member]) -> str:
    """Describe the resources of members, such as `2 x trainer (1 CPU, 1 GPU)`."""
    identical = Counter((member.kind, member.resources) for member in members)
    return ", ".join(f"{count} x {kind} ({resources})" for (kind, resources), count in identical.items())


def _check(spec: FleetSpec) -> None:
    gpus = spec.resources.gpus
    if gpus > 1 and not gpus.is_integer():
        raise ConfigError(
            f"--gpus-per-trainer {gpus:g} is neither at most one GPU nor a whole number of GPUs: give {int(gpus)} "
            f"or {int(gpus) + 1}, each with a rank of its own, or 1 or less"
        )
    if spec.trainers + spec.evaluators == 0:
        raise ConfigError("--trainers 0 and --evaluators 0 leave the fleet empty: set at least one of them")
    if len(spec.roles) > spec.trainers > 0:
        raise ConfigError(
            f"--roles has {len(spec.roles)} roles for {spec.trainers} trainers, so some roles would have no trainer: "
            f"give --trainers {len(spec.roles)} or more, or fewer roles"
        )


def _numbered(names: Sequence[str]) -> list[str]:
    """Return the names, with a number from the second of each on."""
    earlier = [names[:index].count(name) for index, name in enumerate(names)]
    return [f"{name}-{count + 1}" if count else name for name, count in zip(names, earlier, strict=True)]


def _trainer(spec: FleetSpec, name: str, role: Role, index: int) -> Member:
    name, ranks = f"{spec.prefix}{name}", spec.resources.ranks
    settings = [*spec.overrides, *_derived_settings(spec, index)]
    config = resolve(spec.environment, None, [*settings, f"league.learner={name}", f"league.role={role}"])
    # Only for its checks: a batch that cannot be split among the ranks is reported before anything starts.
    shard_config(config, RankInfo(0, ranks, 0, ranks))
    launch = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "--") if ranks > 1 else ()
    folder = run_folder(spec.runs, spec.environment, name)
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
