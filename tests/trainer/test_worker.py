import dataclasses
import errno
import functools
import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
import torch
from partner_threads import PartnerThread

from arena.environments import declare, make
from arena.environments.mech.curriculum import Lesson
from arena.environments.recall import Recall
from arena.errors import CheckpointError, UnknownPolicyError
from arena.match import play_series, resolve_policy
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from league import wire
from league.client import LeagueClient
from league.errors import InvalidRequestError, LeagueUnreachable, LearnerMismatchError, RefusedCheckpointError
from trainer import batches, state
from trainer import learner as learners
from trainer.config import resolve
from trainer.errors import ConfigError, RunInUseError, StateError
from trainer.folder import RunFolder
from trainer.partners import Partners

RPS = ["environment.num_envs=8", "rollout.steps=8", "rollout.chunk=8", "league.lease_budget=4"]


def rps(*settings):
    return resolve("rps", None, [*RPS, *settings])


@pytest.fixture
def transport(serve):
    return serve()


@pytest.fixture
def client(transport):
    return LeagueClient(http=transport)


def spooled(tmp_path, run="run"):
    files = sorted((tmp_path / run / "spool").glob("results-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def logged(client, environment="rps"):
    """All matches of the league's log, newest first."""
    player = client.learners(environment).items[0].player_id
    matches, cursor = [], None
    while True:
        page = client.matches(player, limit=1000, cursor=cursor)
        matches += page.items
        cursor = page.next_cursor
        if cursor is None:
            return matches


def same_results(spool, matches):
    """Whether every spooled result is one match of the log, and the other way round."""
    written = sorted((each["lease_id"], each["sequence"], each["score"], each["seed"]) for each in spool)
    return written == sorted((each.lease_id, each.sequence, each.score, each.seed) for each in matches)


def refuse_unreachable(*arguments):
    raise LeagueUnreachable("here", "no answer", "start it")


def progress_of(client, step):
    learner = client.learners("rps").items[0].id
    return wire.Heartbeat(learners=[wire.LearnerProgress(learner_id=learner, step=step, metrics={})])


def test_a_run_reports_publishes_and_tells_how_it_goes(worker_of, client, tmp_path):
    lines = []
    worker_of(client, rps("run.total_steps=512", "league.snapshot_every_steps=128"), lines=lines).run()
    assert same_results(spooled(tmp_path), logged(client))
    assert {match.learner_step for match in logged(client)} == set(range(0, 512, 64))
    snapshots = client.players("rps", kind="snapshot").items
    assert [player.step for player in snapshots] == [128, 256, 384, 512]
    learner = client.learners("rps").items[0]
    assert learner.name == "main"
    assert learner.step == 512
    assert {"charts/SPS", "losses/approx_kl", "losses/entropy", "win_rate/random"} <= learner.metrics.keys()
    assert lines[0].startswith("opening 8 x rps")
    assert lines[1].startswith("first rollout")
    assert lines[2].startswith("update 1 · steps 64")
    assert any(line.startswith("published snapshot") for line in lines)
    assert lines[-1].startswith("saved at step 512")


def test_a_run_folder_says_how_it_was_made_and_keeps_its_metrics(worker_of, client, tmp_path):
    worker_of(client, rps("run.total_steps=128")).run()
    origin = json.loads((tmp_path / "run" / "run.json").read_text())
    assert origin["environment"] == "rps"
    assert {"signature", "learner", "seed"} <= origin.keys()
    (session,) = origin["sessions"]
    assert session["packages"].keys() >= {"torch", "echelon-league"}
    assert (session["from_step"], session["to_step"]) == (0, 128)
    assert session["ended_at"] > session["started_at"]
    assert resolve(None, tmp_path / "run" / "config.toml", []) == rps("run.total_steps=128")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [64, 128]
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_a_run_folder_plays_matches_with_the_weights_that_it_saved(worker_of, client, tmp_path):
    with pytest.raises(UnknownPolicyError, match=r"is a folder without policy\.safetensors: give the folder of a"):
        resolve_policy("rps", str(tmp_path))
    worker = worker_of(client, rps("run.total_steps=128"))
    worker.run()
    policy = resolve_policy("rps", str(tmp_path / "run"))
    weights = worker.learner.network.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in policy.network.state_dict().items())
    assert len(play_series("rps", policy, resolve_policy("rps", "random"), matches=2, seed=0).matches) == 2
    with pytest.raises(CheckpointError, match="was trained for rps"):
        resolve_policy("recall", str(tmp_path / "run"))


def test_training_goes_on_while_the_league_is_away_and_loses_nothing(worker_of, client, transport, tmp_path, outside):
    worker = worker_of(client, rps("run.total_steps=1280", "league.snapshot_every_steps=320"))
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
    assert worker.spool.undelivered() == 0
    assert 0 < len(results) < worker.scores.episodes == 1280  # without a lease nothing is reported
    assert [player.step for player in client.players("rps", kind="snapshot").items] == [320, 640, 960, 1280]


def test_answers_lost_after_the_work_was_done_count_no_result_twice(worker_of, client, transport, tmp_path, outside):
    worker = worker_of(client, rps("run.total_steps=640"))
    learn = worker.learner.learn

    def watched(*arguments):
        transport.loses_answers = worker.learner.updates in (2, 3, 6)
        outside.time_s += 1.0
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    assert same_results(spooled(tmp_path), logged(client))
    assert worker.spool.outcomes["duplicate"] > 0


def test_a_restart_goes_on_where_the_run_stopped(worker_of, client, tmp_path):
    worker_of(client, rps("run.total_steps=256")).run()
    lines = []
    again = worker_of(client, rps("run.total_steps=512"), lines=lines)
    assert "resumed at step 256" in lines
    again.run()
    assert (again.learner.steps, again.learner.updates) == (512, 8)
    assert same_results(spooled(tmp_path), logged(client))
    assert len(client.learners("rps").items) == 1


def test_a_second_run_of_a_learner_that_begins_at_0_is_said_with_the_way_out(worker_of, client):
    first, second, resumed, another = [], [], [], []
    worker_of(client, rps("run.total_steps=256"), lines=first).run()
    worker_of(client, rps(), lines=second, run="other")
    worker_of(client, rps(), lines=resumed)
    worker_of(client, rps("league.learner=another"), lines=another, run="another")
    told = "learner 'main' has come to step 256 in this league, but "
    assert len([line for line in second if line.startswith(told) and "--resume" in line]) == 1
    assert not [line for line in first + resumed + another if "has come to step" in line]


def test_a_run_that_is_resumed_at_its_end_says_how_to_go_on(worker_of, client):
    worker_of(client, rps("run.total_steps=128")).run()
    lines = []
    again = worker_of(client, rps("run.total_steps=128"), lines=lines)
    again.run()
    assert again.learner.updates == 2
    told = "run.total_steps is 128, which this run has reached: give more, such as --total-steps 256"
    assert len([line for line in lines if line.startswith(told)]) == 1


def test_a_crash_between_saves_repeats_no_sequence(worker_of, client, tmp_path):
    """The state on the disk is older than the spool, as after kill -9."""
    config = rps("run.total_steps=256")
    worker = worker_of(client, config)
    worker.run()
    old = (tmp_path / "run" / "state.safetensors").read_bytes()
    worker_of(client, rps("run.total_steps=512")).run()
    (tmp_path / "run" / "state.safetensors").write_bytes(old)
    again = worker_of(client, rps("run.total_steps=640"))
    assert again.learner.steps == 256
    again.run()
    results = spooled(tmp_path)
    assert same_results(results, logged(client))
    assert len({(each["lease_id"], each["sequence"]) for each in results}) == len(results)
    assert again.spool.outcomes.keys() == {"accepted"}


def test_a_snapshot_that_a_crash_undid_is_not_published_beside_that_of_the_run_that_goes_on(
    worker_of, client, tmp_path, caplog
):
    """The state on the disk is older than the snapshots, as after kill -9 before it was saved."""
    settings = "environment.self_play=0", "league.snapshot_every_steps=128"
    worker_of(client, rps("run.total_steps=128", *settings)).run()
    old = (tmp_path / "run" / "state.safetensors").read_bytes()
    client.upload = refuse_unreachable
    worker_of(client, rps("run.total_steps=384", *settings)).run()
    del client.upload
    assert len(list((tmp_path / "run" / "snapshots").iterdir())) == 2
    (tmp_path / "run" / "state.safetensors").write_bytes(old)
    worker_of(client, rps("run.total_steps=384", *settings)).run()
    assert [each.name for each in client.players("rps", kind="snapshot").items] == ["main@128", "main@256", "main@384"]
    assert "the snapshot of step 256 is dropped: the run goes on at 128" in caplog.text


def test_a_snapshot_is_published_once_a_restart_goes_on_from_it(worker_of, client, tmp_path):
    worker = worker_of(client, rps("run.total_steps=384", "league.snapshot_every_steps=128"))
    publish, saved = client.publish, {}

    def noted(player):
        saved[player.step] = state.load(tmp_path / "run" / "state.safetensors").counters["steps"]
        return publish(player)

    client.publish = noted
    worker.run()
    assert saved == {128: 128, 256: 256, 384: 384}


def test_a_run_killed_before_its_first_update_goes_on_as_the_same_run(worker_of, client, tmp_path):
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
    worker_of(client, rps("run.total_steps=64"), lines=lines).run()
    assert "resumed at step 0" in lines
    assert not [line for line in lines if "two runs under one name" in line]


def test_a_run_that_failed_where_matches_are_dealt_goes_on_with_each_match_once(worker_of, client, tmp_path):
    first = worker_of(client, rps("run.total_steps=512", "environment.self_play=0"))
    draw, dealt = first.session.book.draw, []

    def failing(row):
        dealt.append(row)
        if len(dealt) == 100:
            raise OSError(errno.EIO, "Input/output error")
        return draw(row)

    first.session.book.draw = failing
    with pytest.raises(OSError, match="Input/output error"):
        first.run()
    told = len(spooled(tmp_path))
    again = worker_of(client, rps("run.total_steps=512", "environment.self_play=0"))
    again.run()
    results = spooled(tmp_path)
    assert len(results) > told == 104, "matches are told before their successors are dealt"
    assert same_results(results, logged(client))
    assert again.spool.outcomes.keys() == {"accepted"}
    played = {}
    for each in results:
        played.setdefault(each["lease_id"], []).append(each["sequence"])
    assert all(sorted(sequences) == list(range(len(sequences))) for sequences in played.values()), "none is left out"


def test_a_run_that_was_attached_before_starts_without_the_league(worker_of, client, transport):
    worker_of(client, rps("run.total_steps=128")).run()
    transport.down = True
    again = worker_of(client, rps("run.total_steps=256"))
    again.run()
    assert again.learner.steps == 256


def test_a_new_run_waits_for_a_league_and_then_gives_up_in_one_line(worker_of, client, transport, outside):
    transport.down = True
    with pytest.raises(LeagueUnreachable, match=r"none answered within 60 s.*league serve"):
        worker_of(client, rps())
    assert outside.time_s >= 60.0


def test_a_signal_ends_the_wait_for_a_league_and_is_what_is_said(worker_of, client, transport, outside):
    transport.down = outside.asked = True
    with pytest.raises(LeagueUnreachable, match="a signal came before one answered"):
        worker_of(client, rps())


@pytest.mark.parametrize("command", ["drain", "stop"])
def test_a_run_leaves_when_the_league_says_so(worker_of, client, tmp_path, command):
    lines = []
    worker = worker_of(client, rps(), lines=lines)
    client.command_worker(client.workers().items[0].id, command)
    worker.run()
    assert worker.learner.updates == 1
    assert f"the league says {command}" in lines
    assert same_results(spooled(tmp_path), logged(client))


def test_a_quarantine_is_said_once_and_so_is_its_end(worker_of, client):
    lines = []
    worker = worker_of(client, rps("run.total_steps=640", "league.heartbeat_s=0.001"), lines=lines)
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
    assert f"`league workers reinstate {own}`" in said[0]
    assert lines.count("the league trusts this worker again") == 1


def test_a_snapshot_that_the_league_deleted_before_it_was_published_is_sent_again_at_once(
    worker_of, client, tmp_path, caplog
):
    worker = worker_of(client, rps("run.total_steps=128", "league.snapshot_every_steps=128"))
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


def test_workers_of_one_learners_name_in_two_games_are_told_apart_by_it(worker_of, client):
    worker_of(client, rps(), run="first")
    worker_of(client, resolve("recall", None, ["environment.num_envs=8"]), run="second")
    assert {worker.name for worker in client.workers().items} == {"trainer-main-rps", "trainer-main-recall"}


def test_a_signal_ends_the_run_at_the_next_decision_with_everything_saved(worker_of, client, tmp_path, outside):
    worker = worker_of(client, rps("environment.self_play=0"))
    take_in = worker.scores.add

    def stop_in_the_third_rollout(episode):
        outside.asked = worker.scores.episodes >= 150
        take_in(episode)

    worker.scores.add = stop_in_the_third_rollout
    worker.run()
    assert worker.learner.updates == 2
    assert (tmp_path / "run" / "state.safetensors").exists()
    assert same_results(spooled(tmp_path), logged(client))
    assert len(spooled(tmp_path)) == 152


def test_when_it_is_high_time_everything_is_saved_and_the_league_is_left_alone(worker_of, client, tmp_path, outside):
    worker = worker_of(client, rps())
    take_in = worker.scores.add

    def stop_in_the_third_rollout(episode):
        outside.asked = outside.late = worker.scores.episodes >= 150
        take_in(episode)

    worker.scores.add = stop_in_the_third_rollout
    worker.run()
    assert (tmp_path / "run" / "state.safetensors").exists()
    assert len(logged(client)) < len(spooled(tmp_path))
    assert client.learners("rps").items[0].step == 64  # that of the beat after the first update


def test_an_opponent_of_another_making_is_given_back_and_training_goes_on(worker_of, client, caplog):
    spec = make("rps", num_envs=1).spec
    stranger = client.learner(
        wire.LearnerCreate(name="stranger", role="main", environment="rps", signature=spec.signature)
    )
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    network.architecture = dataclasses.replace(network.architecture, encoder_sizes=(5,))
    data = encode(network, spec)
    sha256 = hashlib.sha256(data).hexdigest()
    client.upload(data, sha256)
    client.publish(wire.PlayerCreate(learner_id=stranger.id, checkpoint=sha256, step=1))
    worker = worker_of(client, rps("run.total_steps=512", "environment.num_envs=16"))
    worker.run()
    assert worker.learner.steps == 512
    assert "cannot be played" in caplog.text
    assert "does not fit its architecture" in caplog.text


def test_what_the_league_will_not_have_is_set_aside_and_training_goes_on(worker_of, client, tmp_path, caplog):
    worker = worker_of(client, rps("run.total_steps=512", "league.snapshot_every_steps=128"))
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
    assert [file.name for file in (tmp_path / "run" / "snapshots").iterdir()] == ["000000000000256.refused"]
    assert "the snapshot of step 256 is set aside" in caplog.text


def test_a_learner_of_another_role_is_refused(worker_of, client):
    worker_of(client, rps())
    with pytest.raises(LearnerMismatchError, match="role"):
        worker_of(client, rps("league.role=main_exploiter"), run="other")


def test_a_discount_that_is_not_the_shapings_is_refused(worker_of, client):
    with pytest.raises(ConfigError, match=r"ppo\.gamma is 0\.9, .* set ppo\.gamma=0\.995"):
        worker_of(client, resolve("mech-duel", None, ["ppo.gamma=0.9", "environment.num_envs=2"]))


def test_a_run_folder_of_another_environment_is_refused(worker_of, client):
    worker_of(client, rps("run.total_steps=64")).run()
    with pytest.raises(StateError, match="choose another --run"):
        worker_of(client, resolve("recall", None, []))


def test_a_run_folder_of_another_learner_is_refused(worker_of, client):
    worker_of(client, rps("run.total_steps=64", "league.learner=one")).run()
    with pytest.raises(StateError, match="is of learner 'one', not 'other': choose another --run"):
        worker_of(client, rps("league.learner=other"))


def test_a_run_folder_is_one_processs_at_a_time(tmp_path):
    folder, same = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run")
    with folder.taken(), pytest.raises(RunInUseError, match="in use by another trainer"), same.taken():
        pass
    with same.taken():
        assert same.path.is_dir()


def test_a_run_folder_in_which_anything_was_written_stays_after_an_error(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "run")

    def refuse(*, written):
        with folder.taken():
            if written:
                folder.state.write_bytes(b"state")
            raise ConfigError("refused")

    for written in (False, True, False):
        with pytest.raises(ConfigError):
            refuse(written=written)
        assert folder.state.exists() == folder.path.exists() == (tmp_path / "runs").exists()
    assert folder.state.exists()


def test_a_league_that_lost_its_memory_is_registered_with_again(worker_of, client, transport, tmp_path, caplog):
    worker = worker_of(client, rps("run.total_steps=640"))
    membership = worker.session._membership
    known = membership.attachment
    learn = worker.learner.learn

    def watched(*arguments):
        if worker.learner.updates == 3:
            membership.attachment = type(known)("nobody", known.learner_id, known.player_id)
        return learn(*arguments)

    worker.learner.learn = watched
    worker.run()
    assert membership.attachment == known
    assert "registering again" in caplog.text
    assert same_results(spooled(tmp_path), logged(client))


class CountedLeague(LeagueClient):
    """Grants leases by a counter that outlives the trainer: two equal trainers get equal leases."""

    def __init__(self):
        super().__init__(http=None)
        self.granted = 0
        self.files = {}

    def register_worker(self, worker):
        return wire.Worker(
            **worker.model_dump(), id="w", command="continue", seen_at=NOW, heartbeat_s=1e9, next_poll_s=1.0
        )

    def learner(self, learner):
        facts = {"id": 1, "player_id": 1, "step": None, "metrics": {}, "metrics_at": None, "latest_snapshot": None}
        return wire.Learner(**learner.model_dump(), **facts, created_at=NOW)

    def lease(self, request):
        return wire.LeaseAnswer(items=[self._grant(request.budget) for _ in range(request.count)], next_poll_s=1.0)

    def _grant(self, budget):
        number, self.granted = self.granted, self.granted + 1
        frozen = ["baseline:random", None, *self.files]
        checkpoint = frozen[number % len(frozen)]
        own = wire.Seat(player_id=1, checkpoint=None, name="main")
        other = wire.Seat(player_id=2 if checkpoint else 1, checkpoint=checkpoint, name=checkpoint or "main")
        away = number % 3 == 0
        return wire.Lease(
            lease_id=str(number),
            kind="training",
            home=other if away else own,
            away=own if away else other,
            learner_side="away" if away else "home",
            seed=number,
            budget=budget,
            expires_at=NOW + timedelta(days=100),
            propensity=1.0,
            branch="counted",
        )

    def report(self, batch):
        items = [
            wire.ResultAnswer(
                lease_id=each.lease_id, sequence=each.sequence, status="accepted", match_id=1, detail=None
            )
            for each in batch.results
        ]
        return wire.ResultBatchAnswer(items=items, next_poll_s=1.0)

    def upload(self, checkpoint, sha256):
        self.files[sha256] = checkpoint

    def download(self, sha256):
        return self.files[sha256]

    def publish(self, player):
        return wire.Player.model_construct(name=f"main@{player.step}")

    def heartbeat(self, worker_id, beat=None):
        return wire.HeartbeatAnswer(command="continue", next_poll_s=1.0)


NOW = datetime.now(UTC)


@pytest.fixture
def counted():
    leagues = [CountedLeague(), CountedLeague()]
    yield leagues
    for league in leagues:
        league.close()


EVERYTHING = ["environment.self_play=0.5", "ppo.auxiliary_weight=0.1", "ppo.precision=bfloat16", "ppo.renewed=true"]


SHARED = ["run.update_processes=2"]


@pytest.mark.parametrize(
    ("threads", "options"), [(1, []), (2, []), (2, EVERYTHING), (1, SHARED), (2, [*SHARED, *EVERYTHING])]
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(worker_of, counted, monkeypatch, threads, options):
    """`recall` lasts 8 decisions: after a rollout of 16 every match is at its start, as the saved state assumes."""
    monkeypatch.setattr(batches, "ROWS_OF_A_THREAD", 3)
    monkeypatch.setattr(learners, "Partners", functools.partial(Partners, launch=PartnerThread))

    def config(updates):
        sizes = ["environment.num_envs=6", "rollout.steps=16", "rollout.chunk=8", "ppo.minibatches=3"]
        pace = ["league.lease_budget=3", "league.snapshot_every_steps=150", "schedules.horizon_steps=400"]
        length = [f"run.threads={threads}", f"run.total_steps={96 * updates}"]
        return resolve("recall", None, [*sizes, *pace, *length, *options])

    whole = worker_of(counted[0], config(6), run="whole")
    whole.run()
    worker_of(counted[1], config(3), run="halves").run()
    halves = worker_of(counted[1], config(6), run="halves")
    halves.run()
    assert different_tensors(whole, halves) == []
    assert (halves.learner.steps, halves.learner.updates) == (576, 6)
    assert len(halves.session.collector.crews) == threads


def different_tensors(one, other):
    mine, theirs = one.learner.tensors(), other.learner.tensors()
    assert mine.keys() == theirs.keys()
    assert len(mine) > 40
    return [name for name, tensor in mine.items() if not torch.equal(tensor, theirs[name])]


class Pupil(Recall):
    """Pays more in matches that were opened under a later lesson."""

    def __init__(self, spec, **options):
        super().__init__(spec, **options)
        self.lesson = Lesson()
        self.shares = torch.ones(self.num_envs)

    def teach(self, lesson):
        self.lesson = lesson

    def reset(self, seeds=None):
        self.shares.fill_(self.lesson.team_share)
        return super().reset(seeds)

    def step(self, actions):
        shares = self.shares.clone()
        step = super().step(actions)
        self.shares = torch.where(step.terminated, self.lesson.team_share, shares)
        return dataclasses.replace(step, reward=step.reward + shares.unsqueeze(1))


def test_a_run_that_is_resumed_where_the_lesson_changes_equals_an_uninterrupted_one(worker_of, counted, monkeypatch):
    """Matches that are on their way when a lesson changes go on under the one that they were opened under."""
    monkeypatch.setattr(batches, "make", lambda name, **options: Pupil(declare(name), **options))

    def config(updates):
        sizes = ["environment.num_envs=6", "rollout.steps=16", "rollout.chunk=8", "ppo.minibatches=3"]
        lessons = ["curriculum.matches=60", "curriculum.team_share=0.1"]
        return resolve("recall", None, [*sizes, *lessons, f"run.total_steps={96 * updates}"])

    whole = worker_of(counted[0], config(8), run="whole")
    whole.run()
    for updates in (3, 5, 6, 8):
        parts = worker_of(counted[1], config(updates), run="parts")
        parts.run()
    assert different_tensors(whole, parts) == []
    assert whole.session._batches[0].lesson == parts.session._batches[0].lesson == Lesson()
    assert parts.scores.episodes == whole.scores.episodes == 96
