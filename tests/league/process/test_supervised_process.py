"""One supervised process: deaths, restarts, ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from league.process.restart_policy import RestartPolicy
from league.process.supervised_process import Job, SupervisedProcess, UnexpectedExit, last_lines

RULE = RestartPolicy(short_life_s=30.0, most_short_lives=3, first_delay_s=1.0, longest_delay_s=60.0)
SLEEP = "import time; print('here', flush=True); time.sleep(600)"
PATIENCE = 4800
"""So many looks, which are two minutes, at what takes milliseconds where nothing else runs."""


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    def make(code: str, *, permanent: bool = False) -> Job:
        return Job("worker", (sys.executable, "-c", code), dict(os.environ), tmp_path / "worker.log", permanent)

    return make


def poll_until_dead(child: SupervisedProcess, now_s: float) -> UnexpectedExit | None:
    for _ in range(PATIENCE):
        death = child.poll(now_s)
        if death is not None or child.state != "running":
            return death
        time.sleep(0.025)
    raise AssertionError("the process did not end")


def wait_for_output(child: SupervisedProcess, line: str) -> None:
    for _ in range(PATIENCE):
        if line in child.last_lines(5):
            return
        time.sleep(0.025)
    raise AssertionError(f"{line!r} never came; log: {child.last_lines(5)}")


@pytest.mark.integration
def test_a_death_is_reported_with_its_last_lines_and_started_again_after_the_delay(job: Callable[..., Job]) -> None:
    child = SupervisedProcess(job("import sys; print('one'); print('two'); sys.exit(3)"), RULE)
    child.start(now_s=0.0)
    death = poll_until_dead(child, now_s=5.0)
    assert death is not None
    assert (death.status, death.lived_s, death.delay_s, death.last_lines) == (3, 5.0, 1.0, ("one", "two"))
    assert child.poll(now_s=5.9) is None
    assert (child.state, child.restarts) == ("restarting", 0)
    child.poll(now_s=6.0)
    assert child.restarts == 1
    child.kill()
    child.wait(120.0)


@pytest.mark.integration
def test_it_gives_up_after_too_many_short_lives(job: Callable[..., Job]) -> None:
    child = SupervisedProcess(job("raise SystemExit(1)"), RULE)
    child.start(now_s=0.0)
    delays = []
    for now_s in (0.0, 1.0, 3.0):
        death = child.poll(now_s) or poll_until_dead(child, now_s)
        assert death is not None
        delays.append(death.delay_s)
    assert delays == [1.0, 2.0, None]
    assert child.state == "failed"


@pytest.mark.integration
@pytest.mark.parametrize("status", [2, 78])
def test_a_permanent_error_is_not_tried_again(job: Callable[..., Job], status: int) -> None:
    child = SupervisedProcess(job(f"raise SystemExit({status})"), RULE)
    child.start(now_s=0.0)
    death = poll_until_dead(child, now_s=0.0)
    assert death is not None
    assert death.delay_s is None


@pytest.mark.integration
def test_process_waiting_for_a_dependency_is_restarted_without_limit(job: Callable[..., Job], tmp_path: Path) -> None:
    """And how often that was says nothing about how often it fails."""
    status = tmp_path / "status"
    status.write_text("75")
    child = SupervisedProcess(
        job(f"import pathlib, sys; print('here'); sys.exit(int(pathlib.Path({str(status)!r}).read_text()))"), RULE
    )
    child.start(now_s=0.0)
    now_s, delays = 0.0, []
    for turn in range(5):
        if turn == 4:
            status.write_text("1")
        death = child.poll(now_s) or poll_until_dead(child, now_s)
        assert death is not None
        assert death.delay_s is not None
        assert ("(a dependency is unavailable)" in death.cause) == (turn < 4)
        assert death.last_lines == ("here",), "not what the lives before it said"
        delays.append(death.delay_s)
        now_s += death.delay_s
    assert delays == [1.0, 2.0, 4.0, 8.0, 1.0]


@pytest.mark.integration
def test_a_worker_that_ends_well_is_finished_but_a_server_is_started_again(job: Callable[..., Job]) -> None:
    worker, server = SupervisedProcess(job("pass"), RULE), SupervisedProcess(job("pass", permanent=True), RULE)
    worker.start(now_s=0.0)
    server.start(now_s=0.0)
    assert poll_until_dead(worker, now_s=0.0) is None
    assert worker.state == "finished"
    assert poll_until_dead(server, now_s=0.0) is not None
    assert server.state == "restarting"


@pytest.mark.integration
def test_a_process_that_ignores_sigterm_is_killed_with_all_it_started(job: Callable[..., Job], tmp_path: Path) -> None:
    grandchild = tmp_path / "grandchild"
    code = (
        "import signal, subprocess, sys, time, pathlib\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "own = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(grandchild)!r}).write_text(str(own.pid))\n"
        "print('here', flush=True); time.sleep(600)\n"
    )
    child = SupervisedProcess(job(code), RULE)
    child.start(now_s=0.0)
    wait_for_output(child, "here")
    child.terminate()
    assert child.wait(timeout_s=0.2) is False
    assert child.state == "stopped"
    assert_gone(int(grandchild.read_text()))


@pytest.mark.integration
def test_a_process_that_heeds_sigterm_ends_by_itself(job: Callable[..., Job]) -> None:
    child = SupervisedProcess(job(SLEEP), RULE)
    child.start(now_s=0.0)
    wait_for_output(child, "here")
    child.terminate()
    assert child.wait(timeout_s=120.0) is True


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_supervisor_killed_with_9_leaves_no_process(tmp_path: Path) -> None:
    code = (
        "import os, sys, time, pathlib\n"
        "from league.process.supervised_process import Job, SupervisedProcess\n"
        "from league.process.restart_policy import RestartPolicy\n"
        f"command, log = (sys.executable, '-c', {SLEEP!r}), pathlib.Path({str(tmp_path)!r}, 'log')\n"
        "job = Job('worker', command, dict(os.environ), log, permanent=False)\n"
        "child = SupervisedProcess(job, RestartPolicy(30.0, 3, 1.0, 60.0))\n"
        "child.start(0.0)\n"
        "while 'here' not in child.last_lines(1): time.sleep(0.025)\n"
        "print(child.pid, flush=True); time.sleep(600)\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    with supervisor.stdout:
        pid = int(supervisor.stdout.readline())
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    assert_gone(pid)


def assert_gone(pid: int) -> None:
    for _ in range(PATIENCE):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.025)
    raise AssertionError(f"process {pid} still runs")


def test_the_last_lines_of_a_long_log_are_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log, 3) == ()
    log.write_text("".join(f"line {number}\n\n" for number in range(10_000)))
    assert last_lines(log, 2) == ("line 9998", "line 9999")
