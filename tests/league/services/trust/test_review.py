"""The list of workers: what their last results say of them."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.services.trust import review


def evaluate(scene: Scene, worker: wire.Worker, score: Callable[[], float], count: int = 100) -> None:
    """Let a worker report rating matches."""
    request = wire.RatingLeases(
        kind="rating", worker_id=worker.id, environment=scene.environment, count=2, budget=count // 2
    )
    leases = scene.client.lease(request).items
    finished = [result(lease, sequence, score()) for lease in leases for sequence in range(lease.budget)]
    assert {answer.status for answer in scene.report(*finished, worker=worker)} == {"accepted"}


def listed(scene: Scene, worker: wire.Worker) -> wire.ListedWorker:
    return next(each for each in scene.client.workers().items if each.id == worker.id)


@pytest.fixture
def fair(scene: Scene) -> Callable[[], float]:
    """Matches between two equal players."""
    scene.publish(1)
    rng = random.Random(1)
    return lambda: float(rng.random() < 0.5)


def test_worker_with_outlying_scores_is_the_only_suspect(scene: Scene, fair: Callable[[], float]) -> None:
    good = [scene.evaluator, scene.worker("evaluator-2", "evaluator")]
    bad = scene.worker("evaluator-3", "evaluator")
    for worker in good:
        evaluate(scene, worker, fair)
    evaluate(scene, bad, lambda: 1.0)
    assert [listed(scene, worker).suspect for worker in (*good, bad)] == [False, False, True]
    (check,) = [check for check in listed(scene, bad).checks if check.suspect]
    assert (check.measure, check.kind, check.results, check.observed) == ("score", "rating", 100, 1.0)
    assert check.expected == pytest.approx(0.5, abs=0.1)
    assert check.p_value < 1e-6


def test_results_and_refusals_are_counted_of_those_that_were_looked_at(
    scene: Scene, fair: Callable[[], float], serve: Callable[..., TestClient]
) -> None:
    evaluate(scene, scene.evaluator, fair)
    (lease,) = scene.opponent_leases(1, budget=30)
    scene.report(*(result(lease, sequence, score=7.0) for sequence in range(30)))
    evaluator, trainer = listed(scene, scene.evaluator), listed(scene, scene.trainer)
    assert (evaluator.results, evaluator.refused) == (100, 0)
    assert (trainer.results, trainer.refused) == (0, 30)
    assert [(check.measure, check.suspect) for check in trainer.checks] == [("refusals", True)]
    brief = LeagueClient(http=serve(review_matches=40))
    assert {worker.id: worker.results for worker in brief.workers().items}[scene.evaluator.id] == 40


def test_excluded_results_are_not_used_for_comparison(scene: Scene, fair: Callable[[], float]) -> None:
    bad = scene.worker("evaluator-2", "evaluator")
    scores = cycle((1.0, 1.0, 0.0))
    evaluate(scene, scene.evaluator, fair)
    evaluate(scene, bad, lambda: next(scores), count=30)
    before = listed(scene, scene.evaluator)
    assert not listed(scene, bad).suspect
    scene.client.quarantine_worker(bad.id, bad.seen_at, "home always wins")
    after = listed(scene, scene.evaluator)
    assert after.checks[0].expected < before.checks[0].expected
    assert (listed(scene, bad).results, listed(scene, bad).checks) == (0, [])
    quarantine = listed(scene, bad).quarantine
    assert quarantine is not None
    assert quarantine.reason == "home always wins"


def test_one_name_is_listed_alone_and_pages_follow_each_other(scene: Scene) -> None:
    assert [worker.id for worker in scene.client.workers(name="trainer-1").items] == [scene.trainer.id]
    assert scene.client.workers(name="nobody").items == []
    first = scene.client.workers(limit=1)
    second = scene.client.workers(limit=1, cursor=first.next_cursor)
    assert {first.items[0].id, second.items[0].id} == {scene.trainer.id, scene.evaluator.id}
    assert second.next_cursor is None


def test_training_matches_are_compared_within_a_rating_period(scene: Scene, database: Database) -> None:
    scene.publish(1)
    snapshot = scene.client.players(scene.environment, kind="snapshot").items[0]
    for _ in range(2):
        scene.evaluate(4, winner=snapshot.id)
        scene.client.close_period(scene.environment)
    with database.read() as session:
        log = review._read_log(session, scene.environment, 100)
        assert log is not None
        training, rating = (
            review._strata(session, scene.environment, replace(log, training=np.full(8, learns)))
            for learns in (True, False)
        )
    pairings = review._group_numbers(log.home, log.away)
    assert rating.tolist() == pairings.tolist()
    assert training.tolist() == review._group_numbers(pairings, np.repeat([0, 1], 4)).tolist()
