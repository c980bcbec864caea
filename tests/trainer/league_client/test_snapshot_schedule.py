"""Snapshots and new beginnings, as the league decides them."""

import errno

import pytest
import torch
from refused import assert_names, refused
from small_runs import rps

from arena.environments import declare
from arena.policies.checkpoint import decode
from league.errors import LeagueUnreachable
from trainer.checkpointing import format as state
from trainer.config.loading import resolve, to_toml
from trainer.league_client import snapshots as publishing
from trainer.ppo.learner import Learner

PACE = ["league.snapshot_every_steps=128", "run.save_every_updates=1000"]
EXPLOITER = ["league.role=main_exploiter", "league.learner=finder", *PACE]


class Killed(BaseException):
    """The process is gone."""


def killed(*arguments):
    raise Killed


def unreachable(*arguments):
    raise LeagueUnreachable("here", "no answer", "start it")


def known(client, name="finder"):
    """The learner as the league knows it, and the steps of its snapshots."""
    (learner,) = [each for each in client.learners("rps").items if each.name == name]
    snapshots = client.players("rps", kind="snapshot").items
    return learner, [each.step for each in snapshots if each.learner_id == learner.id]


def weights(learner):
    return {name: tensor.clone() for name, tensor in learner.tensors().items() if name.startswith("network.")}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def first_weights(config):
    return weights(Learner(config, declare("rps")))


# --- the learner -----------------------------------------------------------------------------------------------------


def test_reset_learner_equals_a_new_one_except_for_counters_and_rng(play):
    played = play(schedules={"horizon_steps": 100}, optimizer={"learning_rate_warm_up_steps": 50})
    fresh, learner = play().learner.tensors(), played.learner
    beginning = learner.coefficients()
    for _ in range(2):
        learner.learn(played.collect(), lambda: False)
    steps, chance = learner.steps, learner.tensors()["rng.update"].clone()
    assert not torch.equal(learner.tensors()["network.critic.weight"], fresh["network.critic.weight"])
    learner.reset_weights()
    found = learner.tensors()
    assert torch.equal(found.pop("rng.update"), chance)
    assert same(
        {name: tensor for name, tensor in found.items() if name != "rng.acting"},
        {name: tensor for name, tensor in fresh.items() if not name.startswith("rng.")},
    )
    assert (learner.steps, learner.updates, learner.began_step) == (steps, 2, steps)
    assert learner.coefficients() == beginning
    learner.learn(played.collect(), lambda: False)  # its memory of matches in progress is still good


def test_reset_to_other_weights_keeps_observation_statistics(play):
    played, other = play(), play(run={"seed": 5}).learner.network
    learner = played.learner
    learner.learn(played.collect(), lambda: False)
    seen = learner.tensors()["observations.mean"].clone()
    learner.reset_weights(other)
    mine, theirs = dict(learner.network.named_parameters()), dict(other.named_parameters())
    assert same({name: each.data for name, each in mine.items()}, {name: each.data for name, each in theirs.items()})
    assert torch.equal(learner.tensors()["observations.mean"], seen)
    assert torch.allclose(learner.network.observation_mean.double(), seen)
    assert not any(name.startswith("adam.") for name in learner.tensors())


# --- in a run --------------------------------------------------------------------------------------------------------


@pytest.mark.holds("J6")
def test_exploiter_takes_a_snapshot_and_is_reset(worker_of, client, tmp_path):
    config, lines = rps("run.total_timesteps=128", *EXPLOITER), []
    worker = worker_of(client, config, lines=lines)
    worker.run()
    assert same(weights(worker.learner), first_weights(config))
    learner, steps = known(client)
    assert (learner.role, learner.resets, learner.began_step, steps) == ("main_exploiter", 1, 128, [128])
    assert any(line.startswith("reset the learner") and "step 128:" in line for line in lines)
    resumed = worker_of(client, rps("run.total_timesteps=256", *EXPLOITER))
    assert (resumed.learner.began_step, resumed.learner.steps) == (128, 128)
    assert same(weights(resumed.learner), first_weights(config))
    resumed.run()
    learner, steps = known(client)
    assert (learner.resets, steps) == (2, [128, 256])


