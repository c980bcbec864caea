"""Checks of a fleet against the nodes of a cluster. Ray's placement group decides which node a member runs on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from trainer.errors import ConfigError, TrainerError
from trainer.fleet.members import Member, Resources

SLACK = 1e-9
"""Resources are fractions: 3 times 0.1 fits into 0.3."""


class CapacityError(TrainerError):
    """The cluster is too small or too busy for the fleet, or one of its nodes cannot run it."""


@dataclass(frozen=True)
class NodeSurvey:
    """A node's version of this program, and the members whose run folders it sees."""

    version: str
    begun: frozenset[str]


def check_capacity(members: Sequence[Member], nodes: Sequence[Resources]) -> None:
    """Check that idle nodes could hold the fleet: in total, and each member on one node.

    Raises:
        CapacityError: They could not.
    """
    needed, total = _sum([member.resources for member in members]), _sum(nodes)
    too_large = [member.name for member in members if not any(_fits(member.resources, node) for node in nodes)]
    if too_large or not _fits(needed, total):
        problem = f"; {too_large[0]} fits on no single one" if too_large else ""
        raise CapacityError(
            f"the fleet needs {needed} in total ({describe(members)}), and the cluster has {total} "
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
            f"--league {league} is another machine on each of the cluster's {len(surveys)} nodes: give the name by "
            "which all of them reach the server"
        )
    begun = frozenset[str]().union(*(survey.begun for survey in surveys.values()))
    for address, survey in surveys.items():
        if survey.version != version:
            problem = f"node {address} has echelon-league {survey.version}, this machine {version}"
            raise CapacityError(f"{problem}: install the same version on all")
        if missing := begun - survey.begun:
            problem = f"node {address} does not see the run folder of {', '.join(sorted(missing))}, another node does"
            raise CapacityError(f"{problem}: give --runs a folder on storage that all nodes share")


def bundle(member: Member) -> dict[str, float]:
    """Return a member's bundle of the placement group."""
    gpus = {"GPU": member.resources.gpus} if member.resources.gpus else {}
    return {"CPU": member.resources.cpus, **gpus}


def describe(members: Sequence[Member]) -> str:
    """Describe the resources of members, such as `2 x trainer (1 CPU, 1 GPU)`."""
    alike = Counter((member.kind, member.resources) for member in members)
    return ", ".join(f"{count} x {kind} ({resources})" for (kind, resources), count in alike.items())


def _sum(amounts: Sequence[Resources]) -> Resources:
    return Resources(sum(each.cpus for each in amounts), sum(each.gpus for each in amounts))


def _fits(needed: Resources, node: Resources) -> bool:
    return needed.cpus <= node.cpus + SLACK and needed.gpus <= node.gpus + SLACK
