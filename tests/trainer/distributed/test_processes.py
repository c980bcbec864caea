"""Two real ranks under torchrun, against a real server: killed, hanging, told to leave."""

import time
from pathlib import Path

import pytest
import torch.distributed as dist
from served import serving
from torchruns import assert_a_hang_ends_all_ranks, assert_counted_once, torchrun

from trainer.checkpointing import format as state
from trainer.checkpointing.run_directory import RunDirectory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("victim", [0, 1])
def test_ranks_resume_after_one_is_killed_and_count_every_result_once(tmp_path, victim):
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, "--max-restarts", "3") as agents:
        for _ in range(2):
            agents.learn()
            agents.kill(victim)
        agents.learn()
        agents.leave()
        assert_counted_once(tmp_path, served.url, agents.said())


def test_ranks_of_two_machines_resume_after_either_was_killed(tmp_path):
    """How often each torchrun has started its ranks is another number."""
    meeting_point = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    conf = f"--rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:{meeting_point.port} --rdzv-conf=is_host=0 --rdzv-id=main"
    machine = ["--nnodes=2", "--nproc-per-node=1", "--local-addr=127.0.0.1", "--max-restarts=6", *conf.split()]
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, machines=[machine] * 2) as agents:
        for victim in (1, 0, 1):
            agents.learn()
            agents.kill(victim)
        agents.learn()
        agents.leave()
        assert_counted_once(tmp_path, served.url, agents.said())


def test_a_rank_that_hangs_ends_all_ranks(tmp_path):
    hasty = "--shutdown-timeout", "2"  # a process that hangs does not heed SIGTERM
    settings = ["run.ranks_timeout_s=4"]
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, *hasty, settings=settings) as agents:
        assert_a_hang_ends_all_ranks(tmp_path, agents)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_ranks_save_and_leave_when_their_torchrun_is_killed(tmp_path):
    """Else they would go on for ever, and a supervisor's next torchrun would find the run folder in use."""
    with serving(tmp_path) as served, torchrun(tmp_path, served.url) as agents:
        agents.until(lambda: agents.updates() > 3)
        ranks = [agents.rank(0), agents.rank(1)]
        agents.processes[0].kill()
        agents.processes[0].wait()
        while any(map(alive, ranks)):
            time.sleep(0.05)
        assert "saved at step" in agents.said()
        with RunDirectory(tmp_path / "run").locked():
            assert state.load(tmp_path / "run" / "state.safetensors").counters["updates"] > 3
