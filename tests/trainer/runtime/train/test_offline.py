"""A run without a league trains by self-play, and joins a league later."""

import hashlib
import json

import pytest
from refused import refused
from small_runs import logged, rps, same_results, spooled

from league.client import LeagueClient
from trainer.checkpointing import format as state
from trainer.cli import clients as connection
from trainer.opponents.pool import SELF

SETTINGS = "league.snapshot_every_steps=64", "environment.self_play=0.25"


@pytest.fixture
def nowhere():
    """A connection to an address where nothing listens."""
    with LeagueClient("http://127.0.0.1:9") as client:
        yield client


def snapshots(folder):
    return sorted(folder.glob("*.safetensors"))


def test_offline_run_plays_itself_and_its_own_snapshots(worker_of, nowhere, tmp_path):
    worker = worker_of(nowhere, rps("run.total_timesteps=512", *SETTINGS), offline=True)
    met, take = set(), worker.session.collector._on_match

    def watch(episode):
        met.add((episode.assignment.opponent.key, episode.assignment.lease))
        take(episode)

    worker.session.collector._on_match = watch
    worker.run()
    taken = snapshots(tmp_path / "run" / "snapshots")
    assert [int(file.stem) for file in taken] == list(range(64, 576, 64))
    own = {hashlib.sha256(file.read_bytes()).hexdigest() for file in taken}
    assert {lease for _, lease in met} == {None}
    assert (SELF, None) in met
    assert {key for key, _ in met} - {SELF} <= own
    assert len({key for key, _ in met} - {SELF}) > 3


def test_an_offline_run_leaves_no_results_and_no_membership_behind(worker_of, nowhere, tmp_path, caplog):
    worker_of(nowhere, rps("run.total_timesteps=256", *SETTINGS), offline=True).run()
    assert spooled(tmp_path) == []
    assert state.read_counters(tmp_path / "run" / "state.safetensors")["attachment"] is None
    assert caplog.text == "", "no call is made, so none fails"
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["charts/episodes"] == 256


def test_offline_run_resumes_offline(worker_of, nowhere, tmp_path):
    worker_of(nowhere, rps("run.total_timesteps=256", *SETTINGS), offline=True).run()
    lines = []
    again = worker_of(nowhere, rps("run.total_timesteps=512", *SETTINGS), lines=lines, offline=True)
    assert "resumed at step 256" in lines
    again.run()
    assert again.learner.steps == 512
    assert len(snapshots(tmp_path / "run" / "snapshots")) == 8


def test_an_offline_run_that_is_started_with_a_league_joins_it(worker_of, nowhere, client, tmp_path):
    worker_of(nowhere, rps("run.total_timesteps=256", *SETTINGS), offline=True).run()
    lines = []
    worker_of(client, rps("run.total_timesteps=512", *SETTINGS), lines=lines).run()
    assert [player.step for player in client.players("rps", kind="snapshot").items] == list(range(64, 576, 64))
    assert snapshots(tmp_path / "run" / "snapshots") == []
    assert logged(client)
    assert same_results(spooled(tmp_path), logged(client))
    assert not [line for line in lines if "two runs under one name" in line]


def test_joining_a_league_that_knows_the_name_from_another_run_is_reported(worker_of, nowhere, client):
    worker_of(client, rps("run.total_timesteps=128")).run()
    worker_of(nowhere, rps("run.total_timesteps=256"), run="alone", offline=True).run()
    lines = []
    worker_of(client, rps("run.total_timesteps=256"), run="alone", lines=lines)
    (warning,) = [line for line in lines if "is at step 128 in this league" in line]
    assert "continues at step 256" in warning


def test_a_league_that_answers_is_found_at_once(client, outside):
    assert connection.answers(client, outside.run_context())
    assert outside.time_s < connection.ANSWER_WITHIN_S / 2


def test_a_server_that_refuses_answers_all_the_same(client, outside, monkeypatch):
    monkeypatch.setattr(client, "health", lambda: client.player(7))
    assert connection.answers(client, outside.run_context())


def test_a_league_that_is_away_is_looked_for_as_long_as_one_takes_to_start(transport, client, outside):
    transport.down = True
    assert not connection.answers(client, outside.run_context())
    assert connection.ANSWER_WITHIN_S <= outside.time_s < connection.ANSWER_WITHIN_S + 1


def test_a_signal_ends_the_search_for_a_league(transport, client, outside):
    transport.down = outside.asked = True
    assert not connection.answers(client, outside.run_context())
    assert outside.time_s < connection.ANSWER_WITHIN_S / 2


def test_a_run_with_a_league_that_is_named_still_waits_for_it(worker_of, nowhere):
    with refused("league-unreachable", "127.0.0.1:9", 0):
        worker_of(nowhere, rps("league.connect_s=0"))
