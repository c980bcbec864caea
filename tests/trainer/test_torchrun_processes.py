"""Two real ranks under torchrun, against a real server: killed, hanging, told to leave."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from served import serving
from small_runs import RPS, logged, same_results, spooled, waiting

from league.client import LeagueClient
from trainer import state
from trainer.folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PACE = ["league.backoff_max_s=1", "league.heartbeat_s=1", "run.save_every_updates=7"]


class Agent:
    """One torchrun and its ranks, their output in a file."""

    def __init__(self, log, process):
        self.log, self.process = log, process

    def said(self):
        return self.log.read_text()

    def rank(self, number):
        """The process of a rank; None while there is none."""
        agent = self.process.pid
        for child in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
            try:
                names = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"RANK={number}".encode() in names:
                return int(child)
        return None

    def until(self, condition):
        while not (value := condition()):
            assert self.process.poll() is None, self.said()[-3000:]
            time.sleep(0.05)
        return value

    def updates(self):
        return self.said().count("update ")


@contextmanager
def torchrun(tmp_path, url, *options, settings=()):
    log = tmp_path / "torchrun.log"
    learning = [word for each in (*RPS, *PACE, *settings) for word in ("--set", each)]
    trainer = ["trainer", "run", "--league", url, "--environment", "rps", "--run", str(tmp_path / "run"), *learning]
    launch = ["--standalone", "--nproc-per-node", "2", "--shutdown-timeout", "2", *options, "-m", "--"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEAGUE_")}
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "torch.distributed.run", *launch, *trainer]
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
    agent = Agent(log, process)
    try:
        yield agent
    finally:
        for pid in filter(None, [agent.rank(0), agent.rank(1)] if process.poll() is None else []):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


@pytest.mark.parametrize("victim", [0, 1])
def test_ranks_resume_after_one_is_killed_and_count_every_result_once(tmp_path, victim):
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, "--max-restarts", "3") as agent:
        for restart in range(2):
            reached = agent.updates()
            agent.until(lambda reached=reached: agent.updates() > reached + 10)
            os.kill(agent.rank(victim), signal.SIGKILL)
            agent.until(lambda restart=restart: agent.said().count("resumed at step") > restart)
        reached = agent.updates()
        agent.until(lambda: agent.updates() > reached + 10)
        agent.process.send_signal(signal.SIGTERM)
        agent.process.wait()
        assert "saved at step" in agent.said()
        written = spooled(tmp_path)
        late = waiting(tmp_path / "run")
        with LeagueClient(served.url) as client:
            log = logged(client)
        delivered = [each for each in written if (each["lease_id"], each["sequence"]) not in late]
        assert len(log) > 300
        assert same_results(delivered, log)
        counters = state.load(tmp_path / "run" / "state.safetensors").counters
        assert [set(each) for each in counters["ranks"]] == [{"leases", "chance"}]
        for bad in ("rejected", "conflict"):
            assert bad not in agent.said()


def test_a_rank_that_hangs_is_named(tmp_path):
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, settings=["run.ranks_timeout_s=4"]) as agent:
        agent.until(lambda: agent.updates() > 3)
        hanging = agent.rank(1)
        os.kill(hanging, signal.SIGSTOP)
        agent.process.wait()
        named = [line for line in agent.said().splitlines() if line.startswith("trainer: rank 0 cannot go on")]
        assert len(named) == 1
        assert f"process {hanging}) is gone or does not answer" in named[0]
        assert state.load(tmp_path / "run" / "state.safetensors") is not None


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ranks_save_and_leave_when_their_torchrun_is_killed(tmp_path):
    """Else they would go on for ever, and a supervisor's next torchrun would find the run folder in use."""
    with serving(tmp_path) as served, torchrun(tmp_path, served.url) as agent:
        agent.until(lambda: agent.updates() > 3)
        ranks = [agent.rank(0), agent.rank(1)]
        agent.process.kill()
        agent.process.wait()
        while any(map(alive, ranks)):
            time.sleep(0.05)
        assert "saved at step" in agent.said()
        with RunFolder(tmp_path / "run").taken():
            assert state.load(tmp_path / "run" / "state.safetensors").counters["updates"] > 3
