"""A resumed run equals an uninterrupted one, bit for bit."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
import torch

from arena.environments import declare
from arena.environments.classic.memory_probe import Recall
from arena.environments.mech.config.curriculum import CurriculumStage
from league import wire
from league.client import LeagueClient
from trainer.config.loading import resolve
from trainer.rollout import make_envs as batches


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

    def register_learner(self, learner):
        facts = {"id": 1, "player_id": 1, "step": None, "metrics": {}, "metrics_at": None, "latest_snapshot": None}
        return wire.Learner(**learner.model_dump(exclude={"rules"}), **facts, created_at=NOW)

    def start_run(self, run):
        sent = run.model_dump()
        facts = {"id": 1, "learner": "main", "player_id": 1, "environment": "recall", "step": 0, "snapshots": 0}
        return wire.Run(
            **{name: sent[name] for name in sent.keys() & wire.Run.model_fields.keys()} | facts | {"started_at": NOW}
        )

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

    def regressions(self, environment):
        return wire.Page[wire.Regression](items=[], next_cursor=None)


NOW = datetime.now(UTC)


@pytest.fixture
def counted():
    leagues = [CountedLeague(), CountedLeague()]
    yield leagues
    for league in leagues:
        league.close()


EVERYTHING = [
    "environment.self_play=0.5",
    'ppo.extra_losses={"trainer.ppo.extra_losses:NextObservationLoss" = 0.1}',
    "ppo.precision=bfloat16",
    "league.ema_horizon_steps=300",
    "ppo.magnet_coef=0.2",
]


@pytest.mark.holds("G12", "H5")
@pytest.mark.parametrize(("threads", "options"), [(1, []), (2, []), (2, EVERYTHING), (1, ["algorithm.name=vtrace"])])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(worker_of, counted, monkeypatch, threads, options):
    """`recall` lasts 8 decisions: after a rollout of 16 every match is at its start, as the saved state assumes."""
    monkeypatch.setattr(batches, "MIN_ROWS_PER_THREAD", 3)

    def config(updates):
        sizes = ["environment.num_envs=6", "rollout.num_steps=16", "rollout.bptt_horizon=8", "ppo.num_minibatches=3"]
        pace = ["league.lease_budget=3", "league.snapshot_every_steps=150", "schedules.horizon_steps=400"]
        length = [f"run.threads={threads}", f"run.total_timesteps={96 * updates}"]
        return resolve("recall", None, [*sizes, *pace, *length, *options])

    whole = worker_of(counted[0], config(6), run="whole")
    whole.run()
    worker_of(counted[1], config(3), run="halves").run()
    halves = worker_of(counted[1], config(6), run="halves")
    halves.run()
    assert different_tensors(whole, halves) == []
    assert (halves.learner.steps, halves.learner.updates) == (576, 6)
    assert len(halves.session.collector.workers) == threads


def different_tensors(one, other):
    mine, theirs = one.learner.tensors(), other.learner.tensors()
    assert mine.keys() == theirs.keys()
    assert len(mine) > 40
    return [name for name, tensor in mine.items() if not torch.equal(tensor, theirs[name])]


class Pupil(Recall):
    """Pays more in matches that were opened under a later stage."""

    def __init__(self, spec, **options):
        super().__init__(spec, **options)
        self.stage = CurriculumStage()
        self.shares = torch.ones(self.num_envs)

    def set_stage(self, stage):
        self.stage = stage

    def reset(self, seeds=None):
        self.shares.fill_(self.stage.team_share)
        return super().reset(seeds)

    def step(self, actions):
        shares = self.shares.clone()
        step = super().step(actions)
        self.shares = torch.where(step.terminated, self.stage.team_share, shares)
        return dataclasses.replace(step, reward=step.reward + shares.unsqueeze(1))


def test_a_run_that_is_resumed_where_the_lesson_changes_equals_an_uninterrupted_one(worker_of, counted, monkeypatch):
    """Matches that are on their way when a stage changes go on under the one that they were opened under."""

    def make(name, **options):
        return Pupil(declare(name), **options)

    monkeypatch.setattr(batches, "make", make)

    def config(updates):
        sizes = ["environment.num_envs=6", "rollout.num_steps=16", "rollout.bptt_horizon=8", "ppo.num_minibatches=3"]
        stages = ["curriculum.matches=60", "curriculum.team_share=0.1"]
        return resolve("recall", None, [*sizes, *stages, f"run.total_timesteps={96 * updates}"])

    whole = worker_of(counted[0], config(8), run="whole")
    whole.run()
    for updates in (3, 5, 6, 8):
        parts = worker_of(counted[1], config(updates), run="parts")
        parts.run()
    assert different_tensors(whole, parts) == []
    assert whole.session._batches[0].stage == parts.session._batches[0].stage == CurriculumStage()
    assert parts.statistics.episodes == whole.statistics.episodes == 96
