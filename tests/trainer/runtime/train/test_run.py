"""A run reports, publishes, and heeds what the league says."""

import dataclasses
import hashlib
import json
from datetime import UTC, datetime

import pytest
import torch
from refused import assert_names, refused
from small_runs import logged, rps, same_results, spooled

from arena.environments import make
from arena.play.series import play_series, resolve_policy
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from league import wire
from league.errors import InvalidRequestError, RefusedCheckpointError
from trainer.config.loading import resolve


def test_a_run_reports_results_publishes_and_prints_progress(worker_of, client, tmp_path):
    lines = []
    worker_of(client, rps("run.total_timesteps=512", "league.snapshot_every_steps=128"), lines=lines).run()
    assert same_results(spooled(tmp_path), logged(client))
    assert {match.learner_step for match in logged(client)} == set(range(0, 512, 64))
    snapshots = client.players("rps", kind="snapshot").items
    assert [player.step for player in snapshots] == [128, 256, 384, 512]
    learner = client.learners("rps").items[0]
    assert learner.name == "main"
    assert learner.step == 512
    assert {"charts/SPS", "losses/approx_kl", "losses/normalized_entropy", "win_rate/random"} <= learner.metrics.keys()
    assert lines[0].startswith("opening 8 x rps")
    assert lines[1].startswith("first rollout")
    assert lines[2].startswith("update 1 · steps 64")
    assert any(line.startswith("published snapshot") for line in lines)
    assert lines[-1].startswith("saved at step 512")


def test_a_run_folder_has_provenance_and_metrics(worker_of, client, tmp_path):
    worker_of(client, rps("run.total_timesteps=128")).run()
    origin = json.loads((tmp_path / "run" / "run.json").read_text())
    assert origin["environment"] == "rps"
    assert {"signature", "learner", "seed"} <= origin.keys()
    (session,) = origin["sessions"]
    assert session["packages"].keys() >= {"torch", "echelon-league"}
    assert (session["from_step"], session["to_step"]) == (0, 128)
    assert session["ended_at"] > session["started_at"]
    assert resolve(None, tmp_path / "run" / "config.toml", []) == rps("run.total_timesteps=128")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [64, 128]
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_the_league_stores_the_run_and_its_snapshots_name_it(worker_of, client):
    worker_of(client, rps("run.total_timesteps=128", "run.seed=7", "league.snapshot_every_steps=64")).run()
    (run,) = client.runs().items
    assert (run.seed, run.step, run.settings["run"]["total_timesteps"]) == (7, 0, 128)
    assert run.origin["packages"].keys() >= {"torch", "echelon-league"}
    assert run.snapshots > 0
    worker_of(client, rps("run.total_timesteps=256", "run.seed=7", "league.snapshot_every_steps=64")).run()
    assert [each.step for each in client.runs().items] == [128, 0]


def test_a_run_folder_plays_matches_with_the_weights_that_it_saved(worker_of, client, tmp_path):
    with refused("unknown-policy", "policy.safetensors"):
        resolve_policy("rps", str(tmp_path))
    worker = worker_of(client, rps("run.total_timesteps=128"))
    worker.run()
    policy = resolve_policy("rps", str(tmp_path / "run"))
    weights = worker.learner.network.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in policy.network.state_dict().items())
    assert len(play_series("rps", policy, resolve_policy("rps", "random"), matches=2, seed=0).matches) == 2
    with refused("invalid-checkpoint", "rps"):
        resolve_policy("recall", str(tmp_path / "run"))


def test_results_of_short_updates_go_out_together_and_in_time(worker_of, client, tmp_path, outside):
    """Six updates: the first two are within a second, a second passes before each of the others."""
    worker = worker_of(client, rps("run.total_timesteps=384", "environment.self_play=0"))
    learn, report, calls = worker.learner.learn, client.report, []

    def slower(*arguments):
        outside.time_s += 0.0 if worker.learner.updates < 2 else 1.0
        return learn(*arguments)

    def counted(batch):
        calls.append((worker.learner.updates, len(batch.results)))
        return report(batch)

    worker.learner.learn, client.report = slower, counted
    worker.run()
    assert [update for update, _ in calls] == [1, 3, 4, 5, 6]
    assert calls[1][1] == 2 * calls[0][1]
    assert same_results(spooled(tmp_path), logged(client))


@pytest.mark.parametrize("command", ["drain", "stop"])
def test_a_run_stops_at_the_leagues_command(worker_of, client, tmp_path, command):
    lines = []
    worker = worker_of(client, rps(), lines=lines)
    client.command_worker(client.workers().items[0].id, command)
    worker.run()
    assert worker.learner.updates == 1
    assert_names("\n".join(lines), command)
    assert same_results(spooled(tmp_path), logged(client))


