"""What a process remembers of what results are judged by."""

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene
from sqlalchemy import event
from sqlalchemy.orm import Session

from league.db.engine import Database
from league.services.matchmaking.lease_cache import LeaseCache


@pytest.mark.parametrize("kind", ["training", "rating"])
def test_a_process_remembers_leases_that_it_granted_as_the_database_has_them(
    kind: str, scene: Scene, http: TestClient, database: Database
) -> None:
    scene.publish(1)
    ids = [lease.lease_id for lease in (scene.lease(4) if kind == "training" else scene.rating_leases(4))]
    remembered: LeaseCache = http.app.state.league.lease_cache  # type: ignore[attr-defined]
    nowhere = Session()  # whoever reads from it fails
    with database.read() as session:
        assert remembered.get(nowhere, ids) == LeaseCache().get(session, ids)


def test_a_process_remembers_leases_and_forgets_the_oldest(scene: Scene, database: Database) -> None:
    ids = [lease.lease_id for lease in scene.opponent_leases(3)]
    reads = 0

    def count(*_: object) -> None:
        nonlocal reads
        reads += 1

    cache = LeaseCache(size=2)
    event.listen(database.engine, "before_cursor_execute", count)
    with database.read() as session:
        assert set(cache.get(session, ids[:1])) == {ids[0]}
        assert set(cache.get(session, [ids[1], "elsewhere"])) == {ids[1]}
        before = reads
        cache.get(session, ids[:2])
        assert reads == before
        cache.get(session, ids[2:])
        assert reads == before + 1
        cache.get(session, ids[1:])
        assert reads == before + 1
        assert cache.get(session, ids[:1])[ids[0]].worker_id == scene.trainer.id
        assert reads == before + 2
    event.remove(database.engine, "before_cursor_execute", count)