def test_main_continues_from_its_snapshot(worker_of, client):
    config = rps("run.total_timesteps=192", *PACE)
    worker = worker_of(client, config)
    worker.run()
    learner, steps = known(client, "main")
    assert (learner.resets, steps, worker.learner.began_step) == (0, [128, 192], 0)
    (event,) = client.events(kind="snapshot").items
    assert (event.details["role"], event.details["reset"]) == ("main", False)


def test_finished_run_takes_a_last_snapshot(worker_of, client):
    worker = worker_of(client, rps("run.total_timesteps=64", *PACE))
    worker.run()
    (left,) = client.players("rps", kind="snapshot").items
    published = decode(client.download(left.checkpoint), device="cpu", source="the league").network
    assert left.step == 64
    assert same(weights(worker.learner), {f"network.{name}": each for name, each in published.state_dict().items()})
    worker_of(client, rps("run.total_timesteps=64", *PACE)).run()
    assert known(client, "main")[1] == [64]
    worker_of(client, rps("run.total_timesteps=192", *PACE)).run()
    assert known(client, "main")[1] == [64, 192]


def test_run_ended_by_a_signal_takes_no_snapshot(worker_of, client, outside, tmp_path):
    worker = worker_of(client, rps("run.total_timesteps=640", *PACE))
    learn = worker.learner.learn

    def signalled(*arguments):
        outside.asked = worker.learner.updates == 2
        return learn(*arguments)

    worker.learner.learn = signalled
    worker.run()
    assert worker.learner.steps == 192
    assert known(client, "main")[1] == [128]
    assert not list((tmp_path / "run" / "snapshots").iterdir())


def test_last_snapshot_is_written_once_the_disk_has_room(worker_of, client, outside, monkeypatch):
    write = publishing.write_atomically

    def full(path, data):
        if outside.time_s < 60.0:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, data)

    monkeypatch.setattr(publishing, "write_atomically", full)
    lines = []
    worker_of(client, rps("run.total_timesteps=64", *PACE), lines=lines).run()
    assert known(client, "main")[1] == [64]
    assert "a snapshot can be written again" in lines


def before_the_snapshot(worker):
    worker.session.outbox.add = killed


def before_the_new_beginning(worker):
    worker.learner.reset_weights = killed


def before_it_is_saved(worker):
    reset_weights = worker.learner.reset_weights

    def then_killed(start):
        reset_weights(start)
        worker.session.saver.save = killed

    worker.learner.reset_weights = then_killed


@pytest.mark.parametrize("kill", [before_the_snapshot, before_the_new_beginning, before_it_is_saved])
def test_a_killed_run_receives_the_same_decision_again(worker_of, client, tmp_path, kill):
    config = rps("run.total_timesteps=128", *EXPLOITER)
    worker = worker_of(client, config)
    kill(worker)
    worker._write_all = lambda journal: True  # a killed process writes nothing more
    with pytest.raises(Killed):
        worker.run()
    assert state.load(tmp_path / "run" / "state.safetensors").counters["steps"] == 0
    (before,) = client.events(kind="snapshot").items
    again = worker_of(client, config)
    again.run()
    learner, steps = known(client)
    assert (learner.resets, learner.began_step, steps) == (1, 128, [128])
    assert client.events(kind="snapshot").items == [before]
    assert same(weights(again.learner), first_weights(config))


def test_run_killed_after_saving_publishes_and_resets_once(worker_of, client):
    config = rps("run.total_timesteps=128", *EXPLOITER)
    client.upload = unreachable
    worker_of(client, config).run()
    del client.upload
    assert known(client)[1] == []
    again = worker_of(client, rps("run.total_timesteps=192", *EXPLOITER))
    again.run()
    learner, steps = known(client)
    assert (learner.resets, learner.began_step, steps) == (1, 128, [128, 192])
    assert again.learner.began_step == 128


