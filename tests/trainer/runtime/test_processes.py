"""Real processes: a server and a trainer, killed and started again."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from reserved_port import reserved
from small_runs import waiting

from league.client import LeagueClient
from league.errors import LeagueError
from trainer.checkpointing import format as state
from trainer.shutdown import ENDED_BY_SIGTERM

pytestmark = pytest.mark.integration

COMPILING_S = 600.0
"""Kernels of the mech arena may have to be compiled first, on a machine that does other things too."""

STARTING_S = 600.0
"""Servers and trainers that start five times, and learn in between."""

LEAVING_S = 10.0
"""After so long a supervisor kills; counted in processor seconds, as a machine that does other things gives them."""

TRAIN = (
    "-c",
    "from trainer import shutdown; shutdown.LEAVE_WITHIN_S = 600.0; from trainer.cli import main; main()",
    "run",
)
"""A trainer that ends itself by the clock only when the test has failed: on a busy machine saving may take so long."""

TRAIN_BY_THE_CLOCK = ("-m", "trainer", "run")
SERVE = ("-m", "league", "serve")

SMALL = ["environment.num_envs=8", "rollout.num_steps=16", "rollout.bptt_horizon=8", "run.save_every_updates=7"]
RPS = ("--environment", "rps")
PACE = ["league.backoff_max_s=1", "league.heartbeat_s=1", "league.snapshot_every_steps=2000", "league.lease_budget=3"]


class Process:
    """One command, its output in a file."""

    def __init__(self, log, *command):
        self.log = log
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LEAGUE_")}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command], stdout=output, stderr=subprocess.STDOUT, env=environment
            )

    def kill(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stand_still(self):
        """Keep its connections open and answer nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def said(self):
        return self.log.read_text()

    def require_life(self):
        assert self._process.poll() is None, self.said()[-2000:]

    def terminate(self):
        """Send SIGTERM and return the status it ends with, in time."""
        before_s = self._computed_s()
        self._process.send_signal(signal.SIGTERM)
        while self._process.poll() is None:
            assert self._computed_s() - before_s < LEAVING_S
            time.sleep(0.01)
        return self._process.returncode

    def _computed_s(self):
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:  # another system
            return time.monotonic()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def starting(folder):
    """Start processes that log to a folder; they end with the block."""
    processes = []

    def launch(name, *command):
        process = Process(folder / f"{name}.log", *command)
        processes.append(process)
        return process

    yield launch
    for process in processes:
        process.kill()


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path) as launch:
        yield launch


@pytest.fixture
def port():
    with reserved() as number:
        yield number


def serving(start, folder, port):
    """Start a league; return its server and its address once it answers."""
    server = start("server", *SERVE, "--port", str(port), "--home", str(folder / "home"))
    with LeagueClient(f"http://127.0.0.1:{port}") as client:
        until(lambda: client.learners("rps").items == [], server)
    return server, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def league(tmp_path_factory):
    """The address of a league that lasts."""
    folder = tmp_path_factory.mktemp("league")
    with reserved() as port, starting(folder) as launch:
        yield serving(launch, folder, port)[1]


def until(condition, *needed):
    """Wait, for as long as a test may take, while the processes that are needed live."""
    while True:
        for process in needed:
            process.require_life()
        try:
            if value := condition():
                return value
        except LeagueError:
            pass
        time.sleep(0.05)


