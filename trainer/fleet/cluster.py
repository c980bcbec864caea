"""Ray: machines, room on them, and a keeper for each member as an actor. The only module that knows Ray."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trainer.errors import ConfigError, TrainerError
from trainer.fleet.keeper import Keeper, Orders, Report
from trainer.fleet.members import Member
from trainer.fleet.room import Machine, NoRoomError, require_room, summary
from trainer.fleet.watch import LostError
from trainer.folder import RunFolder

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.util.placement_group import PlacementGroup

PATIENCE_S = 60.0
"""How long machines may take to answer, and the cluster to have room."""

TRACE = 0.001
"""So little of the resource that Ray gives each machine by its address keeps work on that machine."""

NO_KILLING = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""Ray kills the children of an actor that ends; ours hear of it by their tether, save, and leave."""

AUTH_MODE = "RAY_AUTH_MODE"


class Survey:
    """What machines said of themselves.

    Attributes:
        began: Names of members whose run folder at least one machine sees.
        homes: The address of a machine that sees it, for members that not all do.
    """

    def __init__(self, seen: Mapping[str, Sequence[str]]) -> None:
        self.began = frozenset(name for names in seen.values() for name in names)
        self.homes = {
            name: next(address for address, names in seen.items() if name in names)
            for name in self.began
            if not all(name in names for names in seen.values())
        }


class RayCluster:
    """A cluster with a place for every member; `opened` makes one.

    Args:
        ray: The module.
        members: Who is to run.
        league: The league's address, which all machines must reach.
    """

    def __init__(self, ray: ModuleType, members: Sequence[Member], league: str) -> None:
        self._ray = ray
        alive = [node for node in ray.nodes() if node["Alive"]]
        require_room(members, [_machine(node) for node in alive])
        addresses = [node["NodeManagerAddress"] for node in alive]
        _require_reachable(league, addresses)
        survey = Survey(self._survey(members, addresses))
        self.began = survey.began
        self._numbers = {member.name: number for number, member in enumerate(members)}
        self._group = self._reserve([_bundle(member, survey.homes.get(member.name)) for member in members], members)

    def open(self, orders: Orders) -> "RayStation":
        """Start a keeper at its member's place."""
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self._group, placement_group_bundle_index=self._numbers[orders.member.name]
        )
        share = orders.member.share
        remote = self._ray.remote(KeeperActor).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_restarts=0,
            scheduling_strategy=strategy,
            runtime_env={"env_vars": NO_KILLING},
        )
        return RayStation(self._ray, remote.remote(), orders)

    def _survey(self, members: Sequence[Member], addresses: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Ask every machine which runs it has; all must have this version."""
        folders = {member.name: str(member.folder) for member in members}
        ask = self._ray.remote(_look_around)
        asked = {
            address: ask.options(num_cpus=0, resources={f"node:{address}": TRACE}).remote(folders)
            for address in addresses
        }
        seen = {}
        for address, answer in asked.items():
            try:
                version, names = self._ray.get(answer, timeout=PATIENCE_S)
            except self._ray.exceptions.GetTimeoutError as error:
                rule = f"machine {address} of the cluster did not answer in {PATIENCE_S:g} s"
                raise NoRoomError(f"{rule}: look at it with `ray status`, or take it out") from error
            except self._ray.exceptions.RayError as error:
                rule = f"machine {address} of the cluster cannot run this program ({_first_line(error)})"
                raise NoRoomError(f"{rule}: install 'echelon-league[train,fleet]' there") from error
            if version != metadata.version("echelon-league"):
                rule = f"machine {address} has echelon-league {version}, this one {metadata.version('echelon-league')}"
                raise NoRoomError(f"{rule}: install the same on all")
            seen[address] = names
        return seen

    def _reserve(self, bundles: Sequence[dict[str, float]], members: Sequence[Member]) -> "PlacementGroup":
        group: PlacementGroup = self._ray.util.placement_group(bundles, strategy="PACK")
        if group.wait(PATIENCE_S):
            return group
        free = self._ray.available_resources()
        self._ray.util.remove_placement_group(group)
        raise NoRoomError(
            f"the fleet takes {summary(members)}, and the cluster has had no room for {PATIENCE_S:g} s; free in all: "
            f"{free.get('CPU', 0):g} CPU, {free.get('GPU', 0):g} GPU: wait for its other jobs, or ask for less"
        )


class RayStation:
    """A keeper's actor; one question is on its way at a time."""

    def __init__(self, ray: ModuleType, actor: "ActorHandle[Any]", orders: Orders) -> None:
        self._ray = ray
        self._actor = actor
        # by a call, whose arguments Ray does not keep, rather than with the actor, whose description it does
        self._asked: Any = actor.keep.remote(orders)

    def report(self) -> Report | None:
        """Return the next report, or None until there is one."""
        ready, _ = self._ray.wait([self._asked], timeout=0)
        if not ready:
            return None
        try:
            report: Report = self._ray.get(self._asked)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TrainerError | OSError):
                raise TrainerError(str(error.cause)) from error
            raise
        except self._ray.exceptions.RayError as error:
            raise LostError(_first_line(error)) from error
        self._asked = self._actor.report.remote()
        return report

    def leave(self) -> None:
        """Ask the member to save and leave."""
        self._actor.leave.remote()

    def kill(self) -> None:
        """End the member by force, and wait until that has been heard."""
        self._ray.wait([self._actor.kill.remote()], timeout=1.0)


