"""A run whose policy cannot move, for its learning rate is 0: who is told, and that nobody is told twice."""

import json

import httpx2
import pytest
from pydantic import ValidationError, create_model
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from league.client import LeagueClient
from league.errors import InvalidRequestError
from league.wire.base import Request
from league.wire.workers import LearnerProgress
from trainer.config.loading import resolve

FROZEN = [
    "optimizer.learning_rate=0.0",
    "optimizer.learning_rate_final=0.0",
    "ppo.update_epochs=2",
    "ppo.num_minibatches=2",
]
SMALL = ["environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8"]


def frozen(updates):
    return resolve("rps", None, [*SMALL, *FROZEN, f"run.total_timesteps={64 * updates}"])


def lines_of(tmp_path):
    return [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def client(serve):
    return LeagueClient(http=serve())


def test_a_verdict_goes_to_the_terminal_the_metrics_tensorboard_and_the_league(worker_of, client, tmp_path):
    told = []
    worker_of(client, frozen(updates=12), lines=told).run()
    (verdict,) = [line for line in told if line.startswith("health: ")]
    assert verdict.startswith("health: alarm frozen_policy since update 1: the policy does not move (KL 0,")
    assert [line["health/frozen_policy"] for line in lines_of(tmp_path)] == [0.0] * 9 + [3.0] * 3
    learner = client.learners("rps").items[0]
    assert learner.metrics["health/worst"] == 3.0
    (in_words,) = learner.verdicts
    assert (in_words.name, in_words.severity, in_words.since_update) == ("frozen_policy", "alarm", 1)
    assert in_words.meaning in verdict
    assert in_words.advice in verdict
    assert in_words.evidence in verdict
    assert client.metrics(learner.id, names=["health/worst"]).metrics["health/worst"][-1] == 3.0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    (written,) = events.Tensors("health/frozen_policy/text_summary")
    assert written.tensor_proto.string_val[0].decode() == verdict


def test_a_resumed_run_goes_on_with_its_verdicts_and_does_not_tell_them_again(worker_of, client, tmp_path):
    worker_of(client, frozen(updates=12)).run()
    told = []
    worker_of(client, frozen(updates=14), lines=told).run()
    assert any(line.startswith("resumed at step 768") for line in told)
    assert not any(line.startswith("health: ") for line in told)
    assert [line["health/frozen_policy"] for line in lines_of(tmp_path)[-2:]] == [3.0, 3.0]


def make_older(transport, monkeypatch):
    """Let a league refuse verdicts as one does that has not heard of them; return who has been refused."""
    known = {name: (each.annotation, each) for name, each in LearnerProgress.model_fields.items() if name != "verdicts"}
    progress = create_model("LearnerProgress", __base__=Request, **known)
    heartbeat = create_model("Heartbeat", __base__=Request, learners=(list[progress], []))
    request, refused = transport.request, []

    def older(method, url, *, content=None, **options):
        if str(url).endswith("/heartbeat"):
            try:
                heartbeat.model_validate_json(content)
            except ValidationError as error:
                refused.append(content)
                problem = InvalidRequestError.of_field(error.errors()[0], "see the reference").problem()
                return httpx2.Response(422, json=problem)
        return request(method, url, content=content, **options)

    monkeypatch.setattr(transport, "request", older)
    return refused


def test_an_older_league_hears_how_far_training_is_without_its_verdicts(worker_of, transport, monkeypatch, caplog):
    client = LeagueClient(http=transport)
    refused = make_older(transport, monkeypatch)
    worker_of(client, frozen(updates=12)).run()
    learner = client.learners("rps").items[0]
    assert (learner.step, learner.verdicts) == (64 * 12, None)
    assert learner.metrics["health/worst"] == 3.0
    assert len(refused) > 1
    assert caplog.text.count("too old to receive health verdicts") == 1


def test_a_league_hears_verdicts_once_it_is_brought_up_to_date(worker_of, transport, monkeypatch):
    client = LeagueClient(http=transport)
    with monkeypatch.context() as before:
        make_older(transport, before)
        worker = worker_of(client, frozen(updates=12))
        worker.run()
    worker.session._membership.heartbeat(64 * 12, {}, [])
    assert client.learners("rps").items[0].verdicts == []


def test_what_a_league_refuses_for_what_is_in_it_is_not_told_without_verdicts(worker_of, client, caplog):
    worker = worker_of(client, frozen(updates=12))
    worker.run()
    told = client.learners("rps").items[0].verdicts
    assert worker.session._membership.heartbeat(64 * 13, {}, told * 65) is None
    assert client.learners("rps").items[0].step == 64 * 12
    assert "at most 64 items" in caplog.text
    assert "too old to receive health verdicts" not in caplog.text
