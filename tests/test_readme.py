"""The README's commands work when they are typed in their order in one folder, on any port."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from league.client import LeagueClient
from league.home import address_file

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sys.executable).parent

SHORT = "run.total_timesteps=4096 environment.num_envs=8 rollout.num_steps=16 league.snapshot_every_steps=1024"
"""Settings of all trainers: a run of seconds that leaves several snapshots."""

INSTALLING = ("pip ", "source ")
SERVING = re.compile(r"(league (up|serve)\b|\S+/league up\b)")
REPLACED = {"--timeout 600": "--timeout 5", "--host 0.0.0.0": "--host 127.0.0.1"}
"""A verdict takes minutes, and tests listen on loopback only."""

PATIENCE = 300
"""Seconds that one command may take on a busy machine."""

ALLOWED = {"league gate open": (0, 3, 4), "trainer doctor": (0, 1)}
"""Exit statuses beside 0 that are answers: rejected or undecided, and something was wrong with the run."""


def blocks() -> list[tuple[str, str]]:
    """Return the README's blocks of code with their languages."""
    return re.findall(
        r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


class Tour:
    """A reader with two terminals in one folder: a server runs in the first until the next one is to start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        own = {name: value for name, value in os.environ.items() if not name.startswith(("LEAGUE_", "TRAINER_"))}
        path = f"{PROGRAMS}{os.pathsep}{own['PATH']}"
        self._variables = {**own, "PATH": path, "OMP_NUM_THREADS": "1", "LEAGUE_PORT": "0", "TRAINER_SET": SHORT}
        self._variables["PYTHONFAULTHANDLER"] = "1"
        self._server: subprocess.Popen[bytes] | None = None

    def type(self, line: str) -> None:
        """Type a line of a block of commands."""
        command = self._rewritten(line)
        if command.startswith(INSTALLING) or (command.startswith("curl ") and shutil.which("curl") is None):
            return
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._variables[name] = value
        elif SERVING.match(command):
            self._serve(command)
        else:
            self._run(["bash", "-c", command], allowed=ALLOWED.get(" ".join(command.split()[:2]), (0,)))

    def run_python(self, program: str) -> None:
        """Run a block of Python."""
        self._run([sys.executable, "-c", program], allowed=(0,))

    def stop_server(self) -> None:
        """Press Ctrl-C in the first terminal."""
        if self._server is not None:
            self._server.send_signal(signal.SIGINT)
            assert self._server.wait() == 0, self._log.read_text()
            assert not address_file(self._folder / "var").exists()

    def kill_server(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self._server.terminate()
            self._server.wait()

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _rewritten(self, line: str) -> str:
        if line.startswith("make run"):
            line = _recipe_of_run()
        for written, shorter in REPLACED.items():
            line = line.replace(written, shorter)
        for learner in set(re.findall(r"\b(\w+)@\d+", line)):
            line = self._with_own_snapshots(line, learner)
        return line

    def _with_own_snapshots(self, line: str, learner: str) -> str:
        """Name this run's snapshots, oldest first, in place of those that longer runs leave."""
        named = sorted(set(re.findall(rf"\b{learner}@(\d+)", line)), key=int)
        with LeagueClient(address_file(self._folder / "var").read_text().strip()) as client:
            while len(own := _steps_of(client, learner)) < len(named):
                assert self._server is not None
                assert self._server.poll() is None, self._log.read_text()
                time.sleep(0.25)
        for step, ours in reversed(list(zip(named, own, strict=False))):
            line = line.replace(f"{learner}@{step}", f"{learner}@{ours}")
        return line

    def _serve(self, command: str) -> None:
        self.stop_server()
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                command.split(), cwd=self._folder, env=self._variables, stdout=log, stderr=log, start_new_session=True
            )
        sign = "newest snapshot" if " up" in command else "listening on"
        while sign not in self._log.read_text():
            assert self._server.poll() is None, self._log.read_text()
            time.sleep(0.1)

    def _run(self, command: list[str], allowed: tuple[int, ...]) -> None:
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)  # faulthandler prints the stack of every thread
            output, errors = process.communicate()
            server = self._log.read_text() if self._log.exists() else "none was started"
            pytest.fail(f"{command[-1]} did not end within {PATIENCE} s: {output}{errors}\nserver: {server}")
        assert process.returncode in allowed, f"{command[-1]}: {errors or output}"
        assert "Traceback" not in errors, errors


def _recipe_of_run() -> str:
    """Return what `make run` does once everything is installed."""
    command = ["make", "--dry-run", "--old-file=.venv/.run", "run", f"BIN={PROGRAMS}", "PORT=", "ARGS="]
    # A make around this one, as `make test` is, would have it announce directories and take over variables.
    own = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}}
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True).stdout.strip()


def _steps_of(client: LeagueClient, learner: str) -> list[int]:
    found = client.players(kind="snapshot", limit=1000).items
    return sorted(
        player.step for player in found if player.name == f"{learner}@{player.step}" and player.step is not None
    )


@pytest.fixture
def tour(tmp_path: Path) -> Iterator[Tour]:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "race.py", tmp_path / "examples")
    made = Tour(tmp_path)
    yield made
    made.kill_server()


@pytest.mark.timeout(2700)  # some thirty processes, each with its own limit, on a machine that may be busy
def test_the_commands_of_the_readme_work_in_their_order_in_one_folder(tour: Tour) -> None:
    for language, block in blocks():
        if language == "python":
            tour.run_python(block)
        elif language == "bash":
            for line in block.splitlines():
                tour.type(line.partition("  #")[0].strip())
    tour.stop_server()


def test_no_command_of_the_readme_is_bound_to_a_port() -> None:
    assert not [
        line
        for language, block in blocks()
        if language in ("bash", "python")
        for line in block.splitlines()
        if "8000" in line
    ]
