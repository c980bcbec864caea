"""An attached worker plays leased matches, and neither loses nor doubles a result over a crash."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from league_scene import ENVIRONMENT, SIGNATURE, Scene, safetensors
from live_server import listening
from refused import refused
from starlette.testclient import TestClient

from league import wire
from league.client import LeagueClient, RunInfo, Session, SessionSettings, attach

FEW = SessionSettings(lease_budget=2, prefetch=2, self_play=False, grace_s=5.0)

PLAYER = """
import sys
from pathlib import Path
from league.client import SessionSettings, attach
url, folder = sys.argv[1:]
settings = SessionSettings(lease_budget=2, prefetch=4, self_play=False)
with attach("main", worker="gpu-3", url=url, folder=Path(folder), settings=settings) as session:
    for match in session.matches():
        session.report(match, score=1.0, decisions=3)
        print(match.lease.lease_id, match.sequence, flush=True)
"""


@pytest.fixture
def start(league: LeagueClient, scene: Scene, tmp_path: Path) -> Callable[..., Session]:
    """Attach a worker to the learner `main`."""
    return lambda worker="gpu-3", **options: league.attach(
        "main", environment=ENVIRONMENT, worker=worker, folder=tmp_path / worker, **{"settings": FEW} | options
    )


def played(scene: Scene) -> list[wire.Match]:
    matches: list[wire.Match] = scene.client.matches(scene.learner.player_id, limit=1000).items
    return matches


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_reported_matches_are_in_the_match_log_from_the_side_of_the_learner(
    start: Callable[..., Session], scene: Scene
) -> None:
    with start() as session:
        match = session.next_match()
        assert match is not None
        assert match.opponent.checkpoint == "baseline:random"
        session.report(match, score=1.0, decisions=3)
    (logged,) = played(scene)
    assert (logged.lease_id, logged.sequence, logged.seed, logged.decisions) == (
        match.lease.lease_id,
        match.sequence,
        match.seed,
        3,
    )
    assert logged.score == (1.0 if logged.home.player_id == scene.learner.player_id else 0.0)


def test_close_releases_the_leases_that_were_not_played(start: Callable[..., Session], scene: Scene) -> None:
    with start() as session:
        match = session.next_match()
        assert match is not None
        held = session._queue.open_leases
        assert len(held) == FEW.prefetch
    request = wire.ReleaseRequest(worker_id=session.worker.id, lease_ids=held)
    assert scene.client.release(request).released == 0


def test_published_snapshot_is_a_player_and_metrics_reach_the_learner(
    start: Callable[..., Session], scene: Scene
) -> None:
    with start() as session:
        session.log({"loss": 0.5}, step=70)
        session.publish(safetensors(1, signature=SIGNATURE), step=64)
    learner = scene.client.learner(scene.learner.id)
    assert (learner.step, learner.metrics) == (70, {"loss": 0.5})
    assert learner.latest_snapshot is not None
    assert scene.client.player(learner.latest_snapshot).step == 64


def test_a_run_with_settings_and_origin_is_stored_and_snapshots_name_it(
    start: Callable[..., Session], scene: Scene
) -> None:
    with start(run=RunInfo({"lr": 0.5}, seed=3)) as session:
        session.publish(safetensors(1, signature=SIGNATURE), step=64)
    (run,) = scene.client.runs().items
    assert (run.seed, run.settings, run.learner, run.snapshots) == (3, {"lr": 0.5}, scene.learner.name, 1)
    assert run.origin.keys() == {"command", "python", "packages", "git", "machine"}


@pytest.mark.parametrize(
    ("values", "named"), [({"seed": -1}, "seed=-1"), ({"settings": {"long": "x" * 2**17}}, "settings=")]
)
def test_settings_and_seed_that_the_league_cannot_store_are_rejected(
    start: Callable[..., Session], values: dict[str, Any], named: str
) -> None:
    with refused("invalid-request", named):
        start(run=RunInfo(**values))


def test_snapshot_that_the_league_rejects_is_set_aside(start: Callable[..., Session], tmp_path: Path) -> None:
    with start() as session:
        session.publish(b"no safetensors", step=64)
    assert [file.name for file in (tmp_path / "gpu-3/snapshots").iterdir()] == ["000000000000064.refused"]


@pytest.mark.parametrize("command", ["stop", "drain"])
def test_command_of_the_league_ends_the_matches(
    start: Callable[..., Session], scene: Scene, command: wire.Command
) -> None:
    with start() as session:
        assert session.next_match() is not None
        scene.client.command_worker(session.worker.id, command)
        session._heartbeat_at = 0.0
        wait_until(lambda: session.should_stop)
        assert list(session.matches()) == []


def test_match_is_reported_once(start: Callable[..., Session]) -> None:
    with start() as session:
        match = session.next_match()
        assert match is not None
        with refused("invalid-request", "score=1.5"):
            session.report(match, score=1.5, decisions=1)
        session.report(match, score=0.5, decisions=1)
        with refused("invalid-request", match.lease.lease_id):
            session.report(match, score=0.5, decisions=1)


def test_failed_sync_loses_no_result_and_doubles_none(
    start: Callable[..., Session], scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError("disk full")

    with start() as session:
        first, second = session.next_match(), session.next_match()
        assert first is not None
        assert second is not None
        with monkeypatch.context() as disk:
            disk.setattr("arena.durable_log.os.fsync", fail)
            with refused(OSError, "disk full"):
                session.report(first, score=1.0, decisions=1)
        with refused("invalid-request", first.lease.lease_id):
            session.report(first, score=1.0, decisions=1)
        session.report(second, score=1.0, decisions=1)
    reported = {(each.lease.lease_id, each.sequence) for each in (first, second)}
    assert sorted((each.lease_id, each.sequence) for each in played(scene)) == sorted(reported)


def test_system_without_fcntl_imports_the_client_but_rejects_sessions(
    start: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-c", "import sys; sys.modules['fcntl'] = None; import league.client"], check=True)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with refused("configuration", "POSIX"):
        start()


def test_two_processes_cannot_attach_with_one_folder(start: Callable[..., Session]) -> None:
    with start(), refused("configuration", "gpu-3"):
        start()


def test_unknown_environment_is_rejected_by_name(league: LeagueClient, scene: Scene, tmp_path: Path) -> None:
    with refused("configuration", "environment=chess"):
        league.attach("main", environment="chess", folder=tmp_path)


def test_results_wait_on_disk_while_the_league_is_away(scene: Scene, http: TestClient, tmp_path: Path) -> None:
    with listening(http.app) as url, httpx2.Client(base_url=url) as flaky:
        client = LeagueClient(http=flaky)
        session = client.attach("main", folder=tmp_path / "w", settings=SessionSettings(self_play=False, grace_s=0.2))
        match = session.next_match()
        assert match is not None
        flaky.base_url = "http://127.0.0.1:1"
        session.report(match, score=1.0, decisions=1)
        session.close()
        assert played(scene) == []
        with attach("main", url=url, folder=tmp_path / "w", settings=FEW):
            pass
    assert [(each.lease_id, each.sequence) for each in played(scene)] == [(match.lease.lease_id, match.sequence)]


@pytest.mark.integration
def test_killed_worker_resumes_without_a_lost_or_doubled_result(scene: Scene, http: TestClient, tmp_path: Path) -> None:
    reported: list[str] = []
    with listening(http.app) as url:
        for count in (5, 20):
            command = [sys.executable, "-c", PLAYER, url, str(tmp_path / "w")]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                reported += [process.stdout.readline().strip() for _ in range(count)]
                process.kill()
                reported += process.stdout.read().splitlines()
        with attach("main", worker="gpu-3", url=url, folder=tmp_path / "w", settings=FEW):
            pass
    logged = [f"{each.lease_id} {each.sequence}" for each in played(scene)]
    assert len(logged) == len(set(logged))
    assert set(reported) <= set(logged)
    assert len(set(logged) - set(reported)) <= 2, "a kill between the report and its line on the terminal"
