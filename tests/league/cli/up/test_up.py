"""`league up` as a person runs it: as a process, with signals."""

import io
import os
import signal
import socket
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from league_command import Run
from refused import assert_names

from league.cli.up import command as up_command
from league.cli.up.token import own_credential
from league.client import LeagueClient
from league.errors import LeagueUnreachable
from league.home import address_file
from league.settings import Settings

pytestmark = pytest.mark.integration

PLAYING = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
token = pathlib.Path(f"token-{sys.argv[1]}")
token.write_text(os.environ["LEAGUE_TOKEN"])
print(sys.argv[1], "plays", flush=True)
time.sleep(600)
"""

LINGERING = """
import pathlib, signal, sys, time
def linger(*_):
    while not pathlib.Path("let go").exists():
        time.sleep(0.01)
    sys.exit(0)
signal.signal(signal.SIGTERM, linger)
print(sys.argv[1], "plays", flush=True)
time.sleep(600)
"""

REFUSING = """
import sys, time
if sys.argv[1] == "evaluate":
    time.sleep(600)  # or it might be found dead before the trainer
print("compiling")
print("trainer: unknown", sys.argv[-1], file=sys.stderr)
sys.exit(2 if "ppo.gama=1" in sys.argv else 78)
"""


class Up:
    """A running `league up`; its output is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.url = ""

    def read_until(self, *words: str) -> str:
        """Read up to a line that has all of these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if "server ready at" in line:
                self.url = line.split("server ready at ")[1].split()[0]
            if all(word in line for word in words):
                return line
        raise AssertionError(f"no line with {words} in {self.lines}")

    def interrupt(self) -> int:
        """Press Ctrl-C and wait for the end."""
        self.process.send_signal(signal.SIGINT)
        self.read_until("stopped;")
        return self.process.wait()

    def child(self, word: str) -> int:
        """Return the id of the child process with this word in its command."""
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return next(int(pid) for pid in tasks if word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"))


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Start `league up` on a free port in a folder of its own."""
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> Up:
        command = [sys.executable, "-m", "league", "up", "--port", "0", "--home", "home", *arguments]
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
        )
        processes.append(process)
        return Up(process)

    yield start
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program in the place of trainer and evaluator."""
    package = tmp_path / "before_installed" / "trainer"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(package.parent), prepend=os.pathsep)

    def write(code: str) -> None:
        (package / "__main__.py").write_text(code)

    return write


@pytest.mark.timeout(900)  # eight processes that load much, on a machine that may do other things too
def test_a_league_of_rock_paper_scissors_runs_stops_and_resumes(up: Callable[..., Up], tmp_path: Path) -> None:
    options = ("--environment", "rps", "--set", "environment.num_envs=16", "--set", "league.snapshot_every_steps=2048")
    for module in ("trainer", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('a module of the working folder')")
    first = up(*options)
    assert "migrating" in first.read_until("migrating")
    first.read_until("newest snapshot: main@")
    assert address_file(tmp_path / "home").read_text().strip() == first.url
    with LeagueClient(first.url) as client:
        assert {player.kind for player in client.players().items} == {"learner", "snapshot", "baseline"}
    assert first.interrupt() == 0
    assert not address_file(tmp_path / "home").exists()
    saved = (tmp_path / "home/logs/trainer.log").read_text().split("saved at step ")[1].split()[0]
    with pytest.raises(LeagueUnreachable), LeagueClient(first.url) as client:
        client.health()
    second = up(*options)
    second.read_until("steps/s")
    assert second.interrupt() == 0
    assert f"resumed at step {saved}" in (tmp_path / "home/logs/trainer.log").read_text()
    assert not any("migrating" in line for line in second.lines)


@pytest.mark.parametrize(("setting", "status"), [("ppo.gama=1", 2), ("the signature", 78)])
def test_a_permanent_error_of_a_part_ends_everything_with_that_one_line(
    up: Callable[..., Up], worker: Callable[[str], None], setting: str, status: int
) -> None:
    worker(REFUSING)
    running = up("--set", setting)
    last = running.read_until("league: cannot run")
    assert last.startswith(f"league: cannot run the trainer: unknown {setting}; see its log ")
    assert not any("restarting in" in line for line in running.lines)
    assert running.process.wait() == status
    with pytest.raises(LeagueUnreachable), LeagueClient(running.url) as client:
        client.health()


@pytest.mark.parametrize("package", ["jaxtyping", "tensorboard", "torch", "warp"])
def test_a_missing_part_of_the_extra_is_named_before_anything_is_made(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    outcome = command("up", "--environment", "rps", "--home", tmp_path / "home", "--port", "0")
    assert outcome.code == 78
    assert f"needs {package}, which is not installed" in outcome.one_line_error
    assert_names(outcome.err, "echelon-league[train]")
    assert not (tmp_path / "home").exists()


def test_a_missing_package_of_a_game_is_named_before_anything_is_made(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "sprint.py").write_text("from pettingzoo import ParallelEnv\n")
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    outcome = command("up", "--environment", "sprint:Sprint", "--home", tmp_path / "home", "--port", "0")
    assert outcome.code == 78
    assert "sprint:Sprint needs pettingzoo" in outcome.one_line_error
    assert "pip install 'echelon-league[pettingzoo]'" in outcome.err


@pytest.mark.skipif(sys.platform != "linux", reason="finds the children in /proc")
def test_dead_processes_are_shown_and_restarted(up: Callable[..., Up], worker: Callable[[str], None]) -> None:
    worker(PLAYING)
    running = up()
    running.read_until("trainer starting")
    running.read_until("run plays")
    for name, word in (("trainer", "run"), ("evaluator", "evaluate"), ("server", "serve")):
        os.kill(running.child(word), signal.SIGKILL)
        assert "restarting in 1 s" in running.read_until(f"{name}: exited with signal SIGKILL")
    assert running.interrupt() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="finds the children in /proc")
def test_second_signal_kills_remaining_processes(
    up: Callable[..., Up], worker: Callable[[str], None], tmp_path: Path
) -> None:
    worker(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    running = up()
    running.read_until("deaf")
    pids = [running.child(word) for word in ("run", "evaluate", "serve")]
    running.process.send_signal(signal.SIGINT)
    running.read_until("stopping")
    running.process.send_signal(signal.SIGINT)
    running.read_until("killed;")
    assert running.process.wait() == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not address_file(tmp_path / "home").exists()


def test_live_table_lists_processes_that_are_still_stopping(tmp_path: Path, worker: Callable[[str], None]) -> None:
    worker(LINGERING)
    terminal, own = os.openpty()
    termios.tcsetwinsize(own, (24, 80))
    command = [sys.executable, "-m", "league", "up", "--port", "0", "--home", "home"]
    shell = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | {"TERM": "xterm"}
    process = subprocess.Popen(command, cwd=tmp_path, stdin=own, stdout=own, stderr=own, env=shell)
    os.close(own)
    with os.fdopen(terminal, "rb", buffering=0) as output:
        _read_until(output, "run plays")
        process.send_signal(signal.SIGINT)
        _read_until(output, "stopping: waiting for trainer, evaluator; killed in")
        (tmp_path / "let go").touch()
        _read_until(output, "stopping: waiting for server")
        _read_until(output, "stopped;")
    assert process.wait() == 0


def _read_until(output: io.FileIO, words: str) -> None:
    seen = ""
    while words not in seen:
        seen += output.read(4096).decode(errors="replace")


def test_a_token_made_while_it_runs_does_not_stop_it(
    up: Callable[..., Up], worker: Callable[[str], None], command: Run, tmp_path: Path
) -> None:
    worker(PLAYING)
    running = up()
    running.read_until("run plays")
    assert (tmp_path / "token-run").read_text() == ""
    command("token", "create", "me", "--scope", "admin", "--home", tmp_path / "home")
    running.read_until("now requires a token")
    kept = tmp_path / "home" / "up.token"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for _ in range(4800):
        if (tmp_path / "token-run").read_text() == kept.read_text().strip():
            break
        time.sleep(0.025)
    else:
        raise AssertionError("the trainer was not started again with the token")
    assert running.interrupt() == 0


def test_an_own_token_is_used_again_until_it_is_revoked(command: Run, tmp_path: Path) -> None:
    settings, file = Settings.load(home=tmp_path), tmp_path / "up.token"
    command("db", "upgrade", "--home", tmp_path)
    assert own_credential(settings, file, "rps", "main") is None
    command("token", "create", "me", "--scope", "admin", "--home", tmp_path)
    first = own_credential(settings, file, "rps", "main")
    assert first
    assert own_credential(settings, file, "rps", "main") == first
    name = next(line for line in command("token", "list", "--home", tmp_path).out.split() if line.startswith("up-"))
    command("token", "revoke", name, "--home", tmp_path)
    assert own_credential(settings, file, "rps", "main") not in (None, first)


def test_a_second_one_on_the_same_home_is_refused(
    up: Callable[..., Up], worker: Callable[[str], None], command: Run, tmp_path: Path
) -> None:
    worker(PLAYING)
    running = up()
    running.read_until("server ready")
    outcome = command("up", "--home", tmp_path / "home", "--port", "0")
    assert outcome.code == 1
    assert f"process {running.process.pid}" in outcome.one_line_error


def test_a_taken_port_is_named(command: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        outcome = command("up", "--port", port, "--home", tmp_path)
    assert outcome.code == 1
    assert f"port taken 127.0.0.1:{port}" in outcome.one_line_error


@pytest.mark.parametrize("environment", ["rps", "openspiel:kuhn_poker(players=2)"])
def test_all_playable_environments_are_trainable(environment: str) -> None:
    up_command._require_playable(environment)


def test_an_unknown_environment_is_bad_usage(command: Run, tmp_path: Path) -> None:
    outcome = command("up", "--environment", "chess", "--home", tmp_path)
    assert outcome.code == 2
    assert "mech-duel" in outcome.err
