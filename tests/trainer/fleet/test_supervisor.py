"""A member's process under its supervisor, with small programs in place of trainers."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distant_league import until
from refused import refused

from arena.exit_status import TRY_LATER
from trainer.fleet import supervisor as module
from trainer.fleet.members import Member, Resources
from trainer.fleet.supervisor import Launch, Supervisor, describe_exit

LEARNER = """
import os, pathlib, signal, sys
def leave(number, frame):
    os.write(1, b"saved\\n")  # print() refuses a handler while it prints itself
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
folder = pathlib.Path(sys.argv[1])
print("token", os.environ["LEAGUE_TOKEN"], "threads", os.environ["OMP_NUM_THREADS"], flush=True)
(folder / "pid").write_text(str(os.getpid()))
print("ready", flush=True)
while True:
    signal.pause()
"""

BUSY = """
import pathlib, sys
away = pathlib.Path(sys.argv[1]) / "was_away"
if away.exists():
    print("found the league")
else:
    away.touch()
    sys.exit(75)
"""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch]:
    (tmp_path / "learner.py").write_text(LEARNER)
    (tmp_path / "busy.py").write_text(BUSY)
    (tmp_path / "misused.py").write_text("raise SystemExit(2)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    folder = tmp_path / "runs" / "main"

    def make(program: str = "learner", *, begun: bool = False) -> Launch:
        member = Member("main", "trainer", Resources(2.0, 0.0), folder, (program, str(folder)))
        return Launch(member, {"LEAGUE_TOKEN": "a-secret"}, begun)

    return make


@contextmanager
def running(launch: Launch) -> Iterator[tuple[Supervisor, list[int]]]:
    """A supervisor at work in a thread, and the exit status that it returns in the end."""
    supervisor, statuses = Supervisor(), list[int]()
    thread = threading.Thread(target=lambda: statuses.append(supervisor.run(launch)))
    thread.start()
    log = launch.member.folder / "output.log"
    try:
        until(lambda: log.exists() and "ready" in log.read_text())
        yield supervisor, statuses
        thread.join()
    finally:
        supervisor.kill()
        thread.join()


@pytest.mark.integration
def test_a_member_runs_with_its_variables_and_saves_when_it_is_stopped(
    launch: Callable[..., Launch], capfd: pytest.CaptureFixture[str]
) -> None:
    with running(launch()) as (supervisor, statuses):
        supervisor.stop()
    assert statuses == [0]
    lines = (launch().member.folder / "output.log").read_text().splitlines()
    assert lines == ["token a-secret threads 2", "ready", "saved"]
    assert capfd.readouterr().out.splitlines()[1:] == lines


@pytest.mark.integration
@pytest.mark.parametrize("end", [Supervisor.kill, lambda _: None])
def test_a_member_that_is_killed_ends_with_its_signal(
    launch: Callable[..., Launch], end: Callable[[Supervisor], None]
) -> None:
    with running(launch()) as (supervisor, statuses):
        end(supervisor)
        pid = int((launch().member.folder / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
    assert [describe_exit(status) for status in statuses] == ["signal SIGKILL"]


@pytest.mark.integration
def test_a_member_that_refuses_its_settings_runs_once(launch: Callable[..., Launch]) -> None:
    assert Supervisor().run(launch("misused")) == 2
    assert describe_exit(2) == "status 2"


@pytest.mark.integration
def test_a_member_starts_again_until_the_league_answers(
    launch: Callable[..., Launch], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "TRY_LATER_S", 0.0)
    assert Supervisor().run(launch("busy")) == 0
    printed = capfd.readouterr().out
    assert f"ended with status {TRY_LATER}" in printed
    assert "found the league" in printed


def test_a_stopped_supervisor_starts_nothing(launch: Callable[..., Launch]) -> None:
    supervisor = Supervisor()
    supervisor.stop()
    assert supervisor.run(launch()) == 0
    assert not (launch().member.folder / "output.log").exists()


@pytest.mark.integration
def test_a_node_without_the_run_folder_refuses_a_restart(launch: Callable[..., Launch]) -> None:
    begun = launch("misused", begun=True)
    with refused("fleet-failed", "--runs"):
        Supervisor().run(begun)
    assert not begun.member.folder.exists()
    begun.member.folder.mkdir(parents=True)
    assert Supervisor().run(begun) == 2


def test_a_launch_does_not_show_its_secrets(launch: Callable[..., Launch]) -> None:
    assert "a-secret" not in repr(launch())