@pytest.mark.holds("T11")
@pytest.mark.timeout(STARTING_S)
def test_killing_either_process_loses_no_accepted_result_and_counts_none_twice(tmp_path, start, port):
    url = f"http://127.0.0.1:{port}"
    serve = (*SERVE, "--port", str(port), "--home", str(tmp_path / "home"))
    settings = [word for each in (*SMALL, *PACE) for word in ("--set", each)]
    folder = ("--run", str(tmp_path / "run"), "--environment", "recall")
    train = (*TRAIN, "--url", url, *folder, *settings)

    server, trainer = start("server", *serve), start("trainer", *train)
    with LeagueClient(url) as client:

        def step():
            return client.learners("recall").items[0].step or 0

        def goes_on():
            reached = until(lambda: step() + 1, server, trainer)
            until(lambda: step() > reached + 1000, server, trainer)

        until(lambda: client.learners("recall").items, server, trainer)
        goes_on()
        trainer.kill()
        trainer = start("trainer", *train)
        goes_on()
        seen = {match.id for match in matches_of(client)}
        server.kill()
        time.sleep(2.0)
        server = start("server", *serve)
        goes_on()
        until(lambda: client.players("recall", kind="snapshot").items, server, trainer)
        assert trainer.terminate() == 0
        log = {(match.lease_id, match.sequence): match for match in matches_of(client)}
        assert seen <= {match.id for match in log.values()}
        compare_with_spool(tmp_path, log)
    assert server.terminate() in (0, -signal.SIGTERM)


def matches_of(client):
    """All matches of the learner, newest first."""
    player, matches, cursor = client.learners("recall").items[0].player_id, [], None
    while True:
        page = client.matches(player, limit=1000, cursor=cursor)
        matches += page.items
        if (cursor := page.next_cursor) is None:
            return matches


def compare_with_spool(tmp_path, log):
    lines = [
        json.loads(line)
        for file in sorted((tmp_path / "run" / "spool").glob("results-*"))
        for line in file.read_text().splitlines()
    ]
    keys = [(line["lease_id"], line["sequence"]) for line in lines]
    assert len(keys) == len(set(keys)) > 100
    assert set(keys) - waiting(tmp_path / "run") <= set(log) <= set(keys)
    for line in lines:
        match = log.get((line["lease_id"], line["sequence"]))
        assert match is None or (match.score, match.seed) == (line["score"], line["seed"])
    said = (tmp_path / "trainer.log").read_text()
    for bad in ("rejected", "conflict", "Traceback"):
        assert bad not in said.replace("losses/rejected", "")


def waits(trainer):
    """Whether a second goes by without an update, of which it makes many in that time."""
    before = trainer.said().count("update ")
    time.sleep(1.0)
    return trainer.said().count("update ") == before


def test_a_signal_in_the_middle_of_a_slow_call_saves_and_leaves(tmp_path, start, port):
    server, url = serving(start, tmp_path, port)
    slow = [*PACE, "league.timeout_s=300", "league.heartbeat_s=0.01"]
    settings = [word for each in (*SMALL, *slow) for word in ("--set", each)]
    trainer = start("trainer", *TRAIN, "--url", url, "--run", str(tmp_path / "run"), *RPS, *settings)
    until(lambda: "update 5 " in trainer.said(), trainer, server)
    server.stand_still()
    until(lambda: waits(trainer), trainer)
    assert trainer.terminate() == 0
    assert trainer.said().rstrip().splitlines()[-1].startswith("saved at step")
    assert state.load(tmp_path / "run" / "state.safetensors").counters["updates"] >= 5


@pytest.mark.timeout(COMPILING_S)
@pytest.mark.parametrize(("moment", "wait_s"), [("opening", 1.0), ("first rollout", 2.0), ("update 1 ", 0.5)])
def test_large_run_stops_in_time_after_a_signal(tmp_path, start, league, moment, wait_s):
    """Opening, perhaps with a compilation, a long rollout, or a long update of twenty mechs in each of 64 matches."""
    large = ["environment.num_envs=64", "rollout.num_steps=64", "ppo.num_minibatches=4", "ppo.update_epochs=8"]
    settings = [word for each in large for word in ("--set", each)]
    company = ("--environment", "mech-company", *settings)
    compiled = moment == "update 1 "
    train = TRAIN if compiled else TRAIN_BY_THE_CLOCK
    trainer = start("trainer", *train, "--url", league, "--run", str(tmp_path / "run"), *company)
    until(lambda: moment in trainer.said(), trainer)
    time.sleep(wait_s)
    status = trainer.terminate()
    assert status == 0 or (status == ENDED_BY_SIGTERM and not compiled), "an update ends at its next minibatch"
    saved = state.load(tmp_path / "run" / "state.safetensors")  # whole, whenever it was saved
    assert status or (saved and "saved at step" in trainer.said())
