"""Runs the process of one member on its node."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from typer import echo

from arena.exit_status import TRY_LATER
from trainer.distributed.launch import OWN_STORE
from trainer.errors import FleetError
from trainer.fleet.members import Member

LOG = "output.log"
"""Log of a member's output, in its run folder."""

LOG_POLL_S = 0.2
TRY_LATER_S = 30.0
"""Pause before a process that ended because the league does not answer is started again."""


@dataclass(frozen=True)
class Launch:
    """A member to run.

    Attributes:
        member: The member.
        environment: Variables added to the node's own environment, the league's token among them.
        begun: Whether Ray has restarted it. A node without its run folder then refuses to start it.
    """

    member: Member
    environment: Mapping[str, str] = field(repr=False)
    begun: bool = False


class Supervisor:
    """Process of one member; its output goes to a log in the run folder, and from there to standard output."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()

    def run(self, launch: Launch) -> int:
        """Run the process to its end, again while the league does not answer; return its exit status, -N for signal N.

        Raises:
            FleetError: The run has begun, and its run folder does not exist on this node.
        """
        folder, node = launch.member.folder, socket.gethostname()
        if launch.begun and not folder.exists():
            raise FleetError(
                f"{launch.member.name} was trained on another node, and {node} does not see its run folder {folder}: "
                "give --runs a folder that all nodes share"
            )
        folder.mkdir(parents=True, exist_ok=True)
        echo(f"runs on {node}, run folder {folder}")
        exit_status = 0
        while not self._stop.is_set():
            exit_status = self._run_process(launch)
            if exit_status != TRY_LATER:
                break
            echo(f"ended with status {TRY_LATER}: the league does not respond; restarting in {TRY_LATER_S:g} s")
            self._stop.wait(TRY_LATER_S)
        return exit_status

    def stop(self) -> None:
        """Ask the process to save and leave. Call it once: a second SIGTERM ends the process without saving."""
        self._stop.set()
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill the process and all that it started."""
        self._stop.set()
        _kill_group(self._process)

    def _run_process(self, launch: Launch) -> int:
        path = launch.member.folder / LOG
        threads = str(launch.member.resources.threads_per_rank)
        common = {"OMP_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1", OWN_STORE: "1"}
        # it gets SIGTERM when its supervisor dies, and so saves and leaves
        linked = (sys.executable, "-P", "-m", "league.process.die_with_parent", str(os.getpid()))
        with path.open("ab") as log, path.open(errors="replace") as output:
            output.seek(0, os.SEEK_END)
            self._process = process = subprocess.Popen(  # noqa: S603 - our own commands
                (*linked, sys.executable, "-P", "-m", *launch.member.command),
                # The node's own variables override the common ones, and those of the launch override both.
                env={**common, **os.environ, **launch.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            # `stop` may have come before there was a process to terminate.
            if self._stop.is_set():
                process.terminate()
            while process.poll() is None:
                echo(output.read(), nl=False)
                time.sleep(LOG_POLL_S)
            _kill_group(process)  # ranks of a torchrun that was killed
            echo(output.read(), nl=False)
            return process.returncode


def _kill_group(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def describe_exit(exit_status: int) -> str:
    """Describe an exit status, such as `signal SIGKILL`."""
    return f"signal {signal.Signals(-exit_status).name}" if exit_status < 0 else f"status {exit_status}"
