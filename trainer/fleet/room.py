"""Whether a fleet fits on machines, told before anything starts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trainer.errors import TrainerError
from trainer.fleet.members import Member, Share

SLACK = 1e-9
"""Shares are fractions: 3 times 0.1 fits into 0.3."""


class NoRoomError(TrainerError):
    """Machines are too small, too few or too busy for a fleet."""


@dataclass(frozen=True)
class Machine:
    """What a machine has in all."""

    name: str
    cpus: float
    gpus: float


def require_room(members: Sequence[Member], machines: Sequence[Machine]) -> None:
    """Find out that all members fit on machines that have nothing else to do.

    Raises:
        NoRoomError: They do not.
    """
    trainers = [member.share for member in members if member.kind == "trainer"]
    evaluators = [member.share for member in members if member.kind == "evaluator"]
    wanted = len(trainers), len(evaluators)
    beside = most_beside(machines, (trainers or evaluators)[0], wanted[0], (evaluators or trainers)[0], wanted[1])
    if beside.get(wanted[0]) == wanted[1]:
        return
    most = max(number for number in beside)
    way_out = f"{most} trainers and {beside[most]} evaluators fit" if most + beside[most] else "nothing of it fits"
    raise NoRoomError(
        f"the fleet takes {summary(members)}, the machines have {', '.join(map(_shown, machines)) or 'nothing'}: "
        f"{way_out}; give smaller numbers with --trainers, --evaluators, --cpus-per-trainer or --gpus-per-trainer, or "
        "a larger cluster with --address"
    )


def most_beside(
    machines: Sequence[Machine], trainer: Share, trainers: int, evaluator: Share, evaluators: int
) -> dict[int, int]:
    """Return for each number of trainers that fits, up to `trainers`, how many evaluators fit beside, at most so many.

    Exact: machine by machine, every way to split it between the two is tried.
    """
    most = {0: 0}
    for machine in machines:
        splits = {
            number: more
            for number in range(trainers + 1)
            if (more := _left(machine, trainer, number, evaluator)) is not None
        }
        after: dict[int, int] = {}
        for before, beside in most.items():
            for number, more in splits.items():
                if before + number <= trainers:
                    together = min(beside + more, evaluators)
                    after[before + number] = max(after.get(before + number, 0), together)
        most = after
    return most


def summary(members: Sequence[Member]) -> str:
    """Say what members take, alike ones together."""
    alike = Counter((member.kind, member.share) for member in members)
    return ", ".join(f"{count} x {kind} ({shown(share)})" for (kind, share), count in alike.items())


def shown(share: Share | Machine) -> str:
    """Say it in words."""
    return f"{share.cpus:g} CPU" + (f", {share.gpus:g} GPU" if share.gpus else "")


def _left(machine: Machine, trainer: Share, number: int, evaluator: Share) -> int | None:
    """How many evaluators fit beside so many trainers; None where these do not fit."""
    cpus, gpus = machine.cpus - number * trainer.cpus, machine.gpus - number * trainer.gpus
    if min(cpus, gpus) < -SLACK:
        return None
    return int((cpus + SLACK) / evaluator.cpus)


def _shown(machine: Machine) -> str:
    return f"{machine.name} ({shown(machine)})"