def test_a_quarantine_and_its_end_are_printed_once(worker_of, client):
    lines = []
    worker = worker_of(client, rps("run.total_timesteps=640", "league.heartbeat_s=0.001"), lines=lines)
    own = client.workers().items[0].id
    client.quarantine_worker(own, datetime.now(UTC), "broken build")
    learn = worker.learner.learn

    def reinstated_in_the_fifth_update(*arguments):
        if worker.learner.updates == 5:
            client.reinstate_worker(own)
        return learn(*arguments)

    worker.learner.learn = reinstated_in_the_fifth_update
    worker.run()
    said = [line for line in lines if "quarantined" in line]
    assert len(said) == 1
    assert "(broken build)" in said[0]
    assert f"`league worker reinstate {own}`" in said[0]
    assert len([line for line in lines if "quarantine" in line and "ended" in line]) == 1


def test_a_snapshot_that_the_league_deleted_before_it_was_published_is_sent_again_at_once(
    worker_of, client, tmp_path, caplog
):
    worker = worker_of(client, rps("run.total_timesteps=128", "league.snapshot_every_steps=128"))
    publish, calls = client.publish, []

    def deleted_first(player):
        calls.append(player.checkpoint)
        if len(calls) == 1:
            next((tmp_path / "league" / "checkpoints").rglob(player.checkpoint)).unlink()
        return publish(player)

    client.publish = deleted_first
    worker.run()
    (snapshot,) = client.players("rps", kind="snapshot").items
    assert calls == [snapshot.checkpoint] * 2
    assert client.download(snapshot.checkpoint)
    assert "trying again" not in caplog.text


def test_worker_names_contain_the_game(worker_of, client):
    worker_of(client, rps(), run="first")
    worker_of(client, resolve("recall", None, ["environment.num_envs=8"]), run="second")
    assert {worker.name for worker in client.workers().items} == {"trainer-main-rps", "trainer-main-recall"}


def test_an_incompatible_opponent_is_released_and_training_continues(worker_of, client, caplog):
    spec = make("rps", num_envs=1).spec
    stranger = client.register_learner(
        wire.LearnerCreate(name="stranger", role="main", environment="rps", signature=spec.signature)
    )
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    network.architecture = dataclasses.replace(network.architecture, encoder_sizes=(5,))
    data = encode(network, spec)
    sha256 = hashlib.sha256(data).hexdigest()
    client.upload(data, sha256)
    client.publish(wire.PlayerCreate(learner_id=stranger.id, checkpoint=sha256, step=1))
    worker = worker_of(client, rps("run.total_timesteps=512", "environment.num_envs=16"))
    worker.run()
    assert worker.learner.steps == 512
    assert "cannot be played" in caplog.text


def test_rejected_results_are_set_aside_and_training_continues(worker_of, client, tmp_path, caplog):
    worker = worker_of(client, rps("run.total_timesteps=512", "league.snapshot_every_steps=128"))
    report, publish = client.report, client.publish

    def picky(batch):
        if any(each.learner_step == 128 for each in batch.results):
            raise InvalidRequestError("results", "learner_step 128 is not liked", "report another")
        return report(batch)

    def choosy(player):
        if player.step == 256:
            raise RefusedCheckpointError("checkpoint", "it is not liked", "publish another")
        return publish(player)

    client.report, client.publish = picky, choosy
    worker.run()
    aside = [json.loads(line) for line in (tmp_path / "run" / "spool" / "refused.jsonl").read_text().splitlines()]
    taken = [each for each in spooled(tmp_path) if each["learner_step"] != 128]
    assert {each["learner_step"] for each in aside} == {128}
    assert same_results(taken, logged(client))
    assert len(taken) + len(aside) == len(spooled(tmp_path))
    assert [player.step for player in client.players("rps", kind="snapshot").items] == [128, 384, 512]
    assert [file.name for file in (tmp_path / "run" / "snapshots").iterdir()] == [
        "000000000000256-000000000000128.refused"
    ]
    assert_names(caplog.text, "rejected", 256)


def test_a_learner_of_another_role_is_refused(worker_of, client):
    worker_of(client, rps())
    with refused("learner-mismatch", "role"):
        worker_of(client, rps("league.role=main_exploiter"), run="other")


def test_a_discount_other_than_the_shapings_is_refused(worker_of, client):
    with refused("invalid-setting", "ppo.gamma", 0.9, "ppo.gamma=0.995"):
        worker_of(client, resolve("mech-duel", None, ["ppo.gamma=0.9", "environment.num_envs=2"]))
