"""What a run that ended, crashed or was killed leaves, and how the next one goes on."""

import errno

import pytest
from refused import assert_names, refused
from small_runs import logged, rps, same_results, spooled

from league import wire
from league.errors import LeagueUnreachable
from trainer.checkpointing import format as state
from trainer.checkpointing.run_directory import RunDirectory
from trainer.config.loading import resolve
from trainer.errors import ConfigError


def refuse_unreachable(*arguments):
    raise LeagueUnreachable("here", "no answer", "start it")


def progress_of(client, step):
    learner = client.learners("rps").items[0].id
    return wire.Heartbeat(learners=[wire.LearnerProgress(learner_id=learner, step=step, metrics={})])


def test_restart_resumes_the_run(worker_of, client, tmp_path):
    worker_of(client, rps("run.total_timesteps=256")).run()
    lines = []
    again = worker_of(client, rps("run.total_timesteps=512"), lines=lines)
    assert "resumed at step 256" in lines
    again.run()
    assert (again.learner.steps, again.learner.updates) == (512, 8)
    assert same_results(spooled(tmp_path), logged(client))
    assert len(client.learners("rps").items) == 1


def test_a_second_run_of_a_learner_is_reported_with_a_remedy(worker_of, client):
    first, second, resumed, another = [], [], [], []
    worker_of(client, rps("run.total_timesteps=256"), lines=first).run()
    worker_of(client, rps(), lines=second, run="other")
    worker_of(client, rps(), lines=resumed)
    worker_of(client, rps("league.learner=another"), lines=another, run="another")
    told = "learner 'main' is at step 256 in this league, but "
    assert len([line for line in second if line.startswith(told) and "--resume" in line]) == 1
    assert not [line for line in first + resumed + another if "in this league, but" in line]


def test_a_complete_run_prints_how_to_continue(worker_of, client):
    worker_of(client, rps("run.total_timesteps=128")).run()
    lines = []
    again = worker_of(client, rps("run.total_timesteps=128"), lines=lines)
    again.run()
    assert again.learner.updates == 2
    assert len([line for line in lines if "--total-timesteps 256" in line]) == 1


def test_a_crash_between_saves_repeats_no_sequence(worker_of, client, tmp_path):
    """The state on the disk is older than the spool, as after kill -9."""
    config = rps("run.total_timesteps=256")
    worker = worker_of(client, config)
    worker.run()
    old = (tmp_path / "run" / "state.safetensors").read_bytes()
    worker_of(client, rps("run.total_timesteps=512")).run()
    (tmp_path / "run" / "state.safetensors").write_bytes(old)
    again = worker_of(client, rps("run.total_timesteps=640"))
    assert again.learner.steps == 256
    again.run()
    results = spooled(tmp_path)
    assert same_results(results, logged(client))
    assert len({(each["lease_id"], each["sequence"]) for each in results}) == len(results)
    assert again.spool.outcomes.keys() == {"accepted"}


def test_snapshot_undone_by_a_crash_is_not_published(worker_of, client, tmp_path, caplog):
    """The state on the disk is older than the snapshots, as after kill -9 before it was saved."""
    settings = "environment.self_play=0", "league.snapshot_every_steps=128"
    worker_of(client, rps("run.total_timesteps=128", *settings)).run()
    old = (tmp_path / "run" / "state.safetensors").read_bytes()
    client.upload = refuse_unreachable
    worker_of(client, rps("run.total_timesteps=384", *settings)).run()
    del client.upload
    assert len(list((tmp_path / "run" / "snapshots").iterdir())) == 2
    (tmp_path / "run" / "state.safetensors").write_bytes(old)
    worker_of(client, rps("run.total_timesteps=384", *settings)).run()
    assert [each.name for each in client.players("rps", kind="snapshot").items] == ["main@128", "main@256", "main@384"]
    assert_names(caplog.text, "dropped", 256)


def test_snapshot_is_published_after_a_restart_resumed_from_it(worker_of, client, tmp_path):
    worker = worker_of(client, rps("run.total_timesteps=384", "league.snapshot_every_steps=128"))
    publish, saved = client.publish, {}

    def noted(player):
        saved[player.step] = state.load(tmp_path / "run" / "state.safetensors").counters["steps"]
        return publish(player)

    client.publish = noted
    worker.run()
    assert saved == {128: 128, 256: 256, 384: 384}


