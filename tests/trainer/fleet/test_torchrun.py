"""A trainer of two ranks on a Ray cluster with a network of its own, joined by its client port with a token."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import hosts
import pytest
from distant_league import address, until
from fault_proxy import passing_on
from refused import assert_names
from served import Served, serving
from small_runs import RPS, logged, same_results, spooled

from league.client import LeagueClient

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="no Ray here: pip install 'echelon-league[fleet]'"),
]

CLIENT_PORT = 10001
PACE = ["run.device=cpu", "league.heartbeat_s=1", "league.backoff_max_s=1", "run.save_every_updates=10"]


@dataclass(frozen=True)
class Cluster:
    """One machine that is said to have two GPUs.

    Attributes:
        host: Its name.
        variables: Of the environment of who knows its token and the league's.
        url: Of a league's server, from there.
        served: The server.
    """

    host: str
    variables: Mapping[str, str]
    url: str
    served: Served

    @property
    def command(self) -> tuple[str, ...]:
        """What runs a command there."""
        return "ip", "netns", "exec", self.host

    def call(self, *words: str) -> None:
        """Run a command of Ray's to its end."""
        subprocess.run([*self.command, sys.executable, "-m", "ray.scripts.scripts", *words],
                       env={**os.environ, **self.variables}, check=True, capture_output=True)  # fmt: skip


def end_all(host: str) -> None:
    """Kill every process of the cluster: `ray stop` would end those of other clusters of this machine too."""
    while found := hosts.processes(host):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        here = stack.enter_context(hosts.connected(1))
        [host] = here.names
        make = [sys.executable, "-m", "league", "token", "create", "test", "--scope", "admin", "--home", str(tmp_path)]
        subprocess.run([*make, "--out", str(tmp_path / "token")], check=True, capture_output=True)
        served = stack.enter_context(serving(tmp_path))
        road = stack.enter_context(passing_on(lambda: [address(served.url)], here.here))
        short = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))  # addresses of sockets are in it
        variables = {"HOME": str(tmp_path), "LEAGUE_TOKEN_FILE": str(tmp_path / "token")}
        made = Cluster(host, variables, road.url, served)
        stack.callback(end_all, host)
        made.call("get-auth-token", "--generate")
        size = ("--num-cpus", "3", "--num-gpus", "2", "--object-store-memory", "100000000")
        ports = ("--port", "6379", "--ray-client-server-port", str(CLIENT_PORT))
        made.call("start", "--head", "--include-dashboard", "false", "--temp-dir", short, *size, *ports)
        yield made


class Fleet:
    """`trainer fleet` there, and what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    def said(self) -> str:
        return self._log.read_text()

    def until(self, there: Callable[[], bool]) -> None:
        """Wait until it is so; a fleet that ends meanwhile fails the test."""

        def looked() -> bool:
            assert self.process.poll() is None, self.said()[-3000:]
            return there()

        until(looked)


@contextmanager
def fleet(cluster: Cluster, runs: Path, *options: str, **variables: str) -> Iterator[Fleet]:
    settings = [word for each in (*RPS, *PACE) for word in ("--set", each)]
    where = ("--url", cluster.url, "--runs", str(runs), "--address", f"ray://127.0.0.1:{CLIENT_PORT}")
    command = [*cluster.command, sys.executable, "-m", "trainer", "fleet", "--environment", "rps", *where, *settings]
    log = runs.with_suffix(".log")
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [*command, *options], env={**os.environ, **cluster.variables, **variables}, stdout=stream, stderr=stream
        )
    try:
        yield Fleet(process, log)
    finally:
        process.kill()
        process.wait()


def launchers(host: str) -> list[int]:
    """Processes of torchrun itself."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in hosts.processes(host)}
    return [pid for pid, words in commands.items() if b"torch.distributed.run" in words]


def test_two_ranks_resume_after_their_torchrun_was_killed(cluster: Cluster, tmp_path: Path) -> None:
    runs, token = tmp_path / "runs", {"RAY_AUTH_MODE": "token"}
    two = ("--gpus-per-trainer", "2", "--cpus-per-trainer", "2")
    with fleet(cluster, runs, *two, **token) as running:
        running.until(lambda: running.said().count("update ") > 10)
        assert_names(running.said(), 2, 4)
        assert "(evaluator pid=" in running.said()
        [launcher] = launchers(cluster.host)
        os.kill(launcher, signal.SIGKILL)
        running.until(lambda: "resumed at step" in running.said())
        assert "ended with signal SIGKILL; Ray restarts it" in running.said()
        running.process.send_signal(signal.SIGINT)
        left = running.process.wait() == 0
        # a machine with much to do may not be done leaving in time: that loses nothing either
        assert left or "is killed" in running.said(), running.said()
    assert "the same command continues" in running.said()
    with fleet(cluster, runs, *two, "--set", "run.total_timesteps=1", "--evaluators", "0", **token) as running:
        assert running.process.wait() == 0, running.said()
    with LeagueClient(cluster.served.url, token=(tmp_path / "token").read_text().strip()) as client:
        assert same_results(spooled(runs, "rps/main"), logged(client))
