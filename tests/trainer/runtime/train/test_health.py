"""A run whose policy cannot move, for its learning rate is 0: who is told, and that nobody is told twice."""

import json

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from league.client import LeagueClient
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


def test_an_alert_goes_to_console_metrics_tensorboard_and_league(worker_of, client, tmp_path):
    told = []
    worker_of(client, frozen(updates=12), lines=told).run()
    (verdict,) = [line for line in told if line.startswith("health: ")]
    assert verdict.startswith("health: alarm frozen_policy since update 1: the policy does not change (KL 0,")
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


def test_a_resumed_run_does_not_repeat_its_alerts(worker_of, client, tmp_path):
    worker_of(client, frozen(updates=12)).run()
    told = []
    worker_of(client, frozen(updates=14), lines=told).run()
    assert any(line.startswith("resumed at step 768") for line in told)
    assert not any(line.startswith("health: ") for line in told)
    assert [line["health/frozen_policy"] for line in lines_of(tmp_path)[-2:]] == [3.0, 3.0]
