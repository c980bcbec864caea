"""The books are kept by a process of their own, which lasts as long as its server."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from league_scene import ON_SQLITE, Scene

from league.background.process import BackgroundProcess
from league.settings import Settings

HASTY = {
    "LEAGUE_AGGREGATION_INTERVAL_S": "0.05",
    "LEAGUE_AGGREGATION_TERM_S": "0.05",
    "LEAGUE_PERIOD_GAMES": "1",
    "LEAGUE_PERIOD_SPACING_S": "0",
}

pytestmark = [ON_SQLITE, pytest.mark.integration]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HASTY.items():
        monkeypatch.setenv(name, value)


def until(fulfilled: Callable[[], object]) -> None:
    waited = threading.Event()
    while not fulfilled():
        waited.wait(0.01)


def test_periods_close_in_another_process_and_in_the_next_one_where_that_is_killed(
    scene: Scene,
    configure: Callable[..., Settings],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG, "league.background.process")
    (tmp_path / "sqlalchemy.py").write_text("raise SystemExit('a module of the working folder')")
    monkeypatch.chdir(tmp_path)

    def started() -> list[int]:
        begun = [record for record in caplog.records if record.msg == "started background process %d"]
        return [record.args[0] for record in begun]  # type: ignore[index,misc]

    def rated() -> int:
        return scene.client.player(scene.learner.player_id).games

    background = BackgroundProcess(configure(aggregation_interval_s=0.01))
    background.start()
    scene.train(5)
    until(lambda: rated() == 5)
    os.kill(started()[0], signal.SIGKILL)
    scene.train(5)
    until(lambda: rated() == 10)
    background.stop()
    assert len(started()) == 2
    for pid in started():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.getMessage().startswith(f"background process {started()[0]} exited with signal SIGKILL after ")
    assert line.getMessage().endswith(" s; restarting it in 0.02 s")
    assert line.exc_info is None, "a line, no traceback"


def test_it_ends_with_the_process_that_started_it(scene: Scene, database_url: str) -> None:
    command = [sys.executable, "-m", "league.background.process"]
    variables = os.environ | {"LEAGUE_DATABASE_URL": database_url}
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=variables) as process:
        scene.train(1)
        until(lambda: scene.client.periods(scene.environment).items)
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()  # as the kernel does when the other process is gone
        assert process.wait() == 0
