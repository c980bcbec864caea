"""How often the calls that come most ask PostgreSQL, and wait for its answer."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result
from sqlalchemy import event

from arena.seeding import match_seed
from league import wire
from league.client import LeagueClient
from league.db.engine import Database


@pytest.fixture
def backend() -> str:
    return "postgresql"


@contextmanager
def trips(database: Database) -> Iterator[Callable[[], int]]:
    """Have the driver note what goes to and fro; give what counts how often PostgreSQL was done with something."""
    with tempfile.TemporaryFile("w+b") as notes:

        def begin(connection: object, *_: object) -> None:
            connection.pgconn.trace(notes.fileno())  # type: ignore[attr-defined] - the driver's

        def end(connection: object, *_: object) -> None:
            connection.pgconn.untrace()  # type: ignore[attr-defined] - the driver's

        def count() -> int:
            return os.pread(notes.fileno(), 2**24, 0).count(b"ReadyForQuery")

        event.listen(database.engine, "checkout", begin)
        event.listen(database.engine, "checkin", end)
        try:
            yield count
        finally:
            event.remove(database.engine, "checkout", begin)
            event.remove(database.engine, "checkin", end)


def test_frequent_calls_take_few_trips_to_the_database(serve: Callable[..., TestClient]) -> None:
    http = serve(token_memory_s=60.0)
    scene = Scene(LeagueClient(http=http))
    played = wire.Behaviour(measures=["range_m"], home=[1.0], away=[2.0])
    calls: dict[str, Callable[[list[wire.Lease]], object]] = {
        "heartbeat": lambda _: scene.client.heartbeat(scene.trainer.id),
        "registration": lambda _: scene.worker(scene.trainer.name, "trainer"),
        "leases": lambda _: scene.opponent_leases(2),
        "results": lambda leases: scene.report(*(result(each, 0, seed=match_seed(each.seed, 0)) for each in leases)),
        "results again": lambda leases: scene.report(
            *(result(each, 0, seed=match_seed(each.seed, 0)) for each in leases)
        ),
        "results with behaviour": lambda leases: scene.report(
            result(leases[0], 1, seed=match_seed(leases[0].seed, 1), behaviour=played)
        ),
    }
    taken = dict.fromkeys(calls, 0)
    for _ in range(12):  # drivers have statements prepared that come often, which takes trips of its own
        leases = scene.opponent_leases(2, budget=2)
        for name, call in calls.items():
            with trips(http.app.state.league.database) as count:  # type: ignore[attr-defined] - it is an application
                call(leases)
                taken[name] = count()
    assert taken == {
        "heartbeat": 1,
        "registration": 5,
        "leases": 2,
        "results": 3,
        "results again": 6,
        "results with behaviour": 8,
    }
