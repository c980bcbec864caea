"""Ray: nodes, the placement group, and the supervisors as actors. The only module that imports Ray."""

import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from typer import echo

from arena.exit_status import PERMANENT
from trainer.errors import ConfigError, FleetError
from trainer.fleet.members import CapacityError, Member, NodeSurvey, Resources, check_capacity, check_nodes, describe
from trainer.fleet.supervisor import Launch, Supervisor, describe_exit

if TYPE_CHECKING:
    from ray.actor import ActorHandle

TIMEOUT_S = 60.0
"""How long nodes may take to answer, and the cluster to have free resources."""

MAX_RESTARTS = 20
"""Restarts of a member, whether its process, its supervisor or its node died."""

RESTART_DELAY_S = 5.0
"""Pause between the death of a member and its restart."""

KEEP_CHILDREN = {"RAY_kill_child_processes_on_worker_exit": "0"}
"""Ray would kill the children of an actor that dies. Ours get SIGTERM from the kernel, save, and leave."""

NODE_SHARE = 0.001
"""Amount of the resource `node:ADDRESS`, which every node has, that keeps a task on its node."""


class RayCluster:
    """A cluster with a placement group that has a bundle for every member.

    Args:
        ray: The module.
        members: The members.
        league: The league's address, which all nodes must reach.

    Attributes:
        group: The placement group, one bundle for each member.
    """

    def __init__(self, ray: ModuleType, members: Sequence[Member], league: str) -> None:
        self._ray = ray
        nodes = {node["NodeManagerAddress"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
        check_capacity(members, list(map(_resources, nodes.values())))
        check_nodes(self._survey(members, list(nodes)), metadata.version("echelon-league"), league)
        self._indices = {member.name: index for index, member in enumerate(members)}
        self.group = ray.util.placement_group([member.resources.bundle for member in members], strategy="PACK")
        if not self.group.wait(TIMEOUT_S):
            raise CapacityError(
                f"the fleet needs {describe(members)}, but Ray could not place all within {TIMEOUT_S:g} s; free in "
                f"total: {_resources(ray.available_resources())}: wait for the cluster's other jobs, or ask for less"
            )

    def start(self, launch: Launch) -> "RemoteSupervisor":
        """Start a member under a supervisor in its bundle."""
        resources = launch.member.resources
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            self.group, placement_group_bundle_index=self._indices[launch.member.name]
        )
        actor = self._ray.remote(SupervisorActor).options(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            max_restarts=MAX_RESTARTS,
            max_task_retries=MAX_RESTARTS,
            # One call runs the member, and another one stops it.
            max_concurrency=2,
            scheduling_strategy=strategy,
            runtime_env={"env_vars": KEEP_CHILDREN},
        )
        return RemoteSupervisor(self._ray, actor.remote(launch.member.name), launch)

    def _survey(self, members: Sequence[Member], addresses: Sequence[str]) -> dict[str, NodeSurvey]:
        folders = {member.name: str(member.folder) for member in members}
        ask = self._ray.remote(num_cpus=0)(_survey_node)
        pending = {each: ask.options(resources={f"node:{each}": NODE_SHARE}).remote(folders) for each in addresses}
        surveys = {}
        for address, answer in pending.items():
            try:
                surveys[address] = self._ray.get(answer, timeout=TIMEOUT_S)
            except self._ray.exceptions.RayError as error:
                raise CapacityError(
                    f"node {address} of the cluster cannot run this program ({_summary(error)}): install "
                    "'echelon-league[train,fleet]' there, or look at it with `ray status`"
                ) from error
        return surveys


class SupervisorActor(Supervisor):
    """A supervisor that Ray restarts when it or its member dies; Ray then repeats the call of `run`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __repr__(self) -> str:  # Ray puts it before each line of output
        return self._name

    def run(self, launch: Launch) -> int:
        """Run a member until it ends with status 0, 2 or 78, or is asked to leave."""
        import ray

        context = ray.get_runtime_context()
        with warnings.catch_warnings(action="ignore"):  # Ray's property reads one that Ray has deprecated
            restarted = context.was_current_actor_reconstructed
        exit_status = super().run(replace(launch, begun=restarted))
        if exit_status in (0, *PERMANENT) or self._stop.is_set():
            return exit_status
        echo(f"ended with {describe_exit(exit_status)}; Ray restarts it, at most {MAX_RESTARTS} times")
        if not self._stop.wait(RESTART_DELAY_S):
            # Ray restarts an actor that dies, but not one whose call returns.
            ray.kill(context.current_actor, no_restart=False)
            threading.Event().wait()  # Ray ends this process
        return exit_status


class RemoteSupervisor:
    """The driver's handle of a supervisor in an actor."""

    def __init__(self, ray: ModuleType, actor: "ActorHandle[Any]", launch: Launch) -> None:
        self._ray = ray
        self._actor = actor
        # secrets are arguments of a call and not of the constructor, which the cluster stores
        self._result: Any = actor.run.remote(launch)

    def exit_status(self) -> int | None:
        """Return how the member has ended for good, or None while it runs or is restarted."""
        ready, _ = self._ray.wait([self._result], timeout=0)
        try:
            return self._ray.get(self._result) if ready else None
        except self._ray.exceptions.RayTaskError as error:
            raise FleetError(str(error.cause)) from error
        except self._ray.exceptions.RayError as error:
            raise FleetError(
                f"{_summary(error)} Its output has the reason; Ray restarts it {MAX_RESTARTS} times"
            ) from error

    def stop(self) -> None:
        """Ask the member to save and leave."""
        self._actor.stop.remote()

    def kill(self) -> None:
        """Kill the member's process, and wait up to a second for that."""
        self._ray.wait([self._actor.kill.remote()], timeout=1.0)


@contextmanager
def connect(address: str | None, members: Sequence[Member], league: str) -> Iterator[RayCluster]:
    """Join a cluster, or start one of this machine if no address is given, and reserve resources for every member.

    Raises:
        ConfigError: Ray is not installed, or there is no cluster at the address.
        CapacityError: The members do not fit, or a node cannot run them.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # members print alike lines, and all of them count
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ConfigError(
            "a fleet needs Ray, which is not installed: pip install 'echelon-league[fleet]', or give --dry-run"
        ) from error
    where: dict[str, Any] = {"address": address} if address else {"address": "local", "include_dashboard": False}
    try:
        ray.init(logging_level=logging.ERROR, **where)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
        raise ConfigError(
            f"no Ray cluster at {address or 'this machine'} ({_summary(error)}): start one with `ray start --head`, "
            "correct --address, or leave it out for one of this machine; a cluster with a token, as most have, needs "
            "RAY_AUTH_MODE=token here and the same ~/.ray/auth_token"
        ) from error
    try:
        yield RayCluster(ray, members, league)
    finally:
        ray.shutdown()


def _survey_node(folders: Mapping[str, str]) -> NodeSurvey:
    begun = frozenset(name for name, folder in folders.items() if Path(folder).exists())
    return metadata.version("echelon-league"), begun


def _resources(amounts: Mapping[str, float]) -> Resources:
    return Resources(amounts.get("CPU", 0.0), amounts.get("GPU", 0.0))


def _summary(error: Exception) -> str:
    """Return the first line of an error, with the last one if the first only introduces the others."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return f"{lines[0]} {lines[-1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
