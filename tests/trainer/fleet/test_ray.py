"""A fleet on a real Ray of this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from distant_league import until
from refused import refused
from served import Served, serving
from small_runs import RPS, logged, same_results, spooled

from league.client import LeagueClient
from trainer.fleet import ray_cluster
from trainer.fleet.driver import Fleet, MemberState
from trainer.fleet.members import Member, Resources
from trainer.fleet.ray_cluster import RayCluster
from trainer.fleet.supervisor import LOG, Launch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="no Ray here: pip install 'echelon-league[fleet]'"),
]

LEAGUE = "http://127.0.0.1:1"
PACE = ["run.device=cpu", "league.heartbeat_s=1", "league.backoff_max_s=1", "run.save_every_updates=10"]


@pytest.fixture(scope="module")
def ray() -> Iterator[ModuleType]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    import ray.util.scheduling_strategies

    ray.init(address="local", include_dashboard=False, num_cpus=2, log_to_driver=False)
    yield ray
    ray.shutdown()


def member(folder: Path, script: str, cpus: float = 1.0) -> Member:
    """A member that runs a line of Python."""
    return Member("main", "trainer", Resources(cpus, 0.0), folder / "main", ("timeit", "-n", "1", "-r", "1", script))


@contextmanager
def started(ray: ModuleType, member: Member, **variables: str) -> Iterator[ray_cluster.RemoteSupervisor]:
    """Run a member, and give its resources back in the end."""
    cluster = RayCluster(ray, [member], LEAGUE)
    yield cluster.start(Launch(member, {"PYTHONUNBUFFERED": "1", **variables}))
    ray.util.remove_placement_group(cluster.group)


def ended(handle: ray_cluster.RemoteSupervisor) -> int:
    """Wait for the exit status of a member."""
    while (status := handle.exit_status()) is None:
        time.sleep(0.1)
    return status


def test_restarts_of_a_member_are_limited(ray: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "MAX_RESTARTS", 1)
    dying = member(tmp_path, "print('alive'); import os; os.abort()")
    with started(ray, dying) as handle, refused("fleet-failed", 1):
        ended(handle)
    assert (dying.folder / LOG).read_text().count("alive") == 2


@pytest.mark.parametrize("status", [2, 78])
def test_a_member_that_refuses_its_settings_is_not_restarted(ray: ModuleType, tmp_path: Path, status: int) -> None:
    refusing = member(tmp_path, f"print('alive'); import os; os._exit({status})")
    said: list[str] = []
    with started(ray, refusing) as handle:
        assert not Fleet([MemberState(refusing, handle)], said.append).run()
    assert said == [f"main failed with status {status}"]
    assert (refusing.folder / LOG).read_text().count("alive") == 1


def test_secrets_reach_the_process_of_a_member(ray: ModuleType, tmp_path: Path) -> None:
    asking = member(tmp_path, "import os; os._exit(os.environ['LEAGUE_TOKEN'] != 'a-secret')")
    with started(ray, asking, LEAGUE_TOKEN="a-secret") as handle:
        assert ended(handle) == 0


def test_a_fleet_without_free_resources_is_refused(
    ray: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "TIMEOUT_S", 20.0)
    with refused("no-capacity", 3, "CPU", 2):
        RayCluster(ray, [member(tmp_path, "pass", cpus=3.0)], LEAGUE)
    busy = ray.util.placement_group([{"CPU": 2.0}])
    assert busy.wait(60.0)
    with refused("no-capacity", 20, 0, "CPU"):
        RayCluster(ray, [member(tmp_path, "pass", cpus=2.0)], LEAGUE)
    ray.util.remove_placement_group(busy)


class Command:
    """`trainer fleet`, and the output of it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, runs: Path) -> None:
        self.process, self._log, self._runs = process, log, runs

    def output(self) -> str:
        return self._log.read_text()

    def until(self, there: Callable[[], bool]) -> None:
        """Wait until it is so; a fleet that ends meanwhile fails the test."""

        def looked() -> bool:
            assert self.process.poll() is None, self.output()[-3000:]
            return there()

        until(looked)

    def members(self, command: str) -> list[int]:
        """Process ids of trainers or evaluators."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_text().split("\0")
            except OSError:
                continue
            if command in words and any(word.startswith(str(self._runs)) for word in words):
                found.append(int(entry.name))
        return found


@contextmanager
def fleet(served: Served, runs: Path, *options: str) -> Iterator[Command]:
    settings = [word for each in (*RPS, *PACE) for word in ("--set", each)]
    where = ("--environment", "rps", "--url", served.url, "--runs", str(runs))
    log = runs.with_suffix(".log")
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "trainer", "fleet", *where, *settings, *options],
            stdout=stream, stderr=stream, start_new_session=True,
        )  # fmt: skip
    try:
        yield Command(process, log, runs)
    finally:
        process.kill()
        process.wait()


def test_a_killed_member_resumes_and_ctrl_c_ends_the_fleet(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with serving(tmp_path) as served:
        with fleet(served, runs) as running:
            running.until(lambda: running.output().count("update ") > 10)
            [trainer] = running.members("run")
            os.kill(trainer, signal.SIGKILL)
            running.until(lambda: "resumed at step" in running.output())
            assert "ended with signal SIGKILL; Ray restarts it" in running.output()
            assert running.members("evaluate")
            os.killpg(running.process.pid, signal.SIGINT)
            left = running.process.wait() == 0
            # a busy machine may not be done leaving in time: that loses nothing either
            assert left or "is killed" in running.output(), running.output()
            assert not running.members("run") + running.members("evaluate")
            assert "the same command continues" in running.output()
        with fleet(served, runs, "--set", "run.total_timesteps=1", "--evaluators", "0") as running:
            assert running.process.wait() == 0, running.output()
        with LeagueClient(served.url) as client:
            assert same_results(spooled(runs, "rps/main"), logged(client))
