"""Real torchruns with their ranks: started, watched, killed and told to leave."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from small_runs import RPS, deliver_rest, logged, same_results, spooled, without_gaps

from league.client import LeagueClient
from trainer.checkpointing import format as state
from trainer.distributed.launch import OWN_STORE

PACE = ["league.backoff_max_s=1", "league.heartbeat_s=1", "run.save_every_updates=7"]


ONE_MACHINE = [["--standalone", "--nproc-per-node", "2"]]


class Agents:
    """Torchruns and their ranks, their output in one file."""

    def __init__(self, log, processes):
        self.log, self.processes = log, processes

    def said(self):
        return self.log.read_text()

    def rank(self, number):
        """The process of a rank; None while there is none."""
        for child in self.children():
            try:
                names = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"RANK={number}".encode() in names:
                return child
        return None

    def children(self):
        running = [each.pid for each in self.processes if each.poll() is None]
        listed = [Path(f"/proc/{agent}/task/{agent}/children").read_text() for agent in running]
        return [int(child) for children in listed for child in children.split()]

    def until(self, condition):
        while not (value := condition()):
            assert [each.poll() for each in self.processes] == [None] * len(self.processes), self.said()[-3000:]
            time.sleep(0.05)
        return value

    def updates(self):
        return self.said().count("update ")

    def learn(self):
        """Wait for some more updates."""
        reached = self.updates()
        self.until(lambda: self.updates() > reached + 10)

    def kill(self, victim):
        """Kill a rank, and wait until all ranks have begun again."""
        resumed = self.said().count("resumed at step")
        os.kill(self.until(lambda: self.rank(victim)), signal.SIGKILL)
        self.until(lambda: self.said().count("resumed at step") > resumed)

    def leave(self):
        """Have all saved, by a signal to every torchrun."""
        for each in self.processes:
            each.send_signal(signal.SIGTERM)
        for each in self.processes:
            each.wait()
        assert "saved at step" in self.said()


@contextmanager
def torchrun(tmp_path, url, *options, machines=ONE_MACHINE, settings=()):
    log = tmp_path / "torchrun.log"
    learning = [word for each in (*RPS, *PACE, *settings) for word in ("--set", each)]
    trainer = ["trainer", "run", "--url", url, "--environment", "rps", "--run", str(tmp_path / "run"), *learning]
    command = [sys.executable, "-m", "torch.distributed.run", "--shutdown-timeout", "60", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEAGUE_")}
    environment[OWN_STORE] = "1"
    agents = Agents(log, [])
    try:
        with log.open("ab") as stream:
            for machine in machines:
                launch = [*command, *machine, "-m", "--", *trainer]
                agents.processes.append(subprocess.Popen(launch, stdout=stream, stderr=stream, env=environment))
        yield agents
    finally:
        for pid in agents.children():
            os.kill(pid, signal.SIGKILL)
        for process in agents.processes:
            process.kill()
            process.wait()


def assert_counted_once(tmp_path, url, said):
    with LeagueClient(url) as client:
        assert deliver_rest(tmp_path / "run", client).keys() <= {"accepted", "duplicate"}
        log = logged(client)
    assert len(log) > 300
    assert without_gaps(log)
    written = spooled(tmp_path)  # without files that have gone: all that they had was delivered
    kept = {(each["lease_id"], each["sequence"]) for each in written}
    assert same_results(written, [each for each in log if (each.lease_id, each.sequence) in kept])
    counters = state.load(tmp_path / "run" / "state.safetensors").counters
    assert [set(each) for each in counters["ranks"]] == [{"leases", "chance"}]
    for bad in ("rejected", "conflict"):
        assert bad not in said


def assert_a_hang_ends_all_ranks(tmp_path, agents):
    """Stop a rank of one torchrun: the other one reports it and ends; a saved state is left."""
    agents.until(lambda: agents.updates() > 3)
    os.kill(agents.rank(1), signal.SIGSTOP)
    agents.processes[0].wait()
    lines = [line for line in agents.said().splitlines() if line.startswith("trainer: rank 0 cannot continue")]
    assert len(lines) == 1
    assert "rank 1 has exited or does not respond" in lines[0]
    assert state.load(tmp_path / "run" / "state.safetensors") is not None