def test_unreachable_league_means_snapshots_at_the_limit_and_no_reset(worker_of, client, transport, outside):
    worker = worker_of(client, rps("run.total_timesteps=448", *EXPLOITER))
    learn = worker.learner.learn

    def watched(*arguments):
        transport.down = worker.learner.updates < 3
        outside.time_s += 2.0
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    learner, steps = known(client)
    assert steps == [128, 256, 384, 448]
    assert (learner.resets, learner.began_step) == (2, 384)


def test_an_exploiter_may_reset_weights_with_the_weights_of_a_main(worker_of, client):
    main = worker_of(client, rps("run.total_timesteps=128", *PACE), run="main")
    main.run()
    exploiter = worker_of(client, rps("run.total_timesteps=128", "role.start=main", *EXPLOITER))
    exploiter.run()
    mine, theirs = (dict(each.learner.network.named_parameters()) for each in (exploiter, main))
    assert same({name: each.data for name, each in mine.items()}, {name: each.data for name, each in theirs.items()})


def test_incompatible_weights_are_logged_and_initial_weights_used(worker_of, client, caplog):
    worker_of(client, rps("run.total_timesteps=128", *PACE), run="main").run()
    config = rps("run.total_timesteps=128", "role.start=main", "network.recurrent_size=8", *EXPLOITER)
    exploiter = worker_of(client, config)
    exploiter.run()
    assert same(weights(exploiter.learner), first_weights(config))
    assert_names(caplog.text, "network")


def test_weights_that_cannot_be_had_now_hold_the_new_beginning_up(worker_of, client, outside):
    worker_of(client, rps("run.total_timesteps=128", *PACE), run="main").run()
    exploiter = worker_of(client, rps("run.total_timesteps=256", "role.start=main", *EXPLOITER))
    download, learn, tried = client.download, exploiter.learner.learn, []

    def at_the_second_try(sha256):
        tried.append(sha256)
        if len(tried) == 1:
            unreachable()
        return download(sha256)

    def a_second_later(*arguments):
        outside.time_s += 1.0
        return learn(*arguments)

    client.download, exploiter.learner.learn = at_the_second_try, a_second_later
    exploiter.session._snapshots._session.lease = lambda *arguments, **options: None  # nobody else downloads
    exploiter.run()
    learner, steps = known(client)
    assert steps[0] > 128
    assert (learner.resets, learner.began_step) == (1, steps[0])


# --- settings --------------------------------------------------------------------------------------------------------


def test_role_numbers_are_sent_to_the_league(worker_of, client):
    worker_of(client, rps("role.reset=0.5", "role.power=3", *PACE))
    (learner,) = client.learners("rps").items
    assert {name: learner.rules[name] for name in ("snapshot_steps", "snapshot_limit", "reset", "power")} == {
        "snapshot_steps": 64,
        "snapshot_limit": 128,
        "reset": 0.5,
        "power": 3.0,
    }


def test_exploiters_play_no_self_play_by_default():
    assert resolve("rps", None, []).environment.self_play > 0.0
    assert resolve("rps", None, ["league.role=league_exploiter"]).environment.self_play == 0.0
    assert (
        resolve("rps", None, ["league.role=league_exploiter", "environment.self_play=0.5"]).environment.self_play == 0.5
    )


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        (["league.role=master"], ("league.role", "master", "main", "main_exploiter", "league_exploiter")),
        (["league.role=main_exploiter", "role.weighting=hard"], ("main_exploiter",)),
        (["role.reset=1.5"], ("role.reset", 1.5, 0, 1)),
        (
            ["role.snapshot_steps=129", *PACE],
            ("role.snapshot_steps", 129, 128, "league.snapshot_every_steps"),
        ),
        (["role.start=best"], ("role.start", "best", "main")),
        (["role.balance=roles"], ("role.balance", "roles")),
    ],
)
def test_invalid_roles_and_numbers_are_rejected_before_the_start(settings, values):
    with refused("invalid-setting", *values):
        resolve("rps", None, settings)


def test_role_numbers_are_saved_with_the_run(tmp_path):
    config = resolve("rps", None, ["role.reset=0.5"])
    (tmp_path / "config.toml").write_text(to_toml(config))
    assert resolve(None, tmp_path / "config.toml", []).role.reset == 0.5
