"""A database that is killed, or full, under a server at work: nothing is lost, and nobody mends it by hand."""

import logging
from collections.abc import Callable

import postgres_server
import psycopg
import pytest
from distant_league import League, until
from kills.witness import Witness
from league_scene import Scene, result
from refused import refused

from league.client import LeagueClient

FULL = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file "base/1": No space left on device' USING ERRCODE = 'disk_full';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON matches EXECUTE FUNCTION refuse();
"""


def test_a_database_killed_again_and_again_loses_no_answered_result(
    serve: Callable[..., League], watch: Callable[..., Witness], postgres: postgres_server.Server
) -> None:
    league = serve(database_url=postgres.url)
    witnesses = [watch(league), watch(league)]
    for _ in range(3):
        before = [witness.memory.answers for witness in witnesses]
        until(lambda before=before: all(w.memory.answers > b + 10 for w, b in zip(witnesses, before, strict=True)))
        failures = [witness.failures for witness in witnesses]
        postgres.kill()
        until(lambda failures=failures: all(w.failures > f for w, f in zip(witnesses, failures, strict=True)))
        postgres.restart()
    for witness in witnesses:
        answers = witness.memory.answers
        until(lambda witness=witness, answers=answers: witness.memory.answers > answers + 10)
        witness.stop()
    assert league.wrong(*(witness.memory for witness in witnesses)) == []


def test_unavailable_database_is_reported_to_clients_and_load_balancers(
    serve: Callable[..., League], postgres: postgres_server.Server
) -> None:
    league = serve(database_url=postgres.url)
    with LeagueClient(http=league.http) as client:
        assert client.health().status == "ok"
        postgres.kill()
        with refused("database-unavailable"):
            client.learners("rps")
        assert "ok" not in client.health().checks["database"]
        postgres.restart()
        assert client.learners("rps").items == []
        assert client.health().status == "ok"


def test_a_full_disk_of_postgresql_refuses_results_until_there_is_room(
    serve: Callable[..., League], postgres: postgres_server.Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "league.api.errors")
    league = serve(database_url=postgres.url)
    scene = Scene(LeagueClient(http=league.http))
    leases = scene.opponent_leases(2)
    scene.report(result(leases[0]))
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(FULL)
        with refused("database-unavailable"):
            scene.report(result(leases[1]))
        connection.execute("DROP TRIGGER full_disk ON matches")
    assert [scene.report(result(lease))[0].status for lease in leases] == ["duplicate", "accepted"]
    assert league.wrong() == []
