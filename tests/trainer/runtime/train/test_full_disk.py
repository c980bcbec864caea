"""A disk that refuses while a run trains: nothing stops, nothing is lost, nothing is told twice."""

import errno
import json

import pytest
import torch
from refused import refused

from arena import atomic_files as durable
from arena import durable_log as growing
from league.client import LeagueClient
from league.client import result_spool as spool
from trainer.checkpointing import format as state
from trainer.config.loading import resolve
from trainer.league_client import snapshots as publishing
from trainer.opponents import checkpoint_cache

SMALL = ["environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8", "league.lease_budget=4"]
PACE = ["run.save_every_updates=2", "league.snapshot_every_steps=128"]


def rps(*settings):
    return resolve("rps", None, [*SMALL, *PACE, *settings])


@pytest.fixture
def client(serve):
    return LeagueClient(http=serve())


@pytest.fixture
def disk(monkeypatch):
    """A disk that can be full for everything that a run writes while it trains."""

    class Full:
        full = False

    write, append = durable.write_atomically, growing.AppendFile._write_all

    def refuse():
        if Full.full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def atomically(path, data, **options):
        refuse()
        write(path, data, **options)

    def appended(self, data):
        refuse()
        append(self, data)

    for module in (state, publishing, spool, checkpoint_cache):
        monkeypatch.setattr(module, "write_atomically", atomically)
    monkeypatch.setattr(growing.AppendFile, "_write_all", appended)
    return Full


def full_between(worker, disk, first, last):
    learn = worker.learner.learn

    def watched(*arguments):
        disk.full = first <= worker.learner.updates < last
        return learn(*arguments)

    worker.learner.learn = watched


@pytest.mark.holds("H1")
def test_training_continues_on_a_full_disk_and_writes_everything_later(worker_of, client, disk, tmp_path):
    told = []
    worker = worker_of(client, rps("run.total_timesteps=768"), lines=told)
    full_between(worker, disk, 3, 9)
    worker.run()
    assert worker.learner.updates == 12
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["charts/updates"] for line in metrics] == list(range(1, 13))
    assert state.load(tmp_path / "run" / "state.safetensors").counters["updates"] == 12
    files = sorted((tmp_path / "run" / "spool").glob("results-*"))
    results = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    player = client.learners("rps").items[0].player_id
    logged = client.matches(player, limit=1000).items
    assert sorted((each["lease_id"], each["sequence"]) for each in results) == sorted(
        (match.lease_id, match.sequence) for match in logged
    )
    assert max(each["learner_step"] for each in results) > 9 * 64
    for what in ("results", "metrics", "a snapshot"):
        assert len([line for line in told if line.startswith(f"cannot write {what} (No space left")]) == 1
        assert told.count(f"{what} can be written again") == 1


def test_the_state_is_saved_as_soon_as_there_is_room(worker_of, client, disk, tmp_path):
    pace = "run.save_every_updates=4", "league.snapshot_every_steps=1024"
    worker = worker_of(client, rps("run.total_timesteps=448", *pace))
    full_between(worker, disk, 3, 5)
    saved = []
    save = worker.save

    def watched():
        saved.append((worker.learner.updates, save()))
        return saved[-1][1]

    worker.save = watched
    worker.run()
    assert saved == [(0, True), (4, False), (5, False), (6, True), (7, True)]


def test_a_run_that_is_over_waits_for_room(worker_of, client, disk, tmp_path, outside):
    pause = outside.pause

    def room_after_a_minute(seconds):
        pause(seconds)
        disk.full = outside.time_s < 60.0

    outside.pause = room_after_a_minute
    worker = worker_of(client, rps("run.total_timesteps=256"))
    full_between(worker, disk, 2, 99)
    worker.run()
    assert outside.time_s > 60.0
    assert state.load(tmp_path / "run" / "state.safetensors").counters["updates"] == 4
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_signal_ends_the_wait_and_lost_results_are_reported(worker_of, client, disk, tmp_path, outside):
    def interrupted(seconds):
        outside.asked = True

    outside.pause = interrupted
    worker = worker_of(client, rps("run.total_timesteps=256"))
    full_between(worker, disk, 3, 99)
    with refused("unsaved-run", 128):
        worker.run()
    disk.full = outside.asked = False
    again = worker_of(client, rps("run.total_timesteps=256"))
    assert again.learner.updates == 2
    again.run()
    assert again.learner.updates == 4
    assert "conflict" not in again.spool.outcomes


def test_an_opponent_that_cannot_be_cached_is_played(worker_of, client, disk, tmp_path, caplog):
    worker_of(client, rps("run.total_timesteps=256")).run()
    for kept in (tmp_path / "run" / "opponents").iterdir():
        kept.unlink()
    worker = worker_of(client, rps("run.total_timesteps=512"))
    full_between(worker, disk, 0, 6)
    disk.full = True
    worker.run()
    assert worker.learner.updates == 8
    assert any(name.startswith("main@") for name in worker.statistics.win_rates())
    assert caplog.text.count("not cached") == 1


def test_progress_made_while_the_disk_was_full_is_saved(worker_of, client, disk, tmp_path):
    worker = worker_of(client, rps("run.total_timesteps=384"))
    full_between(worker, disk, 1, 5)
    worker.run()
    saved = state.load(tmp_path / "run" / "state.safetensors").tensors
    assert all(torch.equal(tensor, saved[name]) for name, tensor in worker.learner.tensors().items())
