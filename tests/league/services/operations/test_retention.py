"""Old leases without matches and the opponents of old draws go; matches and whatever explains them stay."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from sqlalchemy import func, select, update

from league import wire
from league.app import periodic_tasks
from league.background import retention as background_retention
from league.background.retention import RetentionTask
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Base, Draw, Lease, Match, Refusal
from league.errors import UnknownLeaseError
from league.services.matchmaking import explanations
from league.services.operations import retention
from league.services.operations.retention import PrunedCounts
from league.settings import Settings

DAY_S = 86400
MOMENT = timedelta(microseconds=1)
"""The least by which two times of the database differ."""


@pytest.fixture
def old(scene: Scene, time: Any) -> wire.Lease:
    """A lease that one match came from, among others without, all of them long ended; one result was refused."""
    scene.publish(1)
    played, *_ = scene.opponent_leases(4)
    scene.report(result(played), result(played, sequence=7))
    scene.rating_leases(4)
    scene.client.close_period()
    time.advance(100 * DAY_S)
    return played


def count(database: Database, table: type[Base]) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def days_ago(time: Any, days: float) -> datetime:
    moment: datetime = time.now - timedelta(days=days)
    return moment


def prune(database: Database, time: Any, days: float = 90) -> PrunedCounts:
    return sum(retention.prune(database, days_ago(time, days), time.now), PrunedCounts())


def test_old_rows_without_matches_are_deleted(old: wire.Lease, scene: Scene, database: Database, time: Any) -> None:
    before = {table: count(database, table) for table in (Lease, Match, Draw, Refusal)}
    assert before[Refusal] == 1
    expected = retention.survey(database, days_ago(time, 90))
    gone = prune(database, time)
    assert (gone.leases, gone.refusals, gone.draws) == (expected.leases, expected.refusals, expected.draws)
    assert (gone.leases, gone.refusals, gone.draws) == (before[Lease] - 1, 1, before[Draw])
    assert 0 < gone.draw_bytes < expected.draw_bytes
    after = {table: count(database, table) for table in before}
    assert after == {Lease: 1, Match: before[Match], Draw: before[Draw], Refusal: 0}
    assert prune(database, time) == PrunedCounts(0, 0, 0, 0)


def test_young_rows_are_not_deleted(old: wire.Lease, scene: Scene, database: Database, time: Any) -> None:
    leases = count(database, Lease)
    assert prune(database, time, days=101) == PrunedCounts(0, 0, 0, 0)
    assert count(database, Lease) == leases


def test_a_survey_takes_nothing_away(old: wire.Lease, database: Database, time: Any) -> None:
    leases = count(database, Lease)
    assert retention.survey(database, days_ago(time, 90)) == retention.survey(database, days_ago(time, 90))
    assert count(database, Lease) == leases


def test_pruned_lease_keeps_its_explanation_and_pruning_time(
    old: wire.Lease, scene: Scene, database: Database, time: Any
) -> None:
    before = scene.client.explain_lease(old.lease_id)
    assert before.items
    assert before.pruned_at is None
    prune(database, time)
    after = scene.client.explain_lease(old.lease_id)
    assert (after.items, after.pruned_at) == ([], time.now)
    assert (after.branches, after.lease, after.propensity) == (before.branches, before.lease, before.propensity)
    assert [(one.name, one.rule) for one in after.filters] == [(one.name, one.rule) for one in before.filters]


def test_results_of_a_deleted_lease_are_rejected(old: wire.Lease, scene: Scene, database: Database, time: Any) -> None:
    time.advance(-100 * DAY_S)
    unplayed = scene.opponent_leases(1)[0]
    time.advance(100 * DAY_S)
    prune(database, time)
    with pytest.raises(UnknownLeaseError):
        scene.client.explain_lease(unplayed.lease_id)
    assert [answer.status for answer in scene.report(result(unplayed))] == ["rejected"]


def test_a_result_that_is_sent_again_after_years_is_still_a_duplicate(
    old: wire.Lease, scene: Scene, database: Database, time: Any
) -> None:
    prune(database, time)
    assert [answer.status for answer in scene.report(result(old))] == ["duplicate"]


def test_draw_with_a_recent_lease_keeps_its_opponents(
    old: wire.Lease, scene: Scene, database: Database, time: Any
) -> None:
    (young, *_) = scene.opponent_leases(1)  # nothing has happened since: the distribution is the old one
    time.advance(DAY_S)
    prune(database, time)
    explained = scene.client.explain_lease(young.lease_id)
    assert explained.items
    assert explained.pruned_at is None


def test_a_draw_keeps_its_opponents_until_its_last_lease_ended_before_the_limit(
    scene: Scene, database: Database, time: Any
) -> None:
    """A lease that ends exactly at the limit is not older than it."""
    scene.publish(1)
    (lease, *_) = scene.opponent_leases(1)
    scene.report(result(lease))
    time.advance(100 * DAY_S)
    for before, draws_gone in ((lease.expires_at, 0), (lease.expires_at + MOMENT, 1)):
        assert retention.survey(database, before).draws == draws_gone
        assert sum(retention.prune(database, before, time.now), PrunedCounts()).draws == draws_gone
        assert bool(scene.client.explain_lease(lease.lease_id).items) == (not draws_gone)


def test_an_unplayed_lease_stays_until_it_ended_before_the_limit(scene: Scene, database: Database, time: Any) -> None:
    scene.publish(1)
    leases = scene.rating_leases(4)
    ends_at = leases[0].expires_at
    for before, gone in ((ends_at, 0), (ends_at + MOMENT, len(leases))):
        assert retention.survey(database, before).leases == gone
        assert sum(retention.prune(database, before, time.now), PrunedCounts()).leases == gone
    assert count(database, Lease) == 0


def test_rejected_result_at_the_limit_is_not_deleted(scene: Scene, database: Database, time: Any) -> None:
    (lease,) = scene.opponent_leases(1)
    scene.report(result(lease, sequence=7))
    time.advance(1)
    scene.report(result(lease, sequence=8))
    for before in (time.now, time.now + MOMENT):
        assert retention.survey(database, before).refusals == 1
        assert sum(retention.prune(database, before, time.now), PrunedCounts()).refusals == 1
    assert count(database, Refusal) == 0


def test_a_draw_stays_until_it_was_made_before_the_limit(scene: Scene, database: Database, time: Any) -> None:
    """Leases end after their draw was made, except where the clock was set back."""
    scene.opponent_leases(1)
    with database.write() as session:
        made_at = session.scalars(select(Draw.created_at)).one()
        session.execute(update(Lease).values(expires_at=made_at - MOMENT))
    for before, gone in ((made_at, 0), (made_at + MOMENT, 1)):
        assert retention.survey(database, before).draws == gone
        assert sum(retention.prune(database, before, time.now), PrunedCounts()).draws == gone


def test_a_pruned_draw_gets_its_opponents_back_when_it_is_drawn_from_again(
    old: wire.Lease, scene: Scene, database: Database, time: Any
) -> None:
    scene.opponent_leases(1)
    time.advance(100 * DAY_S)
    prune(database, time)
    (again, *_) = scene.opponent_leases(1)
    assert scene.client.explain_lease(again.lease_id).items


def test_a_draw_keeps_its_opponents_for_leases_that_are_just_being_stored(
    old: wire.Lease, scene: Scene, database: Database, time: Any
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            source = session.get_one(Lease, old.lease_id)
            explanations.store(session, explanations.load(session, source.draw_id), time.now)
            pruning = pool.submit(prune, database, time)
            wait([pruning], timeout=0.3)  # unless it waits for the lease
            columns = {column.key: getattr(source, column.key) for column in Lease.__table__.columns}
            session.add(Lease(**columns | {"id": "young", "expires_at": time.now + timedelta(hours=1)}))
        pruning.result()
    assert scene.client.explain_lease("young").items


def test_many_are_pruned_in_many_transactions(
    old: wire.Lease, database: Database, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = retention.survey(database, days_ago(time, 90))
    monkeypatch.setattr(retention, "LEASES_AT_ONCE", 2)
    monkeypatch.setattr(retention, "DRAWS_AT_ONCE", 1)
    assert prune(database, time).leases == expected.leases > 4
    assert retention.survey(database, days_ago(time, 90)) == PrunedCounts(0, 0, 0, 0)


def test_server_works_while_another_process_prunes(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    scene = Scene(LeagueClient(http=serve()))
    scene.publish(1)
    for _ in range(5):
        scene.opponent_leases(2)
        scene.client.close_period()
    time.advance(100 * DAY_S)
    (lease, *_) = scene.opponent_leases(1)
    prune(database, time)
    assert [answer.status for answer in scene.report(result(lease))] == ["accepted"]


# --- by the server itself --------------------------------------------------------------------------------------------


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pruner that does not wait for ten minutes."""
    monkeypatch.setattr(background_retention, "FIRST_S", 0.01)


