"""Who is in a fleet: trainers and evaluators, each with its command, its run folder and what it takes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arena.policies.modules import NAMED_VARIABLE
from league.wire import Role
from trainer.config import parse_assignments, resolve
from trainer.errors import ConfigError
from trainer.settings.run import WORKER_NAME_MAX, check_name
from trainer.torchrun import Place, share_of

MODULE_KEY = "module"
EVALUATOR_CPUS = 1.0
"""An evaluator computes with one thread."""


@dataclass(frozen=True)
class Share:
    """What a member takes of its machine.

    Raises:
        ConfigError: It is more than one GPU, and not a whole number of them, or without end.
    """

    cpus: float
    gpus: float

    def __post_init__(self) -> None:
        for option, asked in (("--cpus-per-trainer", self.cpus), ("--gpus-per-trainer", self.gpus)):
            if not math.isfinite(asked):
                raise ConfigError(f"{option} is {asked:g}, which no machine has: give a number")
        if self.gpus > 1 and not self.gpus.is_integer():
            raise ConfigError(
                f"--gpus-per-trainer {self.gpus:g} is neither a part of one GPU nor a whole number of them: give "
                f"{int(self.gpus)} or {int(self.gpus) + 1}, each with a rank of its own, or 1 or less"
            )

    @property
    def ranks(self) -> int:
        """Processes that learn together, one for each GPU."""
        return max(1, int(self.gpus))

    @property
    def cpus_of_each(self) -> int:
        """Whole CPUs of each of them, at least one."""
        return max(1, int(self.cpus / self.ranks))


@dataclass(frozen=True)
class Member:
    """One process of the fleet.

    Attributes:
        name: By what the fleet's output and its run folder call it.
        kind: What it does.
        share: What it takes of its machine.
        folder: Its run folder, an absolute path of its machine.
        words: Its command, after `python -m`.
    """

    name: str
    kind: Literal["trainer", "evaluator"]
    share: Share
    folder: Path
    words: tuple[str, ...]


@dataclass(frozen=True)
class Wish:
    """A fleet as it was asked for.

    Attributes:
        environment: The game.
        trainers: How many learners.
        evaluators: How many evaluators.
        share: What each trainer takes.
        roles: Roles of the learners, in turn.
        prefix: Before every name.
        runs: Folder of the run folders.
        overrides: `section.key=value` settings of all trainers.
    """

    environment: str
    trainers: int
    evaluators: int
    share: Share
    roles: tuple[Role, ...]
    prefix: str
    runs: Path
    overrides: tuple[str, ...]


def enlist(wish: Wish) -> tuple[Member, ...]:
    """Return the members, trainers first.

    Learners are called by their role, from the second of a role on with its number, and have seeds of their own: with
    the same one, lineages would begin as one and the same network.

    Raises:
        ConfigError: There would be none, a role would be left out, or a trainer would refuse its settings.
    """
    if wish.trainers + wish.evaluators == 0:
        raise ConfigError("--trainers 0 and --evaluators 0 make no fleet: give at least one of them")
    if len(wish.roles) > wish.trainers > 0:
        raise ConfigError(
            f"--roles has {len(wish.roles)} roles for {wish.trainers} trainers, so that some would have none: give "
            f"--trainers {len(wish.roles)} or more, or fewer roles"
        )
    roles = [wish.roles[number % len(wish.roles)] for number in range(wish.trainers)]
    trainers = [
        _trainer(wish, name, role, number)
        for number, (name, role) in enumerate(
            zip(_numbered([role.replace("_", "-") for role in roles]), roles, strict=True)
        )
    ]
    return (*trainers, *(_evaluator(wish, name) for name in _numbered(["evaluator"] * wish.evaluators)))


def variables(overrides: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what every member finds in its environment: the network modules that the driver or the settings name."""
    module = str(parse_assignments(overrides).get("network", {}).get(MODULE_KEY, ""))
    named = ",".join(filter(None, (environ.get(NAMED_VARIABLE, ""), module)))
    return {NAMED_VARIABLE: named} if named else {}


def _numbered(names: Sequence[str]) -> list[str]:
    """Names with a number from the second of a kind on."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return numbered


def _trainer(wish: Wish, name: str, role: Role, number: int) -> Member:
    name = f"{wish.prefix}{name}"
    who = (f"league.learner={name}", f"league.role={role}")
    own, ranks = _own_settings(wish, number), wish.share.ranks
    share_of(resolve(wish.environment, None, [*wish.overrides, *own, *who]), Place(0, ranks, 0, ranks))
    settings = [word for setting in (*wish.overrides, *own) for word in ("--set", setting)]
    folder = wish.runs / name
    game = ("--environment", wish.environment, "--run", str(folder))
    launch = ("torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m", "--") if ranks > 1 else ()
    words = (*launch, "trainer", "run", *game, "--learner", name, "--role", role, *settings)
    return Member(name, "trainer", wish.share, folder, words)


def _own_settings(wish: Wish, number: int) -> list[str]:
    """Settings that a trainer has because of its place; what the user says about device and threads holds."""
    given = parse_assignments(wish.overrides).get("run", {})
    share = wish.share
    own = {
        "seed": resolve(wish.environment, None, wish.overrides).run.seed + number,
        **({"device": "cuda" if share.ranks > 1 else "cuda:0"} if share.gpus > 0 and "device" not in given else {}),
        **({"threads": share.cpus_of_each} if share.cpus_of_each >= 2 and "threads" not in given else {}),
    }
    return [f"run.{key}={value}" for key, value in own.items()]


def _evaluator(wish: Wish, name: str) -> Member:
    name = f"{wish.prefix}{name}"
    try:
        check_name(name, WORKER_NAME_MAX)
    except ValueError as error:
        raise ConfigError(f"--prefix {wish.prefix!r} makes {name!r} of an evaluator: {error}") from error
    folder = wish.runs / name
    game = ("--environment", wish.environment, "--run", str(folder))
    words = ("trainer", "evaluate", *game, "--name", name, "--duty", "1")
    return Member(name, "evaluator", Share(EVALUATOR_CPUS, 0.0), folder, words)
