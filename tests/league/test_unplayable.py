"""Who cannot be played is not drawn for ever, and can come back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene

from league import wire
from league.client import LeagueClient
from league.errors import InvalidRequestError
from league.services import events

REASON = "weights are not finite"


def lease_on(scene: Scene, player: wire.Player, worker: wire.Worker) -> wire.Lease:
    """A lease of the worker that seats the player."""
    while True:
        for lease in scene.lease(64, worker=worker):
            if player.id in (lease.home.player_id, lease.away.player_id):
                return lease


def report(client: LeagueClient, worker: wire.Worker, lease: wire.Lease, player: wire.Player) -> wire.ReleaseAnswer:
    named = [wire.UnplayablePlayer(player_id=player.id, reason=REASON)]
    return client.release(wire.ReleaseRequest(worker_id=worker.id, lease_ids=[lease.lease_id], unplayable=named))


def drawn(scene: Scene, worker: wire.Worker) -> set[int]:
    return {seat.player_id for lease in scene.lease(64, worker=worker) for seat in (lease.home, lease.away)}


def test_one_report_keeps_a_player_from_that_worker_alone_and_for_a_while(scene: Scene, time: Any) -> None:
    snapshot, kept = scene.publish(1), scene.publish(2)
    other = scene.worker("trainer-2", "trainer")
    lease = lease_on(scene, snapshot, scene.trainer)
    answer = report(scene.client, scene.trainer, lease, snapshot)
    assert (answer.released, answer.quarantined) == (1, [])
    assert snapshot.id not in drawn(scene, scene.trainer)
    assert {snapshot.id, kept.id} <= drawn(scene, other)
    told = scene.client.explain_lease(scene.lease(1)[0].lease_id)
    assert {each.name: each.removed for each in told.filters}["playable"] == [snapshot.id]
    assert scene.client.player(snapshot.id).standing == "candidate"
    time.advance(3601)
    assert snapshot.id in drawn(scene, scene.trainer)


def test_an_evaluator_s_report_counts_for_its_pairs(scene: Scene) -> None:
    snapshot = scene.publish(1)
    lease = scene.rating_leases(2)[0]
    report(scene.client, scene.evaluator, lease, snapshot)
    assert scene.rating_leases(2) == []
    scene.publish(2)
    met = {seat.player_id for each in scene.rating_leases(4) for seat in (each.home, each.away)}
    assert met == {scene.baseline().id, snapshot.id + 1}


def test_reports_of_two_workers_quarantine_and_reinstating_is_the_way_back(scene: Scene, time: Any) -> None:
    snapshot = scene.publish(1)
    other = scene.worker("trainer-2", "trainer")
    leases = {worker.id: lease_on(scene, snapshot, worker) for worker in (scene.trainer, other)}
    for _ in range(2):  # the same worker twice is one worker
        assert report(scene.client, scene.trainer, leases[scene.trainer.id], snapshot).quarantined == []
    time.advance(60)
    assert report(scene.client, other, leases[other.id], snapshot).quarantined == [snapshot.id]
    assert scene.client.player(snapshot.id).standing == "quarantined"
    assert snapshot.id not in drawn(scene, scene.worker("trainer-3", "trainer"))

    time.advance(60)
    scene.client.reinstate(snapshot.id, "published again")
    assert snapshot.id in drawn(scene, scene.trainer)
    time.advance(60)
    assert report(scene.client, other, lease_on(scene, snapshot, other), snapshot).quarantined == []
    assert scene.client.player(snapshot.id).standing == "candidate"


def test_the_word_of_a_worker_that_is_not_trusted_does_not_count(scene: Scene, time: Any) -> None:
    snapshot = scene.publish(1)
    other, liar = scene.worker("trainer-2", "trainer"), scene.worker("liar", "trainer")
    leases = {worker.id: lease_on(scene, snapshot, worker) for worker in (scene.trainer, other, liar)}
    scene.client.quarantine_worker(liar.id, time.now, "reports what never was")
    for worker in (liar, scene.trainer):
        assert report(scene.client, worker, leases[worker.id], snapshot).quarantined == []
    assert report(scene.client, other, leases[other.id], snapshot).quarantined == [snapshot.id]


def test_reports_a_long_time_apart_do_not_add_up(scene: Scene, time: Any) -> None:
    snapshot = scene.publish(1)
    other = scene.worker("trainer-2", "trainer")
    report(scene.client, scene.trainer, lease_on(scene, snapshot, scene.trainer), snapshot)
    time.advance(3601)
    assert report(scene.client, other, lease_on(scene, snapshot, other), snapshot).quarantined == []


def test_the_audit_log_says_who_was_quarantined_and_why(scene: Scene, http: TestClient) -> None:
    snapshot = scene.publish(1)
    other = scene.worker("trainer-2", "trainer")
    for worker in (scene.trainer, other):
        report(scene.client, worker, lease_on(scene, snapshot, worker), snapshot)
    with http.app.state.league.database.read() as session:  # type: ignore[attr-defined]
        told = [event for event in events.since(session, 0, 100) if event.kind == "quarantine"]
    assert [(event.player_id, event.actor) for event in told] == [(snapshot.id, "workers")]
    assert REASON in told[0].reason


def test_racing_reports_quarantine_once(scene: Scene, serve: Callable[..., TestClient]) -> None:
    snapshot = scene.publish(1)
    workers = [scene.worker(f"racer-{number}", "trainer") for number in range(4)]
    leases = [lease_on(scene, snapshot, worker) for worker in workers]
    doors = [LeagueClient(http=serve()) for _ in range(2)]

    def race(number: int) -> list[int]:
        return report(doors[number % 2], workers[number], leases[number], snapshot).quarantined

    with ThreadPoolExecutor(4) as pool:
        quarantined = list(pool.map(race, range(4)))
    assert sorted(quarantined) == [[], [], [], [snapshot.id]]


def test_a_baseline_is_kept_from_who_cannot_play_it_but_never_quarantined(scene: Scene) -> None:
    scene.publish(1)
    baseline = scene.baseline()
    for worker in (scene.trainer, scene.worker("trainer-2", "trainer")):
        assert report(scene.client, worker, lease_on(scene, baseline, worker), baseline).quarantined == []
        assert baseline.id not in drawn(scene, worker)
    assert scene.client.player(baseline.id).standing is None


@ON_SQLITE
def test_who_sits_on_no_lease_of_the_call_cannot_be_reported(scene: Scene) -> None:
    snapshot = scene.publish(1)
    lease = lease_on(scene, snapshot, scene.trainer)
    stranger = scene.worker("trainer-2", "trainer")
    with pytest.raises(InvalidRequestError, match=f"unplayable player {snapshot.id}.*name the lease"):
        report(scene.client, stranger, lease, snapshot)
    named = [wire.UnplayablePlayer(player_id=999, reason=REASON)]
    request = wire.ReleaseRequest(worker_id=scene.trainer.id, lease_ids=[lease.lease_id], unplayable=named)
    with pytest.raises(InvalidRequestError, match="unplayable player 999"):
        scene.client.release(request)
    assert scene.client.explain_lease(lease.lease_id).state == "open"
