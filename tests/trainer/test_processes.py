"""Real processes: a server and a trainer, killed and started again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from league.client import LeagueClient
from league.errors import LeagueError

PATIENCE_S = 60.0
SMALL = ["environment.num_envs=8", "rollout.steps=16", "rollout.chunk=8", "run.save_every_updates=7"]
PACE = ["league.backoff_max_s=1", "league.heartbeat_s=1", "league.snapshot_every_steps=2000", "league.lease_budget=3"]


class Process:
    """One command, its output in a file."""

    def __init__(self, log, *command):
        self.log = log
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LEAGUE_")}
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command], stdout=output, stderr=subprocess.STDOUT, env=environment
            )

    def kill(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def terminate(self, within_s):
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=within_s)


@pytest.fixture
def start(tmp_path):
    processes = []

    def launch(name, *command):
        process = Process(tmp_path / f"{name}.log", *command)
        processes.append(process)
        return process

    yield launch
    for process in processes:
        process.kill()


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if value := condition():
                return value
        except LeagueError:
            pass
        time.sleep(0.1)
    pytest.fail(f"gave up waiting: {what}")


def test_killing_either_process_loses_no_accepted_result_and_counts_none_twice(tmp_path, start, port):
    url = f"http://127.0.0.1:{port}"
    serve = ("league", "serve", "--port", str(port), "--home", str(tmp_path / "home"))
    settings = [word for each in (*SMALL, *PACE) for word in ("--set", each)]
    folder = ("--run", str(tmp_path / "run"), "--environment", "recall")
    train = ("trainer", "run", "--league", url, *folder, *settings)

    server, trainer = start("server", *serve), start("trainer", *train)
    with LeagueClient(url) as client:

        def step():
            return client.learners("recall").items[0].step or 0

        def goes_on(what):
            reached = until(lambda: step() + 1, "the server answers")
            until(lambda: step() > reached + 1000, what)

        until(lambda: client.learners("recall").items, "the trainer attaches")
        goes_on("training reports its progress")
        trainer.kill()
        trainer = start("trainer", *train)
        goes_on("the trainer goes on after kill -9")
        seen = {match.id for match in matches_of(client)}
        server.kill()
        time.sleep(2.0)
        server = start("server", *serve)
        goes_on("training goes on after the server's kill -9")
        assert trainer.terminate(within_s=10.0) == 0
        log = {(match.lease_id, match.sequence): match for match in matches_of(client)}
        assert seen <= {match.id for match in log.values()}
        compare_with_spool(tmp_path, log)
        assert len(client.players("recall", kind="snapshot").items) >= 1
    assert server.terminate(within_s=10.0) in (0, -signal.SIGTERM)


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
    assert set(keys) == set(log)
    for line in lines:
        match = log[line["lease_id"], line["sequence"]]
        assert (match.score, match.seed) == (line["score"], line["seed"])
    said = (tmp_path / "trainer.log").read_text()
    for bad in ("rejected", "conflict", "Traceback"):
        assert bad not in said.replace("losses/rejected", "")
