"""Leases that have ended are settled behind the requests' back, once, and nothing depends on when."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from sqlalchemy import select

from league import wire
from league.background.leases import ExpireLeasesTask
from league.db.engine import Database
from league.db.models import Lease
from league.services.matchmaking import leases
from league.services.workers import activity
from league.services.workers.activity import Activity


def sweep(database: Database, time: Any, limit: int = 100) -> Counter[str]:
    with database.write() as session:
        return leases.sweep(session, time.now, limit)


def states(database: Database) -> Counter[str]:
    with database.read() as session:
        return Counter(session.scalars(select(Lease.state)))


def test_expired_lease_shows_its_final_state(scene: Scene, database: Database, time: Any) -> None:
    played, begun, untouched, given_back = scene.lease(4, budget=2)
    scene.report(result(played), result(played, 1), result(begun))
    scene.client.release(wire.ReleaseRequest(worker_id=scene.trainer.id, lease_ids=[given_back.lease_id]))
    assert sweep(database, time) == Counter()
    time.advance(361)
    (running,) = scene.lease(1)
    assert sweep(database, time) == Counter(played=1, expired=2)
    assert sweep(database, time) == Counter()
    told = {lease.lease_id: scene.client.explain_lease(lease.lease_id).state for lease in (begun, untouched, running)}
    assert told == {begun.lease_id: "expired", untouched.lease_id: "expired", running.lease_id: "open"}
    assert states(database) == Counter(played=1, expired=2, released=1, open=1)


def test_lease_state_is_current_before_the_sweep(scene: Scene, time: Any) -> None:
    played, untouched = scene.lease(2)
    assert scene.client.explain_lease(played.lease_id).state == "open"
    scene.report(result(played))
    assert scene.client.explain_lease(played.lease_id).state == "played"
    time.advance(361)
    assert scene.client.explain_lease(untouched.lease_id).state == "expired"
    assert scene.client.explain_lease(played.lease_id).state == "played"


@pytest.mark.parametrize(("seconds", "running"), [(360 - 1e-6, True), (360, False)])
def test_a_lease_is_open_until_the_moment_it_expires(
    scene: Scene, database: Database, time: Any, seconds: float, running: bool
) -> None:
    (lease,) = scene.lease(1)
    time.advance(seconds)
    assert scene.client.explain_lease(lease.lease_id).state == ("open" if running else "expired")
    with database.read() as session:
        assert activity.of_workers(session, time.now).get(scene.trainer.id, Activity()).open_leases == running
    assert sweep(database, time).total() == (not running)
    request = wire.ReleaseRequest(worker_id=scene.trainer.id, lease_ids=[lease.lease_id])
    assert scene.client.release(request).released == running


def test_a_late_result_counts_though_its_lease_was_swept(scene: Scene, database: Database, time: Any) -> None:
    (lease,) = scene.opponent_leases(1)
    time.advance(361)
    sweep(database, time)
    (answer,) = scene.report(result(lease))
    assert answer.status == "accepted"
    assert answer.match_id is not None
    assert scene.client.match(answer.match_id).late
    assert scene.client.explain_lease(lease.lease_id).state == "expired"


def test_the_longest_ended_are_swept_first_and_no_more_than_the_limit(
    scene: Scene, database: Database, time: Any
) -> None:
    (old,) = scene.lease(1)
    time.advance(10)
    scene.lease(3)
    time.advance(3600)
    assert sweep(database, time, limit=1).total() == 1
    with database.read() as session:
        assert session.scalars(select(Lease.id).where(Lease.state == "expired")).all() == [old.lease_id]


def test_racing_sweepers_settle_every_lease_once(scene: Scene, database_url: str, time: Any) -> None:
    scene.lease(40)
    time.advance(361)
    databases = [Database(database_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        settled = sum(pool.map(lambda database: sweep(database, time).total(), databases))
    for database in databases:
        database.close()
    assert settled == 40


@ON_SQLITE
def test_a_sweeper_settles_all_in_several_transactions_and_counts_them(
    scene: Scene, http: TestClient, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    league = http.app.state.league  # type: ignore[attr-defined]
    scene.lease(7)
    monkeypatch.setattr("league.background.leases.LEASES_PER_TRANSACTION", 3)
    time.advance(361)
    often = league.settings.model_copy(update={"lease_sweep_s": 0.01})
    sweeper = ExpireLeasesTask(league.database, often, league.metrics, lambda: time.now)
    sweeper.start()
    with league.database.read() as session:
        still_open = select(Lease.id).where(Lease.state == "open")
        while session.scalars(still_open).first() is not None:
            session.rollback()
    sweeper.stop()
    assert b'league_leases_settled_total{state="expired"} 7.0' in http.get("/metrics").content
