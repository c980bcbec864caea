"""Ids are given out before their transactions commit: nobody who reads by ids passes one by that becomes visible later.

A server's writer is stopped right before its commit, holding a lower id, while others commit higher ones. Results with
behaviour take a transaction of several statements; others are one statement, which only PostgreSQL itself can stop.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result
from lock_waiters import PATIENCE_S, wait_for_waiters
from sqlalchemy import Connection, event, text

from league import wire
from league.api.routers import events as stream
from league.client import LeagueClient
from league.db import locks
from league.db.engine import Database
from league.errors import LeagueError

ON_POSTGRES = pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
"""SQLite's writers come one after the other: their ids commit in order."""

SILENCE = text("SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'")
"""How long PostgreSQL bears with a transaction that does nothing, in milliseconds."""


class Stopped:
    """A server whose commits wait for leave.

    Attributes:
        cut_off: Whether PostgreSQL bears with one that waits for a moment only, and not for `silence_ms`.
        silence_ms: For how long the server told PostgreSQL to bear with the last one.
    """

    def __init__(self, http: TestClient) -> None:
        self.client = LeagueClient(http=http)
        self._engine = http.app.state.league.database.engine
        self._arrived, self._leave = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.cut_off, self.silence_ms = False, 0
        event.listen(self._engine, "commit", self._wait)

    def _wait(self, connection: Connection) -> None:
        self.silence_ms = connection.scalar(SILENCE)
        if self.cut_off:
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 1"))
        self._arrived.set()
        assert self._leave.wait(PATIENCE_S)

    def begin(self, call: Callable[[LeagueClient], object]) -> "Future[object]":
        """Make a call; return once it stands before its commit."""
        outcome = self._pool.submit(call, self.client)
        assert self._arrived.wait(PATIENCE_S)
        return outcome

    def go(self) -> None:
        self._leave.set()

    def end(self) -> None:
        self.go()
        self._pool.shutdown()
        event.remove(self._engine, "commit", self._wait)


@pytest.fixture
def stopped(serve: Callable[..., TestClient], scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stopped]:
    """A second API process of the scene's league."""
    monkeypatch.setattr(locks, "IDLE_TIMEOUT_S", 600.0)  # a busy machine may be silent for a while
    server = Stopped(serve())
    yield server
    server.end()


def report(lease: wire.Lease, scene: Scene) -> Callable[[LeagueClient], object]:
    behaviour = wire.Behaviour(measures=["range_m"], home=[1.0], away=[2.0])
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease, behaviour=behaviour)])
    return lambda client: client.report(batch)


def batch_of(scene: Scene, lease: wire.Lease) -> wire.ResultBatch:
    return wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])


def told(http: TestClient, cursor: stream.Cursor) -> list[tuple[stream.Cursor, wire.Event]]:
    return stream._since(http.app.state.league, cursor)


@ON_POSTGRES
def test_period_includes_a_match_committed_out_of_order(
    scene: Scene, stopped: Stopped, http: TestClient, database: Database
) -> None:
    slow, quick = scene.opponent_leases(2)
    late = stopped.begin(report(slow, scene))
    assert scene.report(result(quick))[0].status == "accepted"
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(LeagueClient(http=http).close_period, scene.environment)
        wait_for_waiters(database, 1)
        assert not closing.done()
        stopped.go()
        period = closing.result(PATIENCE_S)
    late.result(PATIENCE_S)
    assert period.matches == 2


@ON_POSTGRES
def test_a_period_takes_in_a_match_that_one_statement_stores_late(
    scene: Scene, serve: Callable[..., TestClient], http: TestClient, database: Database
) -> None:
    slow, quick = scene.opponent_leases(2)
    elsewhere = LeagueClient(http=serve())
    locked = text("SELECT 1 FROM leases WHERE id = :id FOR UPDATE")  # which the check of a foreign key waits for
    with ThreadPoolExecutor(2) as pool:
        with database.engine.begin() as other:
            other.execute(locked, {"id": slow.lease_id})
            late = pool.submit(elsewhere.report, batch_of(scene, slow))
            wait_for_waiters(database, 1, on="transactionid")
            assert scene.report(result(quick))[0].status == "accepted"
            closing = pool.submit(LeagueClient(http=http).close_period, scene.environment)
            wait_for_waiters(database, 1)
            assert not closing.done()
        assert late.result(PATIENCE_S).items[0].status == "accepted"
        assert closing.result(PATIENCE_S).matches == 2


@ON_POSTGRES
def test_event_stream_includes_a_match_committed_out_of_order(scene: Scene, stopped: Stopped, http: TestClient) -> None:
    slow, quick, third = scene.opponent_leases(3)
    late = stopped.begin(report(slow, scene))
    assert scene.report(result(quick))[0].status == "accepted"
    assert told(http, (0, 0)) == []
    stopped.go()
    late.result(PATIENCE_S)
    ((cursor, heard),) = told(http, (0, 0))
    assert heard.details == {"matches": 2}
    scene.report(result(third))
    ((_, heard),) = told(http, cursor)
    assert heard.details == {"matches": 1}


@ON_POSTGRES
def test_a_new_reader_of_the_stream_starts_before_a_match_that_commits_later(
    scene: Scene, stopped: Stopped, http: TestClient, database: Database
) -> None:
    slow, quick = scene.opponent_leases(2)
    late = stopped.begin(report(slow, scene))
    scene.report(result(quick))
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(stream._latest, http.app.state.league)
        wait_for_waiters(database, 1)
        stopped.go()
        cursor = starting.result(PATIENCE_S)
    late.result(PATIENCE_S)
    first, second = (scene.client.matches(lease.home.player_id).items for lease in (slow, quick))
    assert cursor[1] == max(match.id for match in first + second)


@ON_POSTGRES
def test_event_stream_holds_locks_only_briefly(scene: Scene, stopped: Stopped, http: TestClient) -> None:
    leases = scene.opponent_leases(3)
    late = stopped.begin(report(leases[0], scene))
    scene.report(result(leases[1]))
    with ThreadPoolExecutor(2) as pool:
        reading = pool.submit(told, http, (0, 0))
        writing = pool.submit(scene.report, result(leases[2]))
        assert writing.result(PATIENCE_S)[0].status == "accepted"
        assert reading.result(PATIENCE_S) == []
    assert not late.done()


@ON_POSTGRES
def test_events_are_visible_in_id_order(scene: Scene, stopped: Stopped, http: TestClient, database: Database) -> None:
    one, other = scene.publish(1), scene.publish(2)
    late = stopped.begin(lambda client: client.quarantine(one.id, "first"))
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(LeagueClient(http=http).quarantine, other.id, "second")
        wait_for_waiters(database, 1)
        assert told(http, (0, 0)) == []
        stopped.go()
        second.result(PATIENCE_S)
    late.result(PATIENCE_S)
    assert [event.reason for _, event in told(http, (0, 0))] == ["first", "second"]


@ON_POSTGRES
def test_idle_writer_is_disconnected_and_releases_its_locks(scene: Scene, stopped: Stopped, http: TestClient) -> None:
    slow, quick = scene.opponent_leases(2)
    stopped.cut_off = True
    silent = stopped.begin(report(slow, scene))
    assert stopped.silence_ms == 1000 * locks.IDLE_TIMEOUT_S
    scene.report(result(quick))
    assert LeagueClient(http=http).close_period(scene.environment).matches == 1
    stopped.go()
    error = silent.exception(PATIENCE_S)
    assert isinstance(error, LeagueError)
    assert error.status >= 500
    assert scene.matches() == 1
    assert scene.report(result(slow))[0].status == "accepted"
