import pytest

from league.client import LeagueClient
from league.errors import LeagueUnreachable
from trainer.config.loading import resolve

RPS = ["environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8", "league.snapshot_every_steps=128"]


def rps(*settings):
    return resolve("rps", None, [*RPS, *settings])


@pytest.fixture
def client(serve):
    return LeagueClient(http=serve())


def test_finished_run_publishes_snapshots_that_wait(worker_of, client, monkeypatch):
    def unreachable(*arguments):
        raise LeagueUnreachable("here", "no answer", "start it")

    config = rps("run.total_timesteps=128")
    with monkeypatch.context() as away:
        away.setattr(client, "upload", unreachable)
        worker_of(client, config).run()
    assert client.players("rps", kind="snapshot").items == []
    worker_of(client, config).run()
    assert [each.step for each in client.players("rps", kind="snapshot").items] == [128]


def test_after_a_signal_snapshots_wait_for_the_next_start(worker_of, client, outside, tmp_path):
    worker = worker_of(client, rps())
    learn = worker.learner.learn

    def signalled(*arguments):
        outside.asked = worker.learner.updates == 1
        return learn(*arguments)

    worker.learner.learn = signalled
    worker.run()
    assert client.players("rps", kind="snapshot").items == []
    assert [file.name for file in (tmp_path / "run" / "snapshots").iterdir()] == ["000000000000128.safetensors"]