def test_run_killed_before_its_first_update_resumes_as_the_same_run(worker_of, client, tmp_path):
    class Killed(BaseException):
        pass

    def killed():
        raise Killed

    worker = worker_of(client, rps())
    worker.learner.allocate = killed
    with pytest.raises(Killed):
        worker.run()
    client.heartbeat(client.workers().items[0].id, progress_of(client, step=64))
    lines = []
    worker_of(client, rps("run.total_timesteps=64"), lines=lines).run()
    assert "resumed at step 0" in lines
    assert not [line for line in lines if "two runs under one name" in line]


def test_a_run_that_failed_while_assigning_matches_plays_each_once(worker_of, client, tmp_path):
    first = worker_of(client, rps("run.total_timesteps=512", "environment.self_play=0"))
    next_match, dealt = first.session.leases.next_match, []

    def failing(row):
        dealt.append(row)
        if len(dealt) == 100:
            raise OSError(errno.EIO, "Input/output error")
        return next_match(row)

    first.session.leases.next_match = failing
    with pytest.raises(OSError, match="Input/output error"):
        first.run()
    told = len(spooled(tmp_path))
    again = worker_of(client, rps("run.total_timesteps=512", "environment.self_play=0"))
    again.run()
    results = spooled(tmp_path)
    assert len(results) > told == 104, "matches are told before their successors are dealt"
    assert same_results(results, logged(client))
    assert again.spool.outcomes.keys() == {"accepted"}
    played = {}
    for each in results:
        played.setdefault(each["lease_id"], []).append(each["sequence"])
    assert all(sorted(sequences) == list(range(len(sequences))) for sequences in played.values()), "none is left out"


def test_a_signal_ends_the_run_at_the_next_decision_with_everything_saved(worker_of, client, tmp_path, outside):
    worker = worker_of(client, rps("environment.self_play=0"))
    add_episode = worker.statistics.add

    def stop_in_the_third_rollout(episode):
        outside.asked = worker.statistics.episodes >= 150
        add_episode(episode)

    worker.statistics.add = stop_in_the_third_rollout
    worker.run()
    assert worker.learner.updates == 2
    assert (tmp_path / "run" / "state.safetensors").exists()
    assert same_results(spooled(tmp_path), logged(client))
    assert len(spooled(tmp_path)) == 152


@pytest.mark.integration
def test_past_the_grace_everything_is_saved_and_the_last_results_are_the_last_call(
    worker_of, client, tmp_path, outside
):
    worker = worker_of(client, rps())
    add_episode = worker.statistics.add

    def stop_in_the_third_rollout(episode):
        outside.asked = outside.past_grace = worker.statistics.episodes >= 150
        add_episode(episode)

    worker.statistics.add = stop_in_the_third_rollout
    worker.run()
    assert (tmp_path / "run" / "state.safetensors").exists()
    assert same_results(spooled(tmp_path), logged(client))
    assert client.learners("rps").items[0].step == 64  # that of the beat after the first update


def test_a_run_folder_of_another_environment_is_refused(worker_of, client):
    worker_of(client, rps("run.total_timesteps=64")).run()
    with refused("invalid-run-state", "--run"):
        worker_of(client, resolve("recall", None, []))


def test_a_run_folder_of_another_learner_is_refused(worker_of, client):
    worker_of(client, rps("run.total_timesteps=64", "league.learner=one")).run()
    with refused("invalid-run-state", "one", "other", "--run"):
        worker_of(client, rps("league.learner=other"))


def test_a_run_folder_is_locked_by_one_process(tmp_path):
    folder, same = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "run")
    with folder.locked(), refused("run-in-use"), same.locked():
        pass
    with same.locked():
        assert same.path.is_dir()


def test_a_run_folder_in_which_anything_was_written_stays_after_an_error(tmp_path):
    folder = RunDirectory(tmp_path / "runs" / "run")

    def refuse(*, written):
        with folder.locked():
            if written:
                folder.state.write_bytes(b"state")
            raise ConfigError("refused")

    for written in (False, True, False):
        with pytest.raises(ConfigError):
            refuse(written=written)
        assert folder.state.exists() == folder.path.exists() == (tmp_path / "runs").exists()
    assert folder.state.exists()
