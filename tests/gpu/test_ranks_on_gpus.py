"""Two ranks on two GPUs, over NCCL, under torchrun. No pair of GPUs was at hand when these were written."""

import pytest
from gpus import needs_gpus
from served import serving
from torchruns import assert_a_hang_ends_all_ranks, assert_counted_once, torchrun

pytestmark = [*needs_gpus(2), pytest.mark.timeout(900)]

ON_GPUS = "run.device=cuda"


@pytest.mark.parametrize("victim", [0, 1])
def test_ranks_on_gpus_resume_after_one_is_killed_and_count_every_result_once(tmp_path, victim):
    options = "--max-restarts", "3"
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, *options, settings=[ON_GPUS]) as agents:
        for _ in range(2):
            agents.learn()
            agents.kill(victim)
        agents.learn()
        agents.leave()
        assert_counted_once(tmp_path, served.url, agents.said())


def test_a_rank_on_a_gpu_that_hangs_ends_all_ranks(tmp_path):
    hasty = "--shutdown-timeout", "2"  # a process that hangs does not heed SIGTERM
    settings = ["run.ranks_timeout_s=10", ON_GPUS]
    with serving(tmp_path) as served, torchrun(tmp_path, served.url, *hasty, settings=settings) as agents:
        assert_a_hang_ends_all_ranks(tmp_path, agents)
