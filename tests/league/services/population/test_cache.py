"""What draws see of the population is never older than the database, in whatever order transactions commit."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_history import play_periods
from league_scene import Scene, safetensors, sha256
from sqlalchemy import update

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Rating
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.population import cache as population_cache
from league.services.population import snapshots
from league.services.population.cache import Population, PopulationCache
from league.services.rating_periods.rebuild import rebuild
from league.settings import Settings
from league.storage.factory import open_store
from league.storage.safetensors_header import Header


def drawn(scene: Scene) -> set[int]:
    """Everybody whom the learner may meet."""
    return {item.player_id for item in scene.client.preview(scene.learner.player_id).items}


def test_player_committed_out_of_order_is_still_drawn(
    scene: Scene, database: Database, configure: Callable[..., Settings], time: Any
) -> None:
    settings, slow = configure(), safetensors(1, signature=scene.signature)
    scene.client.upload(slow, sha256(slow))
    request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(slow), step=1)
    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            first = snapshots.publish(session, settings, open_store(settings), Header({}, {}), request, time.now)
            later = pool.submit(scene.publish, 2)
            wait([later], timeout=0.3)  # unless it waits for the first one
            drawn(scene)
        second = later.result()
    assert drawn(scene) >= {first.id, second.id}


def test_ratings_that_were_computed_again_are_drawn_by_at_once(
    scene: Scene, serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    play_periods(scene, time)
    right = scene.client.preview(scene.learner.player_id)
    with database.write() as session:
        session.execute(update(Rating).values(rating=Rating.rating + 100.0 * Rating.player_id))
    other = LeagueClient(http=serve())
    assert other.preview(scene.learner.player_id) != right
    rebuild(database, time.now)
    assert other.preview(scene.learner.player_id) == right


def note(database: Database, time: Any, kind: str, environment: str | None) -> None:
    with database.write() as session:
        audit_log.record(session, kind, Cause("test", "", time.now), environment=environment)


def everybody(cache: PopulationCache, database: Database, scene: Scene) -> Population:
    with database.read() as session:
        return cache.of_player(session, scene.learner.player_id)


@pytest.mark.parametrize(
    ("kind", "environment", "stays"),
    [
        ("regression", "rps", True),
        ("recovery", "rps", True),
        ("retire", "another", True),
        ("retire", "rps", False),
        ("worker quarantine", None, False),
    ],
)
def test_players_are_reloaded_after_a_change(
    scene: Scene, database: Database, time: Any, kind: str, environment: str | None, stays: bool
) -> None:
    cache = PopulationCache()
    first = everybody(cache, database, scene)
    assert everybody(cache, database, scene) is first
    note(database, time, kind, environment)
    second = everybody(cache, database, scene)
    assert (second is first) == stays
    assert everybody(cache, database, scene) is second


def test_session_sees_players_as_of_its_start(scene: Scene, database: Database) -> None:
    scene.publish(1)
    cache = PopulationCache()
    with database.read() as session:
        population_cache.version(session)  # SQLite's transactions begin with what they first read
        scene.publish(2)
        after = everybody(cache, database, scene)
        before = cache.of_player(session, scene.learner.player_id)
    assert len(before.members) == len(after.members) - 1
    assert everybody(cache, database, scene) is after


def test_while_ratings_are_read_again_those_of_the_last_period_do(scene: Scene, database: Database, time: Any) -> None:
    players = play_periods(scene, time, number=1)
    cache, learner = PopulationCache(), scene.learner.player_id
    before = everybody(cache, database, scene)

    def known(*, stale: bool) -> list[Population]:
        with database.autocommit_read() as session:
            return cache.recent(session, learner, population_cache.version(session), stale=stale)

    assert known(stale=False) == [before]
    scene.client.close_period()
    assert known(stale=False) == []
    assert known(stale=True) == [before]
    after = everybody(cache, database, scene)
    assert known(stale=False) == [after]
    assert known(stale=True) == [after, before]
    scene.client.retire(players[0].id, "weak")
    assert known(stale=True) == []
    retired = everybody(cache, database, scene)
    assert known(stale=True) == [retired]


def test_leases_during_recomputation_use_the_previous_distribution(scene: Scene, http: TestClient, time: Any) -> None:
    players = play_periods(scene, time, number=1)
    learner, cache = scene.learner.player_id, http.app.state.league.population  # type: ignore[attr-defined]

    def leased() -> wire.LeaseExplanation:
        return scene.client.explain_lease(scene.lease(1)[0].lease_id)

    before = leased()
    scene.train(5)
    scene.client.close_period()
    with cache.refresh_lock(learner), ThreadPoolExecutor(1) as pool:
        meanwhile = pool.submit(leased).result(120)
    after = leased()
    assert meanwhile.items == before.items
    assert after.learner != before.learner
    with ThreadPoolExecutor(1) as pool:
        with cache.refresh_lock(learner):
            scene.client.retire(players[0].id, "weak")
            waiting = pool.submit(leased)
            wait([waiting], timeout=0.2)
            assert not waiting.done()  # who is retired is drawn no more
        assert players[0].id not in {item.player_id for item in waiting.result(120).items}


def test_concurrent_requests_share_one_computation(scene: Scene, database: Database) -> None:
    with database.read() as session:
        everybody = population_cache.load(session, scene.environment)
    made, at_once = [], threading.Barrier(4)

    def make() -> object:
        made.append(object())
        threading.Event().wait(0.05)  # long enough for the others to ask meanwhile
        return made[-1]

    def ask() -> object:
        at_once.wait(120)
        return everybody.cached("what", make)

    with ThreadPoolExecutor(4) as pool:
        assert [task.result() for task in [pool.submit(ask) for _ in range(4)]] == 4 * made


def test_failed_computation_is_retried_on_the_next_request(scene: Scene, database: Database) -> None:
    with database.read() as session:
        everybody = population_cache.load(session, scene.environment)
    with pytest.raises(ZeroDivisionError):
        everybody.cached("what", lambda: 1 // 0)
    assert everybody.cached("what", lambda: 1) == everybody.cached("what", lambda: 2) == 1
