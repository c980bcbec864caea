"""A league that is away, or forgot: training goes on and loses nothing."""

import pytest
from refused import refused
from small_runs import logged, rps, same_results, spooled

from league.api.middleware import protocol_version


def test_training_continues_without_the_league_and_loses_nothing(worker_of, client, transport, tmp_path, outside):
    worker = worker_of(client, rps("run.total_timesteps=1280", "league.snapshot_every_steps=320"))
    learn = worker.learner.learn

    def watched(*arguments):
        transport.down = 4 <= worker.learner.updates < 12
        outside.time_s += 0.3
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    assert worker.learner.updates == 20
    results = spooled(tmp_path)
    assert same_results(results, logged(client))
    assert worker.spool.undelivered_bytes() == 0
    assert 0 < len(results) < worker.statistics.episodes == 1280  # without a lease nothing is reported
    assert [player.step for player in client.players("rps", kind="snapshot").items] == [320, 640, 960, 1280]


def test_answers_lost_after_the_work_was_done_count_no_result_twice(worker_of, client, transport, tmp_path, outside):
    worker = worker_of(client, rps("run.total_timesteps=640"))
    learn = worker.learner.learn

    def watched(*arguments):
        transport.loses_answers = worker.learner.updates in (2, 3, 6)
        outside.time_s += 1.0
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    assert same_results(spooled(tmp_path), logged(client))
    assert worker.spool.outcomes["duplicate"] > 0


def test_results_wait_for_a_league_that_speaks_another_protocol(worker_of, client, monkeypatch, tmp_path, outside):
    worker = worker_of(client, rps("run.total_timesteps=640"))
    learn = worker.learner.learn

    def watched(*arguments):
        foreign = 2 <= worker.learner.updates < 6
        monkeypatch.setattr(protocol_version, "_SPOKEN", frozenset({b"2"} if foreign else {b"1"}))
        outside.time_s += 1.0
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    assert worker.learner.updates == 10
    assert same_results(spooled(tmp_path), logged(client))
    assert worker.spool.outcomes["refused"] == 0


def test_a_run_with_another_protocol_does_not_start_and_names_the_update(worker_of, client, monkeypatch):
    monkeypatch.setattr(protocol_version, "_SPOKEN", frozenset({b"2"}))
    with refused("unsupported-protocol", "echelon-league"):
        worker_of(client, rps())


def test_a_run_that_was_attached_before_starts_without_the_league(worker_of, client, transport):
    worker_of(client, rps("run.total_timesteps=128")).run()
    transport.down = True
    again = worker_of(client, rps("run.total_timesteps=256"))
    again.run()
    assert again.learner.steps == 256


@pytest.mark.holds("T11")
def test_a_new_run_waits_for_a_league_and_then_gives_up_in_one_line(worker_of, client, transport, outside):
    transport.down = True
    with refused("league-unreachable", 60, "league serve"):
        worker_of(client, rps())
    assert outside.time_s >= 60.0


def test_a_signal_ends_the_wait_for_a_league_and_is_named(worker_of, client, transport, outside):
    transport.down = outside.asked = True
    with refused("league-unreachable", "http://testserver"):
        worker_of(client, rps())


def test_a_league_that_lost_its_memory_is_registered_with_again(worker_of, client, transport, tmp_path, caplog):
    worker = worker_of(client, rps("run.total_timesteps=640"))
    membership = worker.session._league_session
    known = membership.registration
    learn = worker.learner.learn

    def watched(*arguments):
        if worker.learner.updates == 3:
            membership.registration = type(known)("nobody", known.learner_id, known.player_id)
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    assert membership.registration == known
    assert "registering again" in caplog.text
    assert same_results(spooled(tmp_path), logged(client))