@pytest.mark.usefixtures("hasty")
def test_a_server_prunes_by_itself_where_that_is_set(
    old: wire.Lease, configure: Callable[..., Settings], database: Database, time: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "league.background.retention")
    own = RetentionTask(database, 90.0, lambda: time.now)
    own.start()
    while not (said := [each.getMessage() for each in caplog.records if each.name == "league.background.retention"]):
        threading.Event().wait(0.01)
    own.stop()
    assert said[0].startswith("pruned ")
    assert count(database, Lease) == 1
    assert count(database, Match) == 1


@ON_SQLITE
@pytest.mark.parametrize(("retention_days", "prunes"), [(None, False), (90.0, True)])
def test_retention_task_runs_only_if_retention_days_is_set(
    serve: Callable[..., TestClient], retention_days: float | None, prunes: bool
) -> None:
    league = serve(retention_days=retention_days).app.state.league  # type: ignore[attr-defined]
    assert (
        any(isinstance(task, RetentionTask) for task in periodic_tasks(league, with_background_process=False)) == prunes
    )


@pytest.mark.usefixtures("hasty")
def test_a_server_that_stops_does_not_wait_for_all_of_it(
    old: wire.Lease, configure: Callable[..., Settings], database: Database, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_arguments: object) -> Iterator[PrunedCounts]:
        while True:
            begun.set()
            yield PrunedCounts()

    begun = threading.Event()
    monkeypatch.setattr(retention, "prune", endless)
    own = RetentionTask(database, 90.0, lambda: time.now)
    own.start()
    assert begun.wait(timeout=120)
    own.stop()
    assert not own._thread.is_alive()