class KeeperActor:
    """A keeper in a process of Ray's. It has one thread, which lives as long as it does, as keepers want it."""

    def keep(self, orders: Orders) -> Report:
        """Start a member."""
        self._keeper = Keeper(orders)
        return self._keeper.report()

    def report(self) -> Report:
        """Look after it."""
        return self._keeper.report()

    def leave(self) -> None:
        """Ask it to save and leave."""
        self._keeper.leave()

    def kill(self) -> None:
        """End it by force."""
        self._keeper.kill()


@contextmanager
def opened(address: str | None, members: Sequence[Member], league: str) -> Iterator[RayCluster]:
    """Join a cluster, or make one of this machine where no address is given, and reserve a place for every member.

    Raises:
        ConfigError: Ray is not installed, or there is no cluster at the address.
        NoRoomError: The members do not fit, or a machine cannot run them.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ConfigError(
            "a fleet needs Ray, which is not installed: pip install 'echelon-league[fleet]', or give --dry-run"
        ) from error
    try:
        _join(ray, {"address": "local", "include_dashboard": False} if address is None else {"address": address})
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
        where = address or "this machine"
        raise ConfigError(
            f"no Ray cluster at {where} ({_first_line(error)}): start one with `ray start --head`, correct --address, "
            f"or leave it out for one of this machine{_of_tokens(address)}"
        ) from error
    try:
        yield RayCluster(ray, members, league)
    finally:
        ray.shutdown()


def _join(ray: ModuleType, where: Mapping[str, Any]) -> None:
    """Join a cluster. One at work may take longer than Ray waits to open a place for a caller: it is asked twice."""
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)
    except ConnectionAbortedError:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **where)


def _of_tokens(address: str | None) -> str:
    """What to try at a named address: Ray sends its token there only when told to, and refusals look like silence."""
    if address in (None, "auto") or os.environ.get(AUTH_MODE) == "token":
        return ""
    return f"; a cluster that has a token, as most have, wants {AUTH_MODE}=token here and the same ~/.ray/auth_token"


def _look_around(folders: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """On a machine: return its version of this program, and the names of the runs that have begun there."""
    begun = tuple(name for name, folder in folders.items() if RunFolder(Path(folder)).identity.exists())
    return metadata.version("echelon-league"), begun


def _machine(node: Mapping[str, Any]) -> Machine:
    has = node["Resources"]
    return Machine(node["NodeManagerAddress"], has.get("CPU", 0.0), has.get("GPU", 0.0))


def _bundle(member: Member, home: str | None) -> dict[str, float]:
    """What a member reserves; a run that has begun on one machine goes on there."""
    share = {"CPU": member.share.cpus, "GPU": member.share.gpus, f"node:{home}": TRACE if home else 0.0}
    return {name: amount for name, amount in share.items() if amount > 0}


def _require_reachable(league: str, addresses: Sequence[str]) -> None:
    """Refuse a league that only one of several machines can reach.

    Raises:
        ConfigError: Its address is one of loopback.
    """
    if len(addresses) > 1 and urlsplit(league).hostname in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"--league {league} is another machine on each of the cluster's {len(addresses)}: give the name by which "
            "all of them reach the server"
        )


def _first_line(error: Exception) -> str:
    """What an error says in a line; where the first only announces the others, the last one says it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
